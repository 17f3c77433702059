"""Tables of variant calls."""

from __future__ import annotations

import pyarrow as pa

from flows.data.table import TEXT, Column, Table

COUNTS = Table(
    "counts",
    "Base counts: one row a location and replicate.",
    (
        Column("chrom", TEXT, "contig"),
        Column("pos", pa.int64(), "position, from 1"),
        Column("ref", TEXT, "reference base"),
        Column("sample", TEXT, "name of the sample"),
        Column("replicate", TEXT, "name of the replicate", accepts=(pa.int64(),)),
        Column("A", pa.int64(), "reads that show A", unit="reads"),
        Column("C", pa.int64(), "reads that show C", unit="reads"),
        Column("G", pa.int64(), "reads that show G", unit="reads"),
        Column("T", pa.int64(), "reads that show T", unit="reads"),
        Column(
            "depth",
            pa.int64(),
            "reads at the location; counts may not exceed it",
            nullable=True,
            required=False,
            unit="reads",
        ),
    ),
)


def _rates(sample: str) -> tuple[Column, ...]:
    return (
        Column(f"{sample}_mean", pa.float64(), f"posterior mean of the {sample}'s rate"),
        Column(f"{sample}_sd", pa.float64(), f"posterior sd of the {sample}'s rate"),
        Column(f"{sample}_q05", pa.float64(), "its 5 % quantile"),
        Column(f"{sample}_q95", pa.float64(), "its 95 % quantile"),
        Column(f"{sample}_depth", pa.int64(), f"reads of the {sample}", unit="reads"),
        Column(f"{sample}_reads", pa.int64(), "reads of the allele", unit="reads"),
    )


LOCI = Table(
    "loci",
    "Every location with its most probable allele, and any further allele that is called.",
    (
        Column("chrom", TEXT, "contig"),
        Column("pos", pa.int64(), "position, from 1"),
        Column("ref", TEXT, "reference base"),
        Column("alt", TEXT, "allele"),
        *_rates("case"),
        *_rates("control"),
        Column("prob", pa.float64(), "probability of a variant; for posterior_difference P(>tau)"),
        Column("q_value", pa.float64(), "least false discovery rate at which it is called"),
        Column("called", pa.bool_(), "whether it is called, before filters"),
        Column("filter", TEXT, "PASS, or why it is not a call"),
    ),
)
