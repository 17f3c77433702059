"""The tables: one that is read, one that is published."""

from __future__ import annotations

from flows.data.kinds import INT8, INT32, INT64, NUMBER, NUMBERS, TEXT
from flows.data.table import Column, Table

ROWS_IN = Table(
    "rows",
    "Rows of numbers with a label of two kinds.",
    (
        Column("id", TEXT, "name of the row", accepts=(INT64,), names="row", unique=True),
        Column("label", INT64, "0 or 1; null where it is to be told", nullable=True, required=False,
               accepts=(INT8, INT32), values=(0, 1)),
        Column("features", NUMBERS, "its numbers, as many as in every row", finite=True),
    ),
    row="row",
)  # fmt: skip

LABELS = Table(
    "labels",
    "Every row with the probability of its label.",
    (
        Column("id", TEXT, "name of the row"),
        Column("label", INT64, "the label that was given", nullable=True),
        Column("probability", NUMBER, "posterior probability of 1"),
        Column("mean", NUMBER, "posterior mean of its logit"),
        Column("sd", NUMBER, "posterior standard deviation of its logit"),
    ),
)
