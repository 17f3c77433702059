"""Tables of the mixture of experts."""

from __future__ import annotations

from collections.abc import Sequence

from flows.data.table import (
    ANY,
    FLAG,
    INT32,
    INT64,
    NUMBER,
    ROW_ID,
    ROW_WEIGHT,
    TEXT,
    Column,
    Kind,
    Table,
    optional,
)

ROW_GROUP = optional(
    "group",
    TEXT,
    "what several rows are of, such as a patient: such rows are held out together",
    accepts=(INT64,),
)
ROWS_IN = Table(
    "table",
    "Rows of numbers, categories and dates, some of them with a label.",
    (
        ROW_ID,
        optional(
            "label",
            ANY,
            "label of the row; empty where it is to be predicted",
            expected="labels (text, numbers, or true and false)",
            remedy="write each row's class as one text or number",
        ),
    ),
    named=(ROW_WEIGHT, ROW_GROUP),
    others=Column(
        "column that predicts",
        ANY,
        "a number, category or date that predicts; empty is missing",
        nullable=True,
        expected="numbers, text, dates, or true and false",
        remedy="write each cell as one of these, or leave the column out (--exclude)",
    ),
)


_ID = Column("id", TEXT, "name of the row")
_LABEL = Column("label", TEXT, "label of the row, as the file has it; empty without", nullable=True)
_NUMBER = Column("label", NUMBER, "number of the row in the file; empty without", nullable=True)
_LOW = Column("low", NUMBER, "lower end of the row's 95 % interval")
_HIGH = Column("high", NUMBER, "upper end of the row's 95 % interval")
_HELD_OUT = Column("held_out", FLAG, "whether its label was kept from the fit, for testing")
_GROUP = Column("group", TEXT, "what the row is of, as the file has it", nullable=True)


_WITHOUT = (
    "prediction by a fit without this row, its copies and its group; empty where the row is held "
    "out of every fit, or has no label"
)


def _tested(kind: Kind, grouped: bool) -> list[Column]:
    """Return the last columns of the rows: how each was tested, and its group."""
    found = [Column("without_it", kind, _WITHOUT, nullable=True), _HELD_OUT]
    return [*found, _GROUP] if grouped else found


def expert_rows(n_experts: int, label: str, grouped: bool = False) -> Table:
    """Return the table of rows with a probability and one responsibility an expert."""
    meaning = "probability, 0 to 1, that this expert predicts the row (given its label, if known)"
    return Table(
        "rows",
        "Every row with its label, its probability and the share of each expert in it.",
        (
            _ID,
            _LABEL,
            Column(probability_of(label), NUMBER, f"probability that the label is {label}, 0 to 1"),
            *(Column(f"expert_{k + 1}", NUMBER, meaning) for k in range(n_experts)),
            *_tested(NUMBER, grouped),
        ),
    )


def number_rows(grouped: bool = False) -> Table:
    """Return the table of rows with a predicted number."""
    return Table(
        "rows",
        "Every row with its label and its predicted number.",
        (
            _ID,
            _NUMBER,
            Column("predicted", NUMBER, "predicted number (its mean), in the unit of the label"),
            Column("sd", NUMBER, "standard deviation of the row's number around it"),
            _LOW,
            _HIGH,
            *_tested(NUMBER, grouped),
        ),
    )


def class_rows(labels: Sequence[str], grouped: bool = False) -> Table:
    """Return the table of rows with the probability of each of several labels."""
    return Table(
        "rows",
        "Every row with its label, the most probable label and the probability of each.",
        (
            _ID,
            _LABEL,
            Column("predicted", TEXT, "most probable label"),
            *(
                Column(probability_of(one), NUMBER, "probability of this label, 0 to 1")
                for one in labels
            ),
            *_tested(TEXT, grouped),
        ),
    )


def probability_of(label: str) -> str:
    """Return the name of the column of a label's probabilities."""
    return f"probability_{label}"


def model_column(model: str, label: str = "") -> str:
    """Return the name of the column of what a model predicts; of one of several labels."""
    return f"{model}: {label}" if label else model


def tested_rows(models: Sequence[str], labels: Sequence[str], is_number: bool) -> Table:
    """Return the table of tested rows with what each model predicts, without their labels.

    ``labels`` are those of several classes; of two, and of a number, each model has one column.
    """
    meaning = "predicted number, by this model" if is_number else "probability, by this model"
    return Table(
        "tested",
        "Every tested row with what this model and others predict without its label.",
        (
            _ID,
            _NUMBER if is_number else _LABEL,
            Column("unit", INT64, "rows of one number, copies or a group, were left out together"),
            *((_LOW, _HIGH) if is_number else ()),
            *(
                Column(model_column(model, label), NUMBER, meaning)
                for model in models
                for label in labels or [""]
            ),
        ),
    )


EXPERTS = Table(
    "experts",
    "Weights of the additive part, and of every expert and its gate, on the scale of the fit.",
    (
        Column("expert", INT32, "number of the expert, from 1; 0 for the additive part"),
        Column(
            "role",
            TEXT,
            "additive: the part that all experts share; expert: what it predicts, or adds to that; "
            "gate: where it is responsible",
        ),
        Column(
            "column",
            TEXT,
            "name of the column, of a function of its curve, of a step (column > knot), or "
            "intercept",
        ),
        Column("mean", NUMBER, "weight: posterior mean, on the scale of the fit"),
        Column("sd", NUMBER, "posterior standard deviation of the weight"),
    ),
)


CLASS_EXPERTS = Table(
    "experts",
    "The same for each of several labels, fitted against the rest.",
    (Column("label", TEXT, "the label"), *EXPERTS.columns),
)
