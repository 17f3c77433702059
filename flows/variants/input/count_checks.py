"""What is wrong with files of base counts, by themselves and against their FASTA."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pysam

from flows import storage
from flows.faults import Fault
from flows.tables import partition
from flows.tables.checks import FileFaults
from flows.tables.partition import ROWS
from flows.variants.input.alignment_checks import ALIGNED_TO
from flows.variants.input.counts import check_reads
from flows.variants.reads.alignments import described, local_fasta, quiet
from flows.variants.reads.contigs import (
    CONTIG_RULE,
    RENAME,
    Marks,
    contigs_of,
    in_file,
    names_a_contig,
    other_names,
    unfit_name,
)
from flows.variants.reads.reads import base_codes
from flows.variants.reads.regions import named_regions
from flows.variants.schema import COUNTS
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray
from vbmodels.variants.counts import BASES


@dataclass(frozen=True)
class Rules:
    """What rows of counts must fulfil beyond what their table declares.

    ``against``: the FASTA that their locations are compared with; None for none. ``used``: contigs
    that the settings name; None for all.
    """

    against: Against | None = None
    used: frozenset[str] | None = None

    @classmethod
    def of(cls, settings: VariantSettings, marks: Marks) -> Rules:
        """Read them off settings, and the versions of the files that these name.

        Raises `InputError` if one of those files is wrong.
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

    def check(self, table: pa.Table, faults: FileFaults) -> None:
        """Report the rows that break one, in the columns that are there."""
        names = set(table.column_names)
        if "chrom" in names:
            _contigs(table["chrom"], faults, self.used)
        if "ref" in names:
            _references(table["ref"], faults)
        if names >= {"depth", *BASES}:
            _depth(table, faults)
        check_reads(table, faults)
        if self.against is not None and names >= {"chrom", "pos", "ref"}:
            self.against.check(table, faults)


@lru_cache(maxsize=4)
def _used(settings: VariantSettings, marks: Marks) -> frozenset[str] | None:
    regions = named_regions(settings, marks)
    return None if regions is None else frozenset(r.contig for r in regions)


def read_header(url: str) -> tuple[int, set[str], tuple[Fault, ...]]:
    """Return a file's rows, its samples and the faults of its columns; read the samples alone."""
    checker, footer = partition.read_header(url, COUNTS)
    samples: set[Any] = set()
    if not checker.faults:
        for batch in storage.read_batches(url, ROWS, ["sample"], footer):
            samples |= {
                *batch.column("sample")
                .unique()
                .cast(pa.large_string())
                .cast(pa.large_binary())
                .to_pylist()
            }
    named = {s.decode(errors="replace") for s in samples if s is not None}
    return checker.rows, named, checker.faults.listed()


def _contigs(chroms: pa.ChunkedArray, faults: FileFaults, used: Container[str] | None) -> None:
    names = [c for c in chroms.unique().drop_null().to_pylist() if used is None or c in used]
    rows = {chroms.index(c).as_py(): c for c in names if not names_a_contig(c)}
    faults.add_rows(sorted(rows), "chrom", CONTIG_RULE, lambda row: unfit_name(rows[row]), RENAME)


def _references(bases: pa.ChunkedArray, faults: FileFaults) -> None:
    length = pc.fill_null(pc.utf8_length(bases), 1).to_numpy()
    faults.add_rows(
        np.flatnonzero(length != 1),
        "ref",
        "one reference base",
        lambda row: repr(bases[row].as_py()),
    )


def _depth(table: pa.Table, faults: FileFaults) -> None:
    total = sum(pc.fill_null(table[base], 0).to_numpy() for base in BASES)
    depth = pc.fill_null(table["depth"], 2**63 - 1).to_numpy()
    faults.add_rows(
        np.flatnonzero(depth < total),
        "depth",
        "at least the sum of the counts",
        lambda row: str(depth[row]),
    )


_GAP = 2**12  # bases that are rather read than jumped over
_WINDOW = 20  # bits of a position that are read at once: 1 MiB


class Against:
    """A FASTA that counts are compared with; open within a ``with`` block.

    ``settings``: name the FASTA. ``contigs``: its contigs with their lengths.
    """

    def __init__(self, settings: VariantSettings, contigs: dict[str, int]) -> None:
        self.path = str(settings.fasta)
        self.contigs = contigs
        self.unknown: set[str] = set()

    def __enter__(self) -> Self:
        with quiet():
            self.file = pysam.FastaFile(local_fasta(self.path))
        return self

    def __exit__(self, *given: object) -> None:
        self.file.close()

    def check(self, table: pa.Table, faults: FileFaults) -> None:
        """Report the rows whose contig, position or reference base is not the FASTA's.

        Bases other than A, C, G and T, on either side, are not compared.
        """
        try:
            self._compare(table, faults)
        except (OSError, ValueError, IndexError) as error:
            faults.add(
                Fault(
                    file=self.path,
                    expected="a whole FASTA, as its index (.fai) has it",
                    found=described(error),
                    remedy=f"run: samtools faidx {self.path}",
                )
            )

    def _compare(self, table: pa.Table, faults: FileFaults) -> None:
        pos = pc.fill_null(table["pos"], 0).to_numpy()
        letters = pc.index_in(pc.utf8_upper(table["ref"]), value_set=pa.array(list(BASES)))
        ref = np.asarray(pc.fill_null(letters, -1)).astype(np.int8)
        for name, rows in _by_contig(table["chrom"]):
            contig = in_file(name, self.contigs)
            if contig is None:
                if name not in self.unknown:
                    what = other_names(faults.file, None, name, self.contigs, self.path)
                    faults.add_rows(rows[:1], None, what.expected, what.found, what.remedy)
                self.unknown.add(name)
                continue
            length = self.contigs[contig]
            faults.add_rows(
                rows[pos[rows] > length],
                "pos",
                lambda row, contig=contig, length=length: (
                    f"a position within {contig}:1-{length} of {self.path}"
                ),
                lambda row: str(pos[row]),
                ALIGNED_TO,
            )
            rows = rows[(pos[rows] >= 1) & (pos[rows] <= length) & (ref[rows] >= 0)]
            there = np.full(len(ref), -1, np.int8)
            there[rows] = bases_at(self.file, contig, pos[rows])
            faults.add_rows(
                rows[(there[rows] >= 0) & (there[rows] != ref[rows])],
                "ref",
                lambda row, there=there, contig=contig: (
                    f"{BASES[there[row]]} as at {contig}:{pos[row]} of {self.path}"
                ),
                lambda row: repr(BASES[ref[row]]),
                ALIGNED_TO,
            )


def bases_at(file: pysam.FastaFile, contig: str, pos: IntArray) -> Any:
    """Return the bases at positions (from 1) as indices in ACGT, -1 for others."""
    unique, inverse = np.unique(pos, return_inverse=True)
    apart = (np.diff(unique) > _GAP) | (np.diff(unique >> _WINDOW) != 0)
    bases = [
        base_codes(file.fetch(contig, int(run[0]) - 1, int(run[-1])))[run - run[0]]
        for run in np.split(unique, np.flatnonzero(apart) + 1)
        if run.size
    ]
    return np.concatenate(bases)[inverse] if bases else np.zeros(0, np.int8)


def _by_contig(column: pa.ChunkedArray) -> Iterator[tuple[str, IntArray]]:
    """Yield every contig with its rows, in order; rows without one are left out."""
    encoded = column.combine_chunks().dictionary_encode()
    code = np.asarray(pc.fill_null(encoded.indices, -1)).astype(np.int64)
    order = np.argsort(code, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(code[order])) + 1):
        if rows.size and code[rows[0]] >= 0:
            yield encoded.dictionary[int(code[rows[0]])].as_py(), rows


_NAME = re.compile(r"(?P<count>.*counts-[0-9a-f]{8})-(?P<index>\d+)-of-(?P<files>\d+)\.parquet")


def file_name(mark: str, index: int, files: int) -> str:
    """Return the name of one file of a count.

    Parameters
    ----------
    mark
        Eight hexadecimal digits that are another count's only by chance.
    index
        Which file, from 0.
    files
        How many there are.

    >>> file_name("0123abcd", 3, 10)
    'counts-0123abcd-00003-of-00010.parquet'
    """
    return f"counts-{mark}-{index:05d}-of-{files:05d}.parquet"


def missing_files(urls: Sequence[str]) -> list[Fault]:
    """List counts of which files are missing: one that was ended, or a copy that was."""
    there: dict[tuple[str, int], set[int]] = defaultdict(set)
    for url in urls:
        match = _NAME.fullmatch(url)
        if match is not None:
            there[match["count"], int(match["files"])].add(int(match["index"]))
    return [
        Fault(
            file=f"{count}-*-of-{files:05d}.parquet",
            expected=f"all {files:,} files of this count",
            found=f"{len(indices):,}; file {min(set(range(files)) - indices)} is missing",
            remedy="count again into an empty folder, or copy all files",
        )
        for (count, files), indices in there.items()
        if len(indices) < files
    ]
