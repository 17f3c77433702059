"""From slices of input to partitions of locations in a run's store, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from pydantic import Field

from flows import storage
from flows.family import CheckedPiece, Each, Ingested
from flows.records import json_files
from flows.records.runs import Dropped, RunPaths
from flows.records.states import read_state
from flows.tables import partition
from flows.tables.partition import Part
from flows.variants.input import counts as variant_counts
from flows.variants.input import read_account
from flows.variants.input.count_checks import Rules
from flows.variants.input.counts import Column, Key, Loci
from flows.variants.input.indel_counts import AHEAD, at_locations, of_case, of_positions
from flows.variants.input.indel_counts import merge as merge_indels
from flows.variants.input.sample_sheet import read_sheet
from flows.variants.reads.alignments import described
from flows.variants.reads.reads import ReadCounter, reference
from flows.variants.reads.regions import (
    Marks,
    Region,
    contigs_of,
    named_regions,
    regions_of,
    renamed,
    windows_of,
)
from flows.variants.schema import COUNTS
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray, State, to_bytes
from vbmodels.variants.counts import Counts
from vbmodels.variants.indels import Indels
from vbmodels.variants.sampling import differing, numbers
from vbmodels.variants.two_groups.cases import OfCase

NO_READS = "position without a read in any replicate"
NO_REFERENCE = "location whose reference is not A, C, G or T"
OTHER_SAMPLE = "row of a sample that is neither case nor control"
OUTSIDE = "row outside of the region and the BED's intervals"
_NAMED = 5  # positions without a read
EVERY_SAMPLE = "all_"  # of folders with the counts of all cases together
Range = tuple[int, Key | None, Key | None, list[int]]  # partition, its bounds, slices there


def read_loci(paths: RunPaths, index: int) -> Loci:
    """Read where a partition's locations are."""
    url = paths.part("loci", index, "npz")
    return read_state(url, Loci)


def read_counts(paths: RunPaths, index: int, folder: str = "partitions") -> Counts:
    """Read the counts of a partition, or of a slice of it."""
    found = read_state(paths.part(folder, index, "npz"), State)
    counts = found.counts if isinstance(found, OfCase) else found
    assert isinstance(counts, Counts)
    return counts


class SortedSlice(json_files.Form):
    """Where the rows of a sorted slice of counts are, of whom, and which contigs were renamed."""

    keys: list[Key]
    columns: list[Column]
    renamed: dict[str, str]


class Assembled(json_files.Form):
    """A partition of locations that was put together, and what was left out.

    Attributes
    ----------
    index, locations, dropped
        The partition, how many locations it has, and what was left out.
    levels
        Numbers of locations by `sampling.differing`.
    depth
        [R, 2] bases that count at the locations, and those that differ from the reference.
    account
        [R, FIELDS] the account of reads; empty where none is known.
    digests
        [R] of the counts.
    """

    index: int
    locations: int
    dropped: tuple[Dropped, ...]
    levels: list[int]
    depth: list[list[int]]
    account: list[list[int]] = Field(default_factory=list)
    digests: list[str]

    @classmethod
    def of(
        cls, index: int, counts: Counts, dropped: Sequence[Dropped], indels: Indels | None = None,
        account: Sequence[Sequence[int]] = (),
    ) -> Assembled:  # fmt: skip
        """Describe the counts of a partition."""
        bases = counts.counts.sum(axis=(0, 2), dtype=np.int64)
        same = counts.counts[np.arange(len(counts)), :, counts.ref].sum(axis=0, dtype=np.int64)
        columns = np.moveaxis(counts.counts, 1, 0)
        return cls(
            index=index, locations=len(counts), dropped=tuple(dropped),
            levels=numbers(differing(counts, indels)).tolist(),
            depth=np.stack([bases, bases - same], axis=1).tolist(), account=account,
            digests=[hashlib.blake2b(own.tobytes(), digest_size=8).hexdigest() for own in columns],
        )  # fmt: skip


def marks_in(part: Part, settings: VariantSettings) -> Marks:
    """Return the versions of the FASTA and the BED that a partition was planned with."""
    named = (settings.fasta, settings.bed)
    return tuple((s.url, s.fingerprint) for s in part.slices if s.url in named)


def _order(settings: VariantSettings, marks: Marks) -> Mapping[str, int] | None:
    """Return which of the FASTA's contigs each is; None without a FASTA."""
    if settings.fasta is None:
        return None
    return {name: i for i, name in enumerate(contigs_of(settings, marks))}


def replicate_columns(lines: Sequence[Column], settings: VariantSettings) -> list[Column]:
    """Return the replicates of the case or cases, the control, then each sample of the panel.

    Those of a sample come in order of their names.
    """
    order = {name: i for i, name in enumerate([*settings.tested, *settings.controls])}
    wanted = [c for c in set(lines) if c[0] in order]
    return sorted(wanted, key=lambda c: (order[c[0]], c[1]))


def members_of(columns: Sequence[Column], settings: VariantSettings) -> IntArray | None:
    """Return which control each replicate is of, from 0, -1 for the case; None without a panel."""
    if not settings.members:
        return None
    order = {name: i - 1 for i, name in enumerate([settings.case, *settings.controls])}
    return np.array([order[sample] for sample, _ in columns], np.int64)


@dataclass(frozen=True)
class Piece:
    """Positions that were counted.

    Attributes
    ----------
    region
        Which they are, J of them.
    counts
        [J, R, 4] reads that show A, C, G, T, by replicate.
    forward
        [J, R, 4] those of them on the forward strand.
    sums
        [J, R, 4, 11] sums over the reads, as `READ_SUMS` has them.
    deleted
        [J, R] reads with a deletion there.
    ref
        [J] reference bases.
    columns
        The replicates.
    account
        [R, ACCOUNT] the account of their reads.
    indels
        Insertions and deletions behind them; None where they were not looked for.
    """

    region: Region
    counts: np.ndarray
    forward: np.ndarray
    sums: np.ndarray
    deleted: np.ndarray
    ref: np.ndarray
    columns: list[Column]
    account: IntArray
    indels: Indels | None = None


def count_positions(
    part: Part, settings: VariantSettings, compared: bool = True
) -> Iterator[Piece]:
    """Count the reads of a partition, some thousand positions at a time.

    Of the case and the control, or of every sample of the sheet.
    """
    lines = {(x.sample, x.replicate): x for x in read_sheet(part.slices[0].url)}
    columns = replicate_columns(list(lines), settings) if compared else sorted(lines)
    with (
        counting(part, part.slices[0].url, "the files that it names"),
        ReadCounter(settings) as reads,
    ):
        for piece, met in windows_in(part, settings):
            found = [reads.count(lines[c].path, piece, met) for c in columns]
            by_strand = np.stack([one.counts for one in found], axis=1)
            ref = reference(str(settings.fasta), piece, AHEAD)
            yield Piece(
                piece,
                by_strand.sum(axis=2, dtype=np.int32),
                by_strand[:, :, 0],
                np.stack([one.sums for one in found], axis=1),
                np.stack([one.deleted for one in found], axis=1),
                ref[: piece.length],
                columns,
                np.stack([one.account for one in found]),
                of_positions(piece.start, [one.indels for one in found], ref, piece.length)
                if settings.indels
                else None,
            )


def windows_in(part: Part, settings: VariantSettings) -> Iterator[tuple[Region, int]]:
    """Cut the positions of a part of reads into windows, as `windows_of` does."""
    wanted = regions_of(settings, marks_in(part, settings))
    return windows_of(wanted, part.slices[0].start, part.slices[0].stop)


@contextmanager
def counting(part: Part, source: str, files: str) -> Iterator[None]:
    """Refuse files that change while their reads are counted, and name those that are damaged.

    ``source`` names what is counted, ``files`` what is to be looked at where that fails.
    """
    refuse_changed(part)
    try:
        yield
    except (OSError, ValueError) as error:
        refuse_changed(part)  # what changes while it is read looks damaged
        raise storage.StorageError(
            f"the reads of {source} cannot be counted: {described(error)}; check {files} with "
            "samtools quickcheck, and CRAM files against this FASTA"
        ) from error
    refuse_changed(part)


def refuse_changed(part: Part) -> None:
    """Look at a sheet and at all that it and the settings name: reads are counted of one version.

    Both before and after they are read, so that what was read is what was looked at.
    """
    for named in part.slices:
        storage.refuse_changed(named.url, named.fingerprint)


class PartCounts(NamedTuple):
    """Rows of counts that were written, and the account [R, FIELDS] of the replicates' reads."""

    rows: int
    columns: list[Column]
    account: IntArray


def write_part_counts(
    part: Part, settings: VariantSettings, target: str, names: list[str]
) -> PartCounts:
    """Count the reads of all samples at a partition's positions; write rows of the counts table.

    Parameters
    ----------
    part
        The partition.
    settings
        How reads are counted.
    target
        The folder of the files.
    names
        Their names, by partition.
    """
    tables, columns = list[pa.Table](), list[Column]()
    account: Any = 0
    for piece in count_positions(part, settings, compared=False):
        account, columns = account + piece.account, piece.columns
        tables.append(
            variant_counts.to_table(
                piece.counts,
                piece.ref,
                piece.region.contig,
                piece.region.start,
                columns,
                piece.forward,
                piece.sums,
                piece.deleted,
            )
        )
    table = pa.concat_tables(tables)
    storage.write_table(storage.join(target, names[part.index]), table)
    return PartCounts(table.num_rows, columns, whole_account(part, columns, account, settings))


def count_part(part: Part, settings: VariantSettings, paths: RunPaths) -> Ingested:
    """Count the reads of a partition and keep them, without the locations that have none."""
    kept: list[tuple[Counts, Loci]] = []
    indels: list[Indels] = []
    no_reads = no_reference = 0
    empty: list[str] = []  # some of the positions without a read
    account: Any = 0
    columns: list[Column] = []
    for piece in count_positions(part, settings):
        account, columns = account + piece.account, piece.columns
        case = np.array([sample == settings.case for sample, _ in piece.columns])
        counts, loci, *lost = variant_counts.clean(
            piece.counts, piece.ref, case, np.full(piece.region.length, piece.region.contig),
            np.arange(piece.region.start + 1, piece.region.stop + 1), piece.forward, piece.sums,
            anchors=None if piece.indels is None else of_case(piece.indels, case),
            deleted=piece.deleted,
        )  # fmt: skip
        kept.append((counts, loci))
        empty += _without_reads(piece.counts, piece.region)[: _NAMED - len(empty)]
        if piece.indels is not None:
            indels.append(at_locations(piece.indels, piece.region.start, loci))
        no_reads, no_reference = no_reads + lost[0], no_reference + lost[1]
    counts, loci = variant_counts.merge(kept)
    found = merge_indels(indels) if len(indels) == len(kept) else None
    write_locations(paths, part.index, counts, loci, found)
    account = whole_account(part, columns, account, settings)
    about = Assembled.of(part.index, counts, (), found, account.tolist())
    json_files.write(paths.part("sizes", part.index, "json"), about)
    dropped = (
        *no_use(no_reads, no_reference, len(counts) + no_reads + no_reference, examples=empty),
        *read_account.dropped(account, settings),
    )
    return Ingested(part.rows, len(counts), dropped)


def _without_reads(counts: np.ndarray, region: Region) -> list[str]:
    """Name some positions of a region that have no read.

    >>> _without_reads(np.array([[[1]], [[0]], [[0]]]), Region("chr1", 9, 12))
    ['chr1:11', 'chr1:12']
    """
    at = np.flatnonzero(~counts.any(axis=(1, 2)))[:_NAMED]
    return [f"{region.contig}:{region.start + 1 + j}" for j in at]


def whole_account(
    part: Part, columns: Sequence[Column], account: IntArray, settings: VariantSettings
) -> IntArray:
    """Return accounts [R, ACCOUNT] of a part with the reads of the whole files, [R, FIELDS].

    The first part alone has these, so that a sum over parts does.
    """
    first = part.slices[0].start == 0
    paths = {(x.sample, x.replicate): x.path for x in read_sheet(part.slices[0].url)}
    totals = [read_account.reads_of(paths[c], settings) if first else 0 for c in columns]
    return np.column_stack([account, totals])


def write_locations(
    paths: RunPaths, index: int, counts: Counts, loci: Loci, indels: Indels | None = None,
    prefix: str = "",
) -> None:  # fmt: skip
    """Keep the counts of some locations, where these are, and the alleles there if any are."""
    kept = {f"{prefix}counts": counts, f"{prefix}loci": loci, "indels": indels}
    for name, state in kept.items():
        if state is not None:
            storage.write_bytes(paths.part(name, index, "npz"), to_bytes(state))


def counted(index: int, paths: RunPaths) -> Assembled:
    """Return what `count_part` kept; what it left out is in its answer."""
    return json_files.read(paths.part("sizes", index, "json"), Assembled)


def no_use(
    no_reads: int, no_reference: int, of: int, what: str = "", examples: Sequence[str] = ()
) -> tuple[Dropped, Dropped]:
    """Return locations, or their rows, that say nothing, out of so many.

    ``examples`` are some without a read.
    """
    return (
        Dropped(
            reason=what + NO_READS,
            count=no_reads,
            of=of,
            examples=list(examples),
            cause="Check that region, BED and reads are of one genome build and panel",
        ),
        Dropped(
            reason=what + NO_REFERENCE,
            count=no_reference,
            of=of,
            cause="Check the FASTA, or the column ref",
        ),
    )


def sort_part(part: Part, settings: VariantSettings, paths: RunPaths) -> Ingested:
    """Check and sort a slice of rows of counts; keep it, without rows that are not wanted."""
    marks = marks_in(part, settings)
    rows = Part(part.index, tuple(s for s in part.slices if s.start < s.stop))
    read, pieces = [], []
    with Rules.of(settings, marks).opened() as rules:
        for s, checker, table in partition.checked(rows, COUNTS):
            rules.check(table, checker.found)
            read.append(table)
            pieces.append(CheckedPiece(s.url, len(table)))
    # Of several cases any may be in a later run: what is kept for it is of every sample.
    names = None if settings.several else [settings.case, *settings.controls]
    found = variant_counts.read_sorted(
        partition.merge(read, COUNTS), names, named_regions(settings, marks),
        _order(settings, marks),
    )  # fmt: skip
    storage.write_table(paths.part("slices", part.index), found.table)
    about = SortedSlice(keys=found.keys, columns=sorted(found.columns), renamed=found.renamed)
    json_files.write(paths.part("slices", part.index, "json"), about)
    dropped = (
        Dropped(
            reason=OTHER_SAMPLE,
            count=found.other_samples,
            of=part.rows,
            cause="To compare these samples, name them in case or controls",
        ),
        Dropped(
            reason=OUTSIDE,
            count=found.outside,
            of=part.rows,
            cause="If these are wanted, check region and the BED",
        ),
    )
    return Ingested(part.rows, len(found.table), dropped, checked=tuple(pieces))


def shuffle(
    parts: Sequence[Part], settings: VariantSettings, paths: RunPaths, each: Each
) -> tuple[list[Assembled], list[Column], list[str]]:
    """Turn sorted slices into partitions of locations.

    Also return the replicates, and what is to be said of contigs that were renamed.
    """
    urls = [paths.part("slices", part.index, "json") for part in parts]
    about = [json_files.read(url, SortedSlice) for url in urls]
    keys = [one.keys for one in about]
    other = {own: name for one in about for own, name in one.renamed.items()}
    said = renamed("the counts", sorted(other.items()))
    columns = replicate_columns([c for one in about for c in one.columns], settings)
    shared = (columns, settings, paths, parts[0].slices[0].url, marks_in(parts[0], settings))
    ranges: list[Range]
    if variant_counts.in_order(keys):
        ranges = [(part.index, None, None, [part.index]) for part in parts]
        return each(_assemble, ranges, *shared), columns, said
    starts = variant_counts.boundaries(keys, len(parts))
    ranges = []
    for i in range(len(starts) + 1):
        low, high = starts[i - 1] if i else None, starts[i] if i < len(starts) else None
        reaching = [
            part.index for part, own in zip(parts, keys, strict=True)
            if own and (high is None or own[0] < high) and (low is None or own[-1] >= low)
        ]  # fmt: skip
        ranges.append((i, low, high, reaching))
    return each(_assemble, ranges, *shared), columns, said


def _assemble(
    where: Range, columns: list[Column], settings: VariantSettings, paths: RunPaths, source: str,
    marks: Marks,
) -> Assembled:  # fmt: skip
    index, low, high, reaching = where
    order = _order(settings, marks)
    tables = [
        variant_counts.between(storage.read_table(paths.part("slices", i)), low, high, order)
        for i in reaching
    ]
    first = storage.read_table(paths.part("slices", reaching[0] if reaching else 0))
    counts, loci, no_reads, no_reference = variant_counts.assemble(
        tables or [first.slice(0, 0)], columns, settings.tested, source, order
    )
    prefix = EVERY_SAMPLE if settings.several else ""
    write_locations(paths, index, counts, loci, prefix=prefix)
    dropped = no_use(no_reads, no_reference, sum(map(len, tables)), "row of a ")
    return Assembled.of(index, counts, dropped)
