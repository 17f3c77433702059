"""What is wrong with a file of base counts."""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data import partition, storage
from flows.data.checks import Checker, Found
from flows.data.slabs import ROWS, slabs
from flows.faults import Fault
from flows.variants import read_columns
from flows.variants.against_fasta import Against
from flows.variants.regions import (
    CONTIG_RULE,
    Marks,
    contigs_of,
    named_regions,
    names_a_contig,
    unfit_name,
)
from flows.variants.schema import COUNTS
from flows.variants.settings import VariantSettings
from vbmodels.variants.bases import BASES


@dataclass(frozen=True)
class Rules:
    """What rows of counts must fulfil beside what their table declares.

    Attributes
    ----------
    against
        The FASTA that their locations are compared with; None for none.
    used
        Contigs that the settings name; None for all.
    """

    against: Against | None = None
    used: frozenset[str] | None = None

    @classmethod
    def of(cls, settings: VariantSettings, marks: Marks) -> Rules:
        """Read them off settings, and the versions of the files that these name.

        Raises
        ------
        InputError
            If one of those files is wrong.
        """
        used = _used(settings, marks)
        if settings.fasta is None:
            return cls(None, used)
        return cls(Against(settings, contigs_of(settings, marks)), used)

    @contextmanager
    def opened(self) -> Iterator[Rules]:
        """Hold the FASTA open."""
        with self.against or nullcontext():
            yield self

    def check(self, table: pa.Table, found: Found) -> None:
        """Tell of the rows that break one, in the columns that are there."""
        names = set(table.column_names)
        if "chrom" in names:
            _contigs(table["chrom"], found, self.used)
        if "ref" in names:
            _references(table["ref"], found)
        if names >= {"depth", *BASES}:
            _depth(table, found)
        read_columns.check(table, found)
        if self.against is not None and names >= {"chrom", "pos", "ref"}:
            self.against.check(table, found)


@lru_cache(maxsize=4)
def _used(settings: VariantSettings, marks: Marks) -> frozenset[str] | None:
    regions = named_regions(settings, marks)
    return None if regions is None else frozenset(r.contig for r in regions)


def check_counts(url: str, rules: Rules) -> tuple[int, set[str], list[Fault]]:
    """Read one file slab by slab; return its rows, its samples and every fault."""
    checker = Checker(COUNTS, url)
    samples: set[str | None] = set()
    with rules.opened():
        for table in checker.slabs(slabs(url)):
            if "sample" in table.column_names:
                samples |= set(table["sample"].unique().to_pylist())
            rules.check(table, checker.found)
    return checker.rows, {s for s in samples if s is not None}, checker.found.faults()


def look(url: str) -> tuple[int, set[str], list[Fault]]:
    """Return a file's rows, its samples and the faults of its columns; read the samples alone."""
    checker, footer = partition.look(url, COUNTS)
    samples: set[Any] = set()
    if not checker.found:
        for batch in storage.read_batches(url, ROWS, ["sample"], footer):
            samples |= set(batch.column("sample").unique().cast(pa.large_binary()).to_pylist())
    named = {s.decode(errors="replace") for s in samples if s is not None}
    return checker.rows, named, checker.found.faults()


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
