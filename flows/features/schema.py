"""Tables of latent features."""

from __future__ import annotations

from flows.data.table import ANY, FLAG, INT32, NUMBER, ROW_ID, ROW_WEIGHT, TEXT, Column, Table

CATEGORIES_IN = Table(
    "table",
    "Rows of categories; numbers that are measurements are cut into classes, or left out.",
    (ROW_ID,),
    named=(ROW_WEIGHT,),
    others=Column(
        "column of categories",
        ANY,
        "a category, as text, number, or true and false; empty is missing",
        nullable=True,
        expected="numbers, text, dates, or true and false",
        remedy="write each cell as one of these, or leave the column out (--exclude)",
    ),
)


FEATURE_WEIGHTS = Table(
    "weights",
    "How likely each feature makes each category.",
    (
        Column("column", TEXT, "column of the input"),
        Column("category", TEXT, "category, in the order of how often they occur"),
        Column("feature", INT32, "number of the feature; 0: a row without any"),
        Column(
            "mean",
            NUMBER,
            "posterior mean of the weight: log odds of this or a rarer category against the one "
            "before; empty for the most frequent category",
            nullable=True,
        ),
        Column(
            "sd",
            NUMBER,
            "posterior sd of the weight; of inference multinomial and laplace, which take the "
            "rows' features as known, a lower limit",
            nullable=True,
        ),
        Column(
            "probability",
            NUMBER,
            "share of rows with the category, 0 to 1, of rows with this feature alone",
        ),
        Column("ratio", NUMBER, "probability over the share of all rows: 2 is twice as often"),
    ),
)


IMPUTED = Table(
    "imputed",
    "Every missing cell with the probability of each category.",
    (
        Column("id", TEXT, "name of the row"),
        Column("column", TEXT, "column of the input"),
        Column("category", TEXT, "category"),
        Column("probability", NUMBER, "probability of the category, 0 to 1"),
        Column("best", FLAG, "whether it is the most probable one"),
    ),
)


HIDDEN = Table(
    "hidden",
    "Known cells that were hidden from the models while they learned, with the probability that "
    "each gave to the hidden category.",
    (
        Column("id", TEXT, "name of the row"),
        Column("column", TEXT, "column of the input"),
        Column("category", TEXT, "the hidden category"),
        Column("mixture", NUMBER, "its probability by the mixture that fills missing cells"),
        Column(
            "logistic",
            NUMBER,
            "by one logistic regression a column; empty where the column was not regressed",
            nullable=True,
        ),
        Column("classes", NUMBER, "by latent classes, their number by the BIC"),
        Column("shares", NUMBER, "by the column's shares"),
    ),
)


def feature_rows(n_features: int) -> Table:
    """Return the table of rows with one probability a feature."""
    return Table(
        "rows",
        "Every row with the probability of each reported feature.",
        (
            Column("id", TEXT, "name of the row"),
            *(
                Column(f"feature_{k + 1}", NUMBER, "probability that the row has it, 0 to 1")
                for k in range(n_features)
            ),
        ),
    )
