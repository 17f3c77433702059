"""Tables that every run has."""

from __future__ import annotations

from dataclasses import dataclass

from flows.tables.table import INT64, NUMBER, TEXT, Column, Table


@dataclass(frozen=True)
class Parameter:
    """A row of the table `POSTERIOR`: one global parameter."""

    name: str
    index: str | None
    mean: float
    sd: float | None = None


POSTERIOR = Table(
    "posterior",
    "The fitted global parameters in readable form.",
    (
        Column("name", TEXT, "name of the parameter"),
        Column("index", TEXT, "its index or the name of its coordinate", nullable=True),
        Column("mean", NUMBER, "posterior mean"),
        Column("sd", NUMBER, "posterior standard deviation", nullable=True),
    ),
)


TRACE = Table(
    "trace",
    "The bound after each accepted sweep.",
    (
        Column("iteration", INT64, "number of the sweep, from 0"),
        Column("elbo", NUMBER, "evidence lower bound", unit="nats"),
        Column("seconds", NUMBER, "time since the fit began", unit="s"),
    ),
)
