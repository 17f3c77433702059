"""Tables of latent features."""

from __future__ import annotations

from flows.tables.table import (
    ANY,
    CELLS,
    FLAG,
    INT32,
    MEND_CELLS,
    NUMBER,
    ROW_ID,
    ROW_WEIGHT,
    TEXT,
    Column,
    Table,
)

CATEGORIES_IN = Table(
    "table",
    "Rows of categories; measurements are cut into classes, or left out.",
    (ROW_ID,),
    named=(ROW_WEIGHT,),
    others=Column(
        "column of categories",
        ANY,
        "a category: text, number, or true and false; empty is missing",
        nullable=True,
        expected=CELLS,
        remedy=MEND_CELLS,
    ),
)


_ID = Column("id", TEXT, "name of the row")
_COLUMN = Column("column", TEXT, "column of the input")

FEATURE_WEIGHTS = Table(
    "weights",
    "How likely each feature makes each category.",
    (
        _COLUMN,
        Column("category", TEXT, "category, the most frequent first"),
        Column("feature", INT32, "number of the feature; 0: rows without any"),
        Column(
            "mean",
            NUMBER,
            "posterior mean of the weight: log odds of this or a rarer category against the "
            "one before; empty for the most frequent",
            nullable=True,
        ),
        Column(
            "sd",
            NUMBER,
            "posterior sd of the weight; a lower limit with inference multinomial",
            nullable=True,
        ),
        Column(
            "probability",
            NUMBER,
            "share of rows with the category, of rows with this feature alone",
        ),
        Column("ratio", NUMBER, "probability over the share of all rows: 2 is twice as often"),
    ),
)


IMPUTED = Table(
    "imputed",
    "Every missing cell with the probability of each category.",
    (
        _ID,
        _COLUMN,
        Column("category", TEXT, "category"),
        Column("probability", NUMBER, "probability of the category"),
        Column("best", FLAG, "whether it is the most probable"),
    ),
)


HIDDEN = Table(
    "hidden",
    "Known cells that were hidden from the models, with the probability that each gave to the "
    "hidden category.",
    (
        _ID,
        _COLUMN,
        Column("category", TEXT, "the hidden category"),
        Column("mixture", NUMBER, "its probability by the mixture that fills missing cells"),
        Column(
            "logistic",
            NUMBER,
            "empty where the column was not regressed",
            nullable=True,
            label="one logistic regression a column",
        ),
        Column("classes", NUMBER, "their number by the BIC", label="latent classes"),
        Column("shares", NUMBER, "by these alone", label="each column's shares"),
    ),
)


def feature_rows(n_features: int) -> Table:
    """Return the table of rows with one probability a feature."""
    return Table(
        "rows",
        "Every row with the probability of each reported feature.",
        (
            _ID,
            *(
                Column(f"feature_{k + 1}", NUMBER, "probability that the row has it")
                for k in range(n_features)
            ),
        ),
    )
