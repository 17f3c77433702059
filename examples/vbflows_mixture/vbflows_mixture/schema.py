"""The tables: one that is read, one that is published."""

from __future__ import annotations

from flows.data.kinds import INT64, NUMBER, NUMBERS, TEXT
from flows.data.table import Column, Table

ROWS_IN = Table(
    "rows",
    "Rows of numbers.",
    (
        Column("id", TEXT, "name of the row", accepts=(INT64,), names="row", unique=True),
        Column("features", NUMBERS, "its numbers, as many as in every row", finite=True),
    ),
    row="row",
)

GROUPS = Table(
    "groups",
    "Every row with its group.",
    (
        Column("id", TEXT, "name of the row"),
        Column("group", INT64, "the most probable group"),
        Column("probability", NUMBER, "posterior probability of this group"),
        Column("log_density", NUMBER, "log predictive density of the row, in columns as given"),
    ),
)
