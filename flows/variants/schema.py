"""Tables of variant calls."""

from __future__ import annotations

from flows.tables.table import FLAG, INT64, NUMBER, TEXT, Bound, Column, Table, list_of, optional
from vbmodels.variants.options import BASES

MOST_POS = 2**29  # what a tabix index can hold
_COUNT = (Bound("a count of 0 or more", least=0), Bound("a count below 2^31", most=2**31 - 1))

_SQUARES = "sum of their squares"
READ_SUMS = {
    "base_quality": "sum of the qualities of the base",
    "base_quality_2": _SQUARES,
    "mapping_quality": "sum of the reads' mapping qualities",
    "mapping_quality_2": _SQUARES,
    "to_end": "sum of the distances to the read's nearest unclipped end, in bases",
    "to_end_2": _SQUARES,
    "near_indel": "reads with an indel within 5 bases",
    "clipped": "reads with a clipped end",
    "mismatches": "sum of confident mismatches elsewhere in the reads",
    "many_mismatches": "reads with more than 2 of them within 10 bases",
    "no_base_quality": "reads without base qualities (255), in no sum of them",
}
"""What is known of the reads of an allele: sums, in the order of `tally_kernels`."""

_PLACE = (
    Column("sample", TEXT, "name of the case", label="case"),
    Column("chrom", TEXT, "contig"),
    Column("pos", INT64, "position, from 1"),
    Column("ref", TEXT, "reference base"),
)
_CALL = (
    Column(
        "prob",
        NUMBER,
        "probability of a variant; with test=posterior_difference, of a rate above tau",
    ),
    Column("q_value", NUMBER, "least false discovery rate at which it is called", label="q-value"),
    Column("called", FLAG, "whether it is called, before filters"),
    Column("filter", TEXT, "PASS, or why it is not a call"),
)

SHEET = Table(
    "sample sheets",
    "A sample sheet: one row for each BAM or CRAM file.",
    (
        Column("sample", TEXT, "name of the sample"),
        Column("path", TEXT, "the BAM or CRAM file, relative to the sheet"),
        Column("replicate", TEXT, "name of the replicate; by default its place", required=False),
        Column("role", TEXT, "case, control or panel", required=False),
    ),
    formats="CSV or TSV",
)

COUNTS = Table(
    "counts",
    "Base counts in place of a sheet: one row a location and replicate; lists, for the filters "
    "of reads, have four numbers, for A, C, G and T.",
    (
        Column("chrom", TEXT, "contig", accepts=(INT64,)),
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
        Column("sample", TEXT, "name of the sample", accepts=(INT64,)),
        Column("replicate", TEXT, "name of the replicate", accepts=(INT64,)),
        *(
            Column(base, INT64, f"reads that show {base}", unit="reads", bounds=_COUNT)
            for base in BASES
        ),
        optional(
            "depth",
            INT64,
            "reads at the location, at least the sum of the counts",
            unit="reads",
            bounds=(Bound("a depth below 2^63", most=2**63 - 2),),
        ),
        optional("deleted", INT64, "reads with a deletion there", unit="reads", bounds=_COUNT),
        *(
            optional(name, list_of(INT64), meaning)
            for name, meaning in (("forward", "reads on the forward strand"), *READ_SUMS.items())
        ),
    ),
    formats="Parquet, JSON lines, Arrow, Excel, ODS, SPSS, Stata or SAS (CSV and TSV are sample "
    "sheets)",
    or_else=SHEET,
)


def _rates(sample: str) -> tuple[Column, ...]:
    return (
        Column(f"{sample}_mean", NUMBER, f"posterior mean of the {sample}'s rate"),
        Column(f"{sample}_sd", NUMBER, f"posterior sd of the {sample}'s rate"),
        Column(f"{sample}_q05", NUMBER, f"5 % quantile of the {sample}'s rate"),
        Column(f"{sample}_q95", NUMBER, f"95 % quantile of the {sample}'s rate"),
        Column(f"{sample}_depth", INT64, f"reads of the {sample}", unit="reads"),
        Column(
            f"{sample}_reads", INT64, f"reads of the {sample} that show the allele", unit="reads"
        ),
    )


LOCI = Table(
    "loci",
    "Every location with its most probable allele, and others that are called.",
    (
        *_PLACE,
        Column("alt", TEXT, "allele"),
        *_rates("case"),
        *_rates("control"),
        *_CALL,
    ),
)

INDELS = Table(
    "indels",
    "Every insertion and deletion that two reads show or that is called.",
    (
        Column("sample", TEXT, "name of the case", label="case"),
        Column("chrom", TEXT, "contig"),
        Column("pos", INT64, "position of the base before the allele, from 1"),
        Column("ref", TEXT, "reference, as in the VCF"),
        Column("alt", TEXT, "allele"),
        Column("kind", TEXT, "type of error that it would be"),
        *_rates("case"),
        *_rates("control"),
        *_CALL,
    ),
)

DETECTION = Table(
    "detection",
    "What could have been found at every location (two_groups).",
    (
        *_PLACE,
        Column("case_depth", INT64, "reads of the case", unit="reads"),
        Column("control_depth", INT64, "reads of the control", unit="reads"),
        Column(
            "limit",
            NUMBER,
            "share of the reads that an allele needs to be called with a probability of 0.95 "
            "(the worst of the three); empty where none would be",
            nullable=True,
        ),
    ),
)
