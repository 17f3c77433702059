"""The tables: one that is read, one that is published."""

from flows.tables.table import INT64, NUMBER, TEXT, Bound, Column, Table

COUNTS_IN = Table(
    "counts",
    "Groups with two counts each.",
    (
        Column("group", TEXT, "name of the group", names="group", unique=True),
        *(
            Column(
                name,
                INT64,
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
        Column("mean", NUMBER, "posterior mean of its rate"),
        Column("sd", NUMBER, "its posterior standard deviation"),
    ),
)
