"""Base counts as rows of a table and as the arrays of a partition, and what is wrong with rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault, InputError
from flows.tables.checks import MAX_ROWS, FileFaults
from flows.variants.schema import COUNTS, READ_SUMS
from vbmodels.core.state import BoolArray, IntArray, State
from vbmodels.variants.counts import BASES, Counts
from vbmodels.variants.read_filters import LEAST_READS

Column = tuple[str, str]  # sample and replicate


@dataclass(frozen=True)
class Loci(State, kind="flows/variants.Loci"):
    """Where a partition's locations are, and their reads by strand.

    Attributes
    ----------
    chrom
        [J] contigs, fixed-width text.
    pos
        [J] positions, from 1.
    forward
        [J, R, 4] counts of reads on the forward strand; None where strands are not known.
    looked_at
        [E] the locations, rising, of which some allele of the case has enough reads for the
        filters; None where nothing more of the reads is known.
    sums
        [E, R, 4, 11] sums over the reads of an allele there, as `READ_SUMS` has them.
    """

    chrom: np.ndarray
    pos: IntArray
    forward: np.ndarray | None
    looked_at: IntArray | None = None
    sums: IntArray | None = None

    def sums_of(self, location: int) -> IntArray | None:
        """Return what is known of a location's reads, [R, 4, 11]; None where nothing is."""
        if self.looked_at is None or self.sums is None:
            return None
        row = int(np.searchsorted(self.looked_at, location))
        there = row < len(self.looked_at) and self.looked_at[row] == location
        return self.sums[row] if there else None


class Locations(NamedTuple):
    """Locations of one case that were put together of rows, and rows that say nothing.

    Attributes
    ----------
    counts, loci
        The locations.
    rows
        How many rows there were.
    without_reads, without_reference
        Rows of locations that were left out: without a read, without A, C, G or T as reference.
    """

    counts: Counts
    loci: Loci
    rows: int
    without_reads: int
    without_reference: int


def assemble(table: pa.Table, columns: Sequence[Column], case: str, source: str) -> Locations:
    """Put the rows of a partition's locations into arrays.

    Locations without a read, and those whose reference is not A, C, G or T, are left out.

    Raises `InputError` if a location comes twice in a replicate, or has two reference bases.

    Parameters
    ----------
    table
        Rows of the partition, with a column ``contig`` by which contigs are sorted.
    columns
        The replicates, in the order of the arrays; rows of others are left out.
    case
        The sample that is tested.
    source
        For messages.
    """
    replicate = _replicates(table, columns)
    table = table.append_column("place", pa.array(replicate)).filter(pa.array(replicate >= 0))
    table = table.sort_by([("contig", "ascending"), ("pos", "ascending")])
    replicate, pos = table["place"].to_numpy(), table["pos"].to_numpy()
    contig = table["contig"].combine_chunks().dictionary_encode().indices.to_numpy()
    first = np.flatnonzero((np.diff(contig, prepend=-1) != 0) | (np.diff(pos, prepend=0) != 0))
    rows = np.diff(first, append=len(table))
    location = np.repeat(np.arange(len(first)), rows)
    chrom = np.array(table["chrom"].take(pa.array(first)).to_pylist(), np.str_)
    pos = pos[first]

    letters = pc.index_in(pc.utf8_upper(table["ref"]), value_set=pa.array(list(BASES)))
    ref_of_rows = pc.fill_null(letters, -1).to_numpy().astype(np.int8)
    ref = ref_of_rows[first]
    seen = np.zeros((len(first), len(columns)), np.int64)
    np.add.at(seen, (location, replicate), 1)
    twice = np.argwhere(seen > 1)[:MAX_ROWS].tolist()
    wrong = [(j, f"{' '.join(columns[c])} twice") for j, c in twice]
    other = np.unique(location[ref[location] != ref_of_rows])[:MAX_ROWS].tolist()
    wrong += [(j, "two reference bases") for j in other]
    if wrong:
        expected = "one row a location and replicate, with one reference base"
        raise InputError(
            [Fault(source, expected, f"{chrom[j]}:{pos[j]} {what}") for j, what in wrong]
        )

    def by_location(of_rows: np.ndarray, kind: type) -> np.ndarray:
        array = np.zeros((len(first), len(columns), *of_rows.shape[1:]), kind)
        array[location, replicate] = of_rows
        return array

    counts = by_location(np.stack([table[b].to_numpy() for b in BASES], axis=1), np.int32)
    of_case = np.array([sample == case for sample, _ in columns])
    read, known = counts.any(axis=(1, 2)), ref >= 0
    keep = np.flatnonzero(read & known)
    forward_of_rows, sums_of_rows = read_arrays(table)
    forward = deleted = looked_at = sums = None
    if forward_of_rows is not None:
        forward = by_location(forward_of_rows, np.int32)[keep]
    if DELETED in table.column_names and not table[DELETED].null_count:
        deleted = by_location(table[DELETED].to_numpy(), np.int32)[keep]
    if sums_of_rows is not None:
        looked_at = np.flatnonzero(has_enough_reads(counts, ref, of_case)[keep])
        sums = by_location(sums_of_rows, np.int64)[keep[looked_at]]
    return Locations(
        Counts(counts[keep], ref[keep], of_case, deleted=deleted),
        Loci(chrom[keep], pos[keep], forward, looked_at, sums),
        len(table),
        int(rows[~read].sum()),
        int(rows[read & ~known].sum()),
    )


def _replicates(table: pa.Table, columns: Sequence[Column]) -> IntArray:
    """Return every row's replicate as an index into ``columns``, -1 if it is none of them."""
    index = np.full(len(table), -1)
    for i, (sample, replicate) in enumerate(columns):
        same = pc.and_(pc.equal(table["sample"], sample), pc.equal(table["replicate"], replicate))
        index[same.to_numpy()] = i
    return index


def has_enough_reads(counts: np.ndarray, ref: np.ndarray, case: np.ndarray) -> BoolArray:
    """Whether the case has enough reads of an allele for the filters of reads, [J]."""
    reads = counts[:, case].sum(axis=1)
    reads[np.arange(len(ref)), np.maximum(ref, 0)] = 0
    return np.asarray(reads.max(axis=1, initial=0) >= LEAST_READS)


def to_table(
    counts: np.ndarray,
    ref: np.ndarray,
    chrom: str,
    start: int,
    columns: Sequence[Column],
    forward: np.ndarray | None = None,
    sums: np.ndarray | None = None,
    deleted: np.ndarray | None = None,
) -> pa.Table:
    """Return counts [J, R, 4] of consecutive positions as rows of the counts table.

    With ``forward``, [J, R, 4], ``sums``, [J, R, 4, 11], and ``deleted``, [J, R], where known.
    """
    j, r = counts.shape[:2]
    letters = np.array([*BASES, "N"])
    data = {
        "chrom": pa.repeat(chrom, j * r),
        "pos": np.repeat(np.arange(start + 1, start + j + 1), r),
        "ref": pa.array(letters[np.repeat(ref, r)]),
        "sample": pa.array([s for s, _ in columns] * j),
        "replicate": pa.array([name for _, name in columns] * j),
    }
    data |= {b: counts[:, :, i].ravel().astype(np.int64) for i, b in enumerate(BASES)}
    if deleted is not None:
        data[DELETED] = deleted.ravel().astype(np.int64)
    data |= read_columns(
        None if forward is None else forward.reshape(j * r, 4),
        None if sums is None else sums.reshape(j * r, 4, -1),
    )
    return pa.table(data, schema=pa.schema([f for f in COUNTS.arrow if f.name in data]))


FORWARD, DELETED = "forward", "deleted"
# no more than the reads
_AT_MOST = (FORWARD, "near_indel", "clipped", "many_mismatches", "no_base_quality")


def read_columns(forward: np.ndarray | None, sums: np.ndarray | None) -> dict[str, pa.Array]:
    """Return the columns of rows [N, 4] and [N, 4, 11]; none of what is not known."""
    columns = {} if forward is None else {FORWARD: _lists(forward)}
    if sums is not None:
        columns |= {name: _lists(sums[:, :, i]) for i, name in enumerate(READ_SUMS)}
    return columns


def _lists(values: np.ndarray) -> pa.Array:
    ends = np.arange(0, values.size + 1, 4, dtype=np.int32)
    return pa.ListArray.from_arrays(ends, np.ascontiguousarray(values, np.int64).ravel())


def read_arrays(table: pa.Table) -> tuple[IntArray | None, IntArray | None]:
    """Return forward reads [N, 4] and sums [N, 4, 11]; None of what any row lacks."""
    forward = _array(table, FORWARD)
    sums = [_array(table, name) for name in READ_SUMS]
    known = [s for s in sums if s is not None]
    return forward, np.stack(known, axis=2) if len(known) == len(sums) else None


def _array(table: pa.Table, name: str) -> IntArray | None:
    if name not in table.column_names or table[name].null_count:
        return None
    cells = table[name].combine_chunks()
    return np.asarray(cells.flatten().to_numpy(zero_copy_only=False)).reshape(-1, 4)


def check_reads(table: pa.Table, faults: FileFaults) -> None:
    """Report lists that have not four numbers, and numbers that no reads have."""
    for name in (FORWARD, *READ_SUMS):
        if name not in table.column_names or table[name].null_count == len(table):
            continue
        cells = table[name]
        length = pc.fill_null(pc.list_value_length(cells), 4).to_numpy()
        faults.add_rows(
            np.flatnonzero(length != 4),
            name,
            "four numbers, for A, C, G and T",
            lambda row, length=length: str(length[row]),
        )
        if (length != 4).any() or not set(BASES) <= set(table.column_names):
            continue
        present = pc.is_valid(cells).to_numpy()
        values = pc.list_flatten(cells).to_numpy()
        if len(values) != 4 * int(present.sum()) or values.dtype.kind != "i":
            continue  # nulls within a list, which have been reported
        values = values.reshape(-1, 4)
        most: Any = np.inf
        expected = "numbers of 0 or more"
        if name in _AT_MOST:
            reads = [pc.fill_null(table[base], 0).to_numpy()[present] for base in BASES]
            most, expected = np.stack(reads, axis=1), "numbers from 0 to those of the reads"
        wrong = ((values < 0) | (values > most)).any(axis=1)
        rows = np.flatnonzero(present)[wrong]
        odd = dict(zip(rows.tolist(), values[wrong].tolist(), strict=True))
        faults.add_rows(rows, name, expected, lambda row, odd=odd: str(odd[row]))
