"""Tables of variant calls."""

from __future__ import annotations

from flows.data.kinds import FLAG, INT64, NUMBER, TEXT
from flows.data.table import Bound, Column, Table
from vbmodels.variants.bases import BASES

MOST_POS = 2**29  # what a tabix index can hold
_COUNT = (
    Bound("a count of 0 or more", least=0),
    Bound("a count below 2^31", most=2**31 - 1),
)

COUNTS = Table(
    "counts",
    "Base counts: one row a location and replicate.",
    (
        Column("chrom", TEXT, "contig"),
        Column(
            "pos",
            INT64,
            "position, from 1",
            bounds=(
                Bound("a position from 1", least=1),
                Bound("a position below 2^29 (.tbi)", most=MOST_POS - 1),
            ),
        ),
        Column("ref", TEXT, "reference base"),
        Column("sample", TEXT, "name of the sample"),
        Column("replicate", TEXT, "name of the replicate", accepts=(INT64,)),
        *(
            Column(base, INT64, f"reads that show {base}", unit="reads", bounds=_COUNT)
            for base in BASES
        ),
        Column(
            "depth",
            INT64,
            "reads at the location; counts may not exceed it",
            nullable=True,
            required=False,
            unit="reads",
            bounds=(Bound("a depth below 2^63", most=2**63 - 2),),
        ),
    ),
)


def _rates(sample: str) -> tuple[Column, ...]:
    return (
        Column(f"{sample}_mean", NUMBER, f"posterior mean of the {sample}'s rate"),
        Column(f"{sample}_sd", NUMBER, f"posterior sd of the {sample}'s rate"),
        Column(f"{sample}_q05", NUMBER, "its 5 % quantile"),
        Column(f"{sample}_q95", NUMBER, "its 95 % quantile"),
        Column(f"{sample}_depth", INT64, f"reads of the {sample}", unit="reads"),
        Column(f"{sample}_reads", INT64, "reads of the allele", unit="reads"),
    )


LOCI = Table(
    "loci",
    "Every location with its most probable allele, and any further allele that is called.",
    (
        Column("chrom", TEXT, "contig"),
        Column("pos", INT64, "position, from 1"),
        Column("ref", TEXT, "reference base"),
        Column("alt", TEXT, "allele"),
        *_rates("case"),
        *_rates("control"),
        Column("prob", NUMBER, "probability of a variant; for posterior_difference P(>tau)"),
        Column("q_value", NUMBER, "least false discovery rate at which it is called"),
        Column("called", FLAG, "whether it is called, before filters"),
        Column("filter", TEXT, "PASS, or why it is not a call"),
    ),
)
