"""Tables of the mixture of experts."""

from __future__ import annotations

from collections.abc import Sequence

from flows.tables.table import (
    ANY,
    CELLS,
    HELD_OUT,
    HIGH,
    INT32,
    INT64,
    LOW,
    MEND_CELLS,
    NUMBER,
    ROW_ID,
    ROW_WEIGHT,
    SD,
    TEXT,
    Bound,
    Column,
    Kind,
    Table,
    optional,
)

ROW_GROUP = optional(
    "group",
    TEXT,
    "what rows are of, such as a patient: they are held out together",
    accepts=(INT64,),
)
ROW_EXPOSURE = Column(
    "exposure",
    NUMBER,
    "what the row's count is of, such as years or people (--column exposure=YOURS)",
    accepts=(INT64,),
    finite=True,
    bounds=(Bound("an exposure above 0", least=1e-9, remedy="correct it or leave it out"),),
)
ROWS_IN = Table(
    "table",
    "Rows of numbers, categories and dates, some of them with a label.",
    (
        ROW_ID,
        optional(
            "label",
            ANY,
            "label; empty where it is to be predicted",
            expected="labels (text, numbers, or true and false)",
            remedy="write each label as one text or number",
        ),
    ),
    named=(ROW_WEIGHT, ROW_GROUP, ROW_EXPOSURE),
    others=Column(
        "column that predicts",
        ANY,
        "a number, category or date; empty is missing",
        nullable=True,
        expected=CELLS,
        remedy=MEND_CELLS,
    ),
)


_ID = Column("id", TEXT, "name of the row")
_LABEL = Column("label", TEXT, "its label in the file; empty without", nullable=True)
_NUMBER = Column("label", NUMBER, "its number in the file; empty without", nullable=True)
_AS_GIVEN = {
    ROW_GROUP.name: Column(ROW_GROUP.name, TEXT, "its group in the file", nullable=True),
    ROW_EXPOSURE.name: Column(ROW_EXPOSURE.name, NUMBER, "its exposure in the file"),
    ROW_WEIGHT.name: ROW_WEIGHT,
}


_WITHOUT = "prediction without this row, its copies and its group; empty where no fit had its label"


def _tested(kind: Kind, present: Sequence[str]) -> list[Column]:
    """Return the last columns of the rows: how each was tested, its group, its exposure."""
    columns = [_AS_GIVEN[name] for name in present]
    return [Column("without_it", kind, _WITHOUT, nullable=True), HELD_OUT, *columns]


def expert_rows(n_experts: int, label: str, present: Sequence[str] = ()) -> Table:
    """Return the table of rows with a probability and one responsibility an expert."""
    meaning = "probability that this expert predicts the row (given its label, if known)"
    return Table(
        "rows",
        "Every row with the probability of its label and the share of each expert.",
        (
            _ID,
            _LABEL,
            Column(
                probability_of(label),
                NUMBER,
                f"probability that the label is {label}",
                label=f"P({label})",
            ),
            *(Column(f"expert_{k + 1}", NUMBER, meaning) for k in range(n_experts)),
            *_tested(NUMBER, present),
        ),
    )


def number_rows(present: Sequence[str] = ()) -> Table:
    """Return the table of rows with a predicted number."""
    return Table(
        "rows",
        "Every row with its label and its predicted number.",
        (
            _ID,
            _NUMBER,
            Column("predicted", NUMBER, "predicted number (mean), in the label's unit"),
            SD,
            LOW,
            HIGH,
            *_tested(NUMBER, present),
        ),
    )


def class_rows(labels: Sequence[str], present: Sequence[str] = ()) -> Table:
    """Return the table of rows with the probability of each of several labels."""
    return Table(
        "rows",
        "Every row with the most probable label and the probability of each.",
        (
            _ID,
            _LABEL,
            Column("predicted", TEXT, "most probable label"),
            *(
                Column(
                    probability_of(label), NUMBER, "probability of this label", label=f"P({label})"
                )
                for label in labels
            ),
            *_tested(TEXT, present),
        ),
    )


def probability_of(label: str) -> str:
    """Return the name of the column of a label's probabilities."""
    return f"probability_{label}"


def model_column(model: str, label: str = "") -> str:
    """Return the name of the column of what a model predicts; of one of several labels."""
    return f"{model}: {label}" if label else model


def tested_rows(
    models: Sequence[str], labels: Sequence[str], is_number: bool, is_weighted: bool
) -> Table:
    """Return the table of tested rows with what each model predicts, without their labels.

    ``labels`` are those of several classes; of two, and of a number, each model has one column.
    """
    meaning = "predicted number, by this model" if is_number else "probability, by this model"
    return Table(
        "tested",
        "What this model and others predict of tested rows without their labels.",
        (
            _ID,
            _NUMBER if is_number else _LABEL,
            Column("unit", INT64, "rows of one number (copies, groups) were left out together"),
            *((ROW_WEIGHT,) if is_weighted else ()),
            *((LOW, HIGH) if is_number else ()),
            *(
                Column(model_column(model, label), NUMBER, meaning)
                for model in models
                for label in labels or [""]
            ),
        ),
    )


EXPERTS = Table(
    "experts",
    "Weights of the additive part, the experts and their gates, on the scale of the fit.",
    (
        Column("expert", INT32, "number of the expert; 0: the additive part"),
        Column(
            "role",
            TEXT,
            "additive: shared by all experts; expert: what it predicts, or adds; gate: where "
            "it is responsible",
        ),
        Column(
            "column",
            TEXT,
            "column, function of its curve, step (column > knot), or intercept",
        ),
        Column("mean", NUMBER, "posterior mean of the weight"),
        Column("sd", NUMBER, "its posterior standard deviation"),
    ),
)


CLASS_EXPERTS = Table(
    "experts",
    "The same for each label against the rest.",
    (Column("label", TEXT, "the label"), *EXPERTS.columns),
)
