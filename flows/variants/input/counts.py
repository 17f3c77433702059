"""Base counts in Parquet: checks, the shuffle from rows to locations, the arrays of a partition.

Rows may come in any order. Every slice of rows is sorted by location and stored with a
sample of its locations; these say where to cut, and then each partition is put together
from the slices that reach into it. No step holds more than one slice or partition.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault, InputError
from flows.tables.checks import MAX_ROWS, Found
from flows.variants.reads.regions import Region, in_file
from flows.variants.schema import COUNTS, READ_SUMS
from vbmodels.core.state import BoolArray, IntArray, State
from vbmodels.variants.counts import BASES, Counts
from vbmodels.variants.read_filters import LEAST_READS

EVERY = 50
Column = tuple[str, str]  # sample and replicate
Order = Mapping[str, int]  # contigs of the FASTA, and which of them each is
Key = tuple[str | int, int]  # contig, or its place in the order where one is known; position


@dataclass(frozen=True)
class Loci(State):
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
        at = int(np.searchsorted(self.looked_at, location))
        there = at < len(self.looked_at) and self.looked_at[at] == location
        return self.sums[at] if there else None


@dataclass(frozen=True)
class Sorted:
    """A slice of rows as a partition's locations need them.

    Attributes
    ----------
    table
        The rows that are wanted, sorted by location.
    keys
        Every 50th location, and the last.
    columns
        Replicates of the samples that are wanted, whether or not in the regions.
    other_samples, outside
        How many rows were left out: of other samples, outside the regions.
    renamed
        Contigs that have another name in the FASTA, and that name.
    """

    table: pa.Table
    keys: list[Key]
    columns: set[Column]
    other_samples: int
    outside: int
    renamed: dict[str, str]


def read_sorted(
    table: pa.Table, samples: Sequence[str] | None, wanted: Sequence[Region] | None,
    order: Order | None,
) -> Sorted:  # fmt: skip
    """Return the rows that are wanted, sorted by location, and what there is to know of them.

    Parameters
    ----------
    table
        A slice of rows, in the columns of `COUNTS`.
    samples
        Names of the samples whose rows are kept; None for all.
    wanted
        Regions outside of which rows are left out; None for none.
    order
        Contigs of the FASTA: rows take their names and order; None: names as they are, sorted.
    """
    table = table.drop_columns("depth")
    other: dict[str, str] = {}
    if order is not None:
        chrom, other = _renamed(table["chrom"], order)
        table = table.set_column(0, "chrom", chrom)
    given = len(table)
    if samples is not None:
        wanted_names = pa.array(samples, pa.string())
        table = table.filter(pc.is_in(table["sample"], value_set=wanted_names))
    of_samples = len(table)
    pairs = table.select(["sample", "replicate"]).group_by(["sample", "replicate"]).aggregate([])
    found = set(zip(pairs["sample"].to_pylist(), pairs["replicate"].to_pylist(), strict=True))
    if wanted is not None:
        table = table.filter(pa.array(_inside(table, wanted)))
    left_out = given - of_samples, of_samples - len(table)
    names, code = _codes(table["chrom"], order)
    pos = table["pos"].to_numpy()
    by_location = np.lexsort((pos, code))
    table = table.take(pa.array(by_location))
    if not len(table):
        return Sorted(table, [], found, *left_out, other)
    code, pos = code[by_location], pos[by_location]
    first = np.flatnonzero(np.append(True, (np.diff(code) != 0) | (np.diff(pos) != 0)))
    picked = [*first[::EVERY].tolist(), int(first[-1])]
    keys = [(_place(names[c], order), p) for c, p in zip(code[picked], pos[picked].tolist(),
                                                         strict=True)]  # fmt: skip
    return Sorted(table, keys, found, *left_out, other)


def _renamed(chrom: pa.ChunkedArray, order: Order) -> tuple[pa.Array, dict[str, str]]:
    encoded = chrom.combine_chunks().dictionary_encode()
    given = encoded.dictionary.to_pylist()
    names = [in_file(name, order) or name for name in given]
    other = {own: name for own, name in zip(given, names, strict=True) if own != name}
    return pa.array(names, pa.string()).take(encoded.indices), other


def _inside(table: pa.Table, wanted: Sequence[Region]) -> BoolArray:
    """Return which rows lie in regions, which are sorted within each contig and apart."""
    band = {name: i for i, name in enumerate(dict.fromkeys(r.contig for r in wanted))}
    low = np.array([(band[r.contig] << 32) + r.start for r in wanted], np.int64)
    high = np.array([(band[r.contig] << 32) + r.stop for r in wanted], np.int64)
    names, code = _codes(table["chrom"])
    known = [in_file(name, band) for name in names]
    of = np.array([-1 if name is None else band[name] for name in known], np.int64)[code]
    at = (of << 32) + table["pos"].to_numpy() - 1
    # Of all regions only the last that does not start behind a row can hold it.
    last = np.searchsorted(low, at, side="right") - 1
    return np.asarray((of >= 0) & (last >= 0) & (at < high[last]))


def _place(name: str, order: Order | None) -> str | int:
    return name if order is None else order.get(name, len(order))


def between(table: pa.Table, low: Key | None, high: Key | None, order: Order | None) -> pa.Table:
    """Return the rows from one location (None: the first) to before another (None: to the last)."""
    names, code = _codes(table["chrom"], order)
    place = np.array([_place(name, order) for name in names], object)[code]
    pos = table["pos"].to_numpy()
    inside = np.ones(len(table), bool)
    if low is not None:
        inside &= (place > low[0]) | ((place == low[0]) & (pos >= low[1]))
    if high is not None:
        inside &= (place < high[0]) | ((place == high[0]) & (pos < high[1]))
    return table.filter(pa.array(inside))


def in_order(samples: Sequence[Sequence[Key]]) -> bool:
    """Whether every part has locations of its own, after those of the part before."""
    return all(samples) and all(a[-1] < b[0] for a, b in itertools.pairwise(samples))


def boundaries(samples: Sequence[Sequence[Key]], partitions: int) -> list[Key]:
    """Return the first location of every partition but the first."""
    keys = sorted({key for sample in samples for key in sample})
    picked = [keys[len(keys) * i // partitions] for i in range(1, partitions)] if keys else []
    return sorted(set(picked))


def assemble(
    tables: Sequence[pa.Table], columns: Sequence[Column], cases: Sequence[str], source: str,
    order: Order | None,
) -> tuple[Counts, Loci, int, int]:  # fmt: skip
    """Put the rows of a partition's locations into arrays.

    Locations without a read, and those whose reference is not A, C, G or T, are left out.

    Raises `InputError` if a location comes twice in a replicate, or has two reference bases.

    Parameters
    ----------
    tables
        Rows of the partition.
    columns
        The replicates, in the order of the arrays.
    cases
        Names of the samples that are tested.
    source
        For messages.
    order
        Contigs of the FASTA, in whose order locations come; None: in that of their names.

    Returns
    -------
    counts, loci
        The arrays.
    without_reads, without_reference
        Rows of the locations that were left out.
    """
    table = pa.concat_tables(tables)
    replicate = _places(table, columns)
    keep = replicate >= 0
    of, code = _codes(table["chrom"], order)
    names, code = np.array(of, dtype=str), code[keep]
    pos = table["pos"].to_numpy()[keep]
    reads = np.stack([table[b].to_numpy() for b in BASES], axis=1)[keep]
    letters = pc.index_in(pc.utf8_upper(table["ref"]), value_set=pa.array(list(BASES)))
    ref_code = pc.fill_null(letters, -1).to_numpy().astype(np.int8)[keep]
    replicate = replicate[keep]
    width = int(pos.max(initial=0)) + 1
    unique, at = np.unique(code * width + pos, return_inverse=True)
    unique_key = np.stack(np.divmod(unique, width), axis=1)
    seen = np.bincount(at * len(columns) + replicate, minlength=len(unique) * len(columns))
    faults = []
    for twice in np.flatnonzero(seen > 1)[:MAX_ROWS]:
        j, c = divmod(int(twice), len(columns))
        found = f"{' '.join(columns[c])} twice"
        faults.append(_location_fault(source, names, unique_key[j], found))
    ref = np.full(len(unique), -1, np.int8)
    ref[at] = ref_code
    for j in np.unique(at[ref[at] != ref_code])[:MAX_ROWS]:
        faults.append(_location_fault(source, names, unique_key[j], "two reference bases"))
    if faults:
        raise InputError(faults)
    kept = table.filter(pa.array(keep))
    forward_of, sums_of = read_arrays(kept)
    deleted_of = None
    if DELETED in kept.column_names and not kept[DELETED].null_count:
        deleted_of = kept[DELETED].to_numpy()

    def by_location(of_rows: np.ndarray | None, kind: Any) -> np.ndarray | None:
        if of_rows is None:
            return None
        found = np.zeros((len(unique), len(columns), *of_rows.shape[1:]), kind)
        found[at, replicate] = of_rows
        return found

    counts = by_location(reads, np.int32)
    assert counts is not None
    member = np.array([sample in cases for sample, _ in columns])
    rows = np.bincount(at, minlength=len(unique))
    return clean(
        counts, ref, member, names[unique_key[:, 0]], unique_key[:, 1],
        by_location(forward_of, np.int32), by_location(sums_of, np.int64), rows,
        deleted=by_location(deleted_of, np.int32),
    )  # fmt: skip


def _codes(column: pa.ChunkedArray, order: Order | None = None) -> tuple[list[str], IntArray]:
    """Return the distinct values of a text column, sorted, and the place of each row's there."""
    encoded = column.combine_chunks().dictionary_encode()
    values = encoded.dictionary.to_pylist()
    names = sorted(values, key=lambda name: (_place(name, order), name))
    rank = {name: i for i, name in enumerate(names)}
    of = np.array([rank[v] for v in values], np.int64)
    return names, of[encoded.indices.to_numpy()]


def _places(table: pa.Table, columns: Sequence[Column]) -> IntArray:
    """Return every row's replicate as an index into ``columns``, -1 if it is none of them."""
    samples, of_sample = _codes(table["sample"])
    replicates, of_replicate = _codes(table["replicate"])
    place = np.full((len(samples), len(replicates)), -1, np.int64)
    for i, (sample, replicate) in enumerate(columns):
        if sample in samples and replicate in replicates:
            place[samples.index(sample), replicates.index(replicate)] = i
    return np.asarray(place[of_sample, of_replicate])


def clean(
    counts: np.ndarray,
    ref: np.ndarray,
    case: np.ndarray,
    chrom: np.ndarray,
    pos: IntArray,
    forward: np.ndarray | None,
    sums: np.ndarray | None = None,
    rows: IntArray | None = None,
    anchors: IntArray | None = None,
    deleted: np.ndarray | None = None,
) -> tuple[Counts, Loci, int, int]:
    """Leave out locations without a read or without a reference base, and count them.

    Or their ``rows``, [J], where that is how many each location came in. ``sums``, [J, R, 4, 11],
    are kept where the case has enough reads of an allele, and at ``anchors``.
    """
    read = counts.any(axis=(1, 2))
    known = ref >= 0
    keep = read & known
    looked_at = None
    if sums is not None:
        enough = has_enough_reads(counts, ref, case)
        enough[[] if anchors is None else anchors] = True
        looked_at = np.flatnonzero(enough[keep])
    loci = Loci(
        np.asarray(chrom, dtype=np.str_)[keep],
        pos[keep].astype(np.int64),
        None if forward is None else forward[keep],
        looked_at,
        None if sums is None or looked_at is None else sums[np.flatnonzero(keep)[looked_at]],
    )
    lost = np.ones(len(keep), np.int64) if rows is None else rows
    without = int(lost[~read].sum()), int(lost[read & ~known].sum())
    deleted = None if deleted is None else deleted[keep]
    return Counts(counts[keep], ref[keep], case, deleted=deleted), loci, *without


def has_enough_reads(counts: np.ndarray, ref: np.ndarray, case: np.ndarray) -> BoolArray:
    """Whether the case has enough reads of an allele for the filters of reads, [J]."""
    reads = counts[:, case].sum(axis=1)
    reads[np.arange(len(ref)), np.maximum(ref, 0)] = 0
    return np.asarray(reads.max(axis=1, initial=0) >= LEAST_READS)


def merge(parts: Sequence[tuple[Counts, Loci]]) -> tuple[Counts, Loci]:
    """Put the locations of several pieces into one."""
    counts = [c for c, _ in parts]
    loci = [of for _, of in parts]
    before = np.cumsum([0, *(len(c) for c in counts)])

    def together(values: list[Any]) -> Any:
        return None if any(v is None for v in values) else np.concatenate(values)

    found = [None if of.looked_at is None else of.looked_at + start
             for of, start in zip(loci, before, strict=False)]  # fmt: skip
    return (
        Counts(
            np.concatenate([c.counts for c in counts]),
            np.concatenate([c.ref for c in counts]),
            counts[0].case,
            deleted=together([c.deleted for c in counts]),
        ),
        Loci(
            np.concatenate([of.chrom for of in loci]), np.concatenate([of.pos for of in loci]),
            together([of.forward for of in loci]), together(found),
            together([of.sums for of in loci]),
        ),
    )  # fmt: skip


def _location_fault(source: str, names: np.ndarray, key: np.ndarray, found: str) -> Fault:
    return Fault(
        file=source,
        expected="one row a location and replicate, with one reference base",
        found=f"{names[key[0]]}:{key[1]} {found}",
    )


def to_table(
    counts: np.ndarray, ref: np.ndarray, chrom: str, start: int, columns: Sequence[Column],
    forward: np.ndarray | None = None, sums: np.ndarray | None = None,
    deleted: np.ndarray | None = None,
) -> pa.Table:  # fmt: skip
    """Return counts [J, R, 4] of consecutive positions as rows of the counts table.

    With ``forward``, [J, R, 4], ``sums``, [J, R, 4, 11], and ``deleted``, [J, R], where known.
    """
    j, r = counts.shape[:2]
    letters = np.array([*BASES, "N"])
    data = {
        "chrom": pa.array([chrom] * (j * r)),
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
    found = {} if forward is None else {FORWARD: _lists(forward)}
    if sums is not None:
        found |= {name: _lists(sums[:, :, i]) for i, name in enumerate(READ_SUMS)}
    return found


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


def check_reads(table: pa.Table, found: Found) -> None:
    """Report lists that have not four numbers, and numbers that no reads have."""
    for name in (FORWARD, *READ_SUMS):
        if name not in table.column_names or table[name].null_count == len(table):
            continue
        cells = table[name]
        length = pc.fill_null(pc.list_value_length(cells), 4).to_numpy()
        found.rows(
            np.flatnonzero(length != 4), name, "four numbers, for A, C, G and T",
            lambda row, length=length: str(length[row]),
        )  # fmt: skip
        if (length != 4).any() or not set(BASES) <= set(table.column_names):
            continue
        given = pc.is_valid(cells).to_numpy()
        values = pc.list_flatten(cells).to_numpy()
        if len(values) != 4 * int(given.sum()) or values.dtype.kind != "i":
            continue  # nulls within a list, which have been reported
        values = values.reshape(-1, 4)
        most: Any = np.inf
        expected = "numbers of 0 or more"
        if name in _AT_MOST:
            reads = [pc.fill_null(table[base], 0).to_numpy()[given] for base in BASES]
            most, expected = np.stack(reads, axis=1), "numbers from 0 to those of the reads"
        wrong = ((values < 0) | (values > most)).any(axis=1)
        rows = np.flatnonzero(given)[wrong]
        at = dict(zip(rows.tolist(), values[wrong].tolist(), strict=True))
        found.rows(rows, name, expected, lambda row, at=at: str(at[row]))
