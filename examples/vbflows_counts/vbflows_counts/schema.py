"""The tables: one that is read, one that is published."""

from __future__ import annotations

import pyarrow as pa

from flows.data.table import TEXT, Bound, Column, Table

COUNTS_IN = Table(
    "counts",
    "Groups with two counts each.",
    (
        Column("group", TEXT, "name of the group", names="group", unique=True),
        *(
            Column(
                name,
                pa.int64(),
                "a count",
                bounds=(Bound("a number from 0 on", least=0, remedy="leave the group out"),),
            )
            for name in ("first", "second")
        ),
    ),
    row="group",
)

RATES = Table(
    "rates",
    "Every group with the posterior of its rate.",
    (
        Column("group", TEXT, "name of the group"),
        Column("mean", pa.float64(), "posterior mean of its rate"),
        Column("sd", pa.float64(), "its posterior standard deviation"),
    ),
)
