"""What is wrong with a file of base counts."""

from __future__ import annotations

import contextlib
from collections.abc import Container

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data.checks import Checker, Found
from flows.data.slabs import slabs
from flows.faults import Fault
from flows.variants import read_columns
from flows.variants.against_fasta import Against
from flows.variants.regions import CONTIG_RULE, names_a_contig, unfit_name
from flows.variants.schema import COUNTS
from vbmodels.variants.bases import BASES


def check_counts(
    url: str, against: Against | None = None, used: Container[str] | None = None
) -> tuple[int, set[str], list[Fault]]:
    """Read one file slab by slab; return its rows, its samples and every fault.

    Parameters
    ----------
    url
        The file.
    against
        The FASTA that its locations are compared with; None for none.
    used
        Contigs that the settings name; None for all.
    """
    checker = Checker(COUNTS, url)
    samples: set[str | None] = set()
    with against or contextlib.nullcontext():
        for table in checker.slabs(slabs(url)):
            names = set(table.column_names)
            if "sample" in names:
                samples |= set(table["sample"].unique().to_pylist())
            if "chrom" in names:
                _contigs(table["chrom"], checker.found, used)
            if "ref" in names:
                _references(table["ref"], checker.found)
            if names >= {"depth", *BASES}:
                _depth(table, checker.found)
            read_columns.check(table, checker.found)
            if against is not None and names >= {"chrom", "pos", "ref"}:
                against.check(table, checker.found)
    return checker.rows, {s for s in samples if s is not None}, checker.found.faults()


def _contigs(chroms: pa.ChunkedArray, found: Found, used: Container[str] | None) -> None:
    names = [c for c in chroms.unique().drop_null().to_pylist() if used is None or c in used]
    rows = {chroms.index(c).as_py(): c for c in names if not names_a_contig(c)}
    found.rows(sorted(rows), "chrom", CONTIG_RULE, lambda row: unfit_name(rows[row]),
               "rename it, or name the other contigs with --set bed=")  # fmt: skip


def _references(bases: pa.ChunkedArray, found: Found) -> None:
    length = pc.fill_null(pc.utf8_length(bases), 1).to_numpy()
    found.rows(np.flatnonzero(length != 1), "ref", "one reference base",
               lambda row: repr(bases[row].as_py()))  # fmt: skip


def _depth(table: pa.Table, found: Found) -> None:
    total = sum(pc.fill_null(table[base], 0).to_numpy() for base in BASES)
    depth = pc.fill_null(table["depth"], 2**63 - 1).to_numpy()
    found.rows(np.flatnonzero(depth < total), "depth", "at least the sum of the counts",
               lambda row: str(depth[row]))  # fmt: skip
