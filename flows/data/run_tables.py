"""Tables that every run has."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from flows.data.table import TEXT, Column, Table


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
        Column("mean", pa.float64(), "posterior mean"),
        Column("sd", pa.float64(), "posterior standard deviation", nullable=True),
    ),
)


TRACE = Table(
    "trace",
    "The bound after each accepted sweep.",
    (
        Column("iteration", pa.int64(), "number of the sweep, from 0"),
        Column("elbo", pa.float64(), "evidence lower bound", unit="nats"),
        Column("seconds", pa.float64(), "time since the fit began", unit="s"),
    ),
)
