"""Several cases: what their reads show, and partitions of each at some locations with the controls.

A partition of what is read is of one case, or of all controls, at some positions. What is counted
stays as it is at every position, so a later run with other cases finds the controls' counted; and
each case's locations are put together from its own part and the controls'.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flows import storage
from flows.family import Each, Ingested
from flows.records import json_files
from flows.records.runs import Dropped, RunPaths
from flows.records.states import read_state
from flows.storage import InputFile
from flows.tables.partition import Part, Slice, cut
from flows.variants.input.alignment_headers import File, header_warnings
from flows.variants.input.counts import Column, Loci, has_enough_reads
from flows.variants.input.indel_counts import (
    AHEAD,
    anchors_with_enough_reads,
    at_locations,
    of_positions,
)
from flows.variants.input.indel_counts import merge as merge_indels
from flows.variants.input.locations import (
    EVERY_SAMPLE,
    Assembled,
    counting,
    marks_in,
    no_use,
    read_counts,
    replicate_columns,
    shuffle,
    windows_in,
    write_locations,
)
from flows.variants.input.read_account import FIELDS, dropped, reads_of
from flows.variants.input.sample_sheet import Alignment
from flows.variants.input.training_sites import chosen, weighed
from flows.variants.reads.reads import ReadCounter, reference
from flows.variants.reads.regions import Region, marks_of, regions_of
from flows.variants.settings import VariantSettings
from vbmodels.core.state import FloatArray, IntArray, State, to_bytes
from vbmodels.variants.counts import Counts
from vbmodels.variants.indels import Indels
from vbmodels.variants.two_groups.cases import OfCase


class Place(NamedTuple):
    """A partition of one case: its number among all, and the parts that it is made of."""

    index: int  # type: ignore[assignment]  # a tuple has a method of that name
    case: int
    own: Part
    controls: Part


@dataclass(frozen=True)
class Cases:
    """The partitions of all cases.

    Attributes
    ----------
    found
        Every partition, with those without a location.
    case
        Of which case each is.
    columns
        The replicates of all samples.
    dropped
        What was left out before the cases were separated.
    account
        [R, FIELDS] the account of reads; None where none is known.
    said
        What is to be said of the files.
    """

    found: tuple[Assembled, ...]
    case: tuple[int, ...]
    columns: list[Column]
    dropped: tuple[Dropped, ...] = ()
    account: IntArray | None = None
    said: tuple[str, ...] = ()


def separate_cases(
    parts: Sequence[Part], settings: VariantSettings, paths: RunPaths, each: Each
) -> Cases:
    """Make every case's partitions, of reads or of rows of counts."""
    count = len(settings.several)
    if of_reads(parts[0]):
        files = [(f.sample, f.replicate) for p in parts[: count + 1] for f in of_reads(p)]
        columns = replicate_columns(files, settings)
        places = [
            Place(count * (i // (count + 1)) + c, c, parts[i + 1 + c], parts[i])
            for i in range(0, len(parts), count + 1)
            for c in range(count)
        ]
        found = each(_of_reads, places, settings, paths)
        account = account_of(parts, columns, paths, each)
        of_places = tuple(place.case for place in places)
        own = dict.fromkeys(File(f.sample, f.replicate, f.url) for p in parts for f in of_reads(p))
        wanted = regions_of(settings, marks_in(parts[0], settings))
        said = header_warnings(list(own), wanted, settings)
        return Cases(tuple(found), of_places, columns, account=account, said=tuple(said))
    together, columns, said = shuffle(parts, settings, paths, each)
    whole = [one.index for one in together if one.locations]
    of_all = [(count * i + c, c, index) for i, index in enumerate(whole) for c in range(count)]
    found = each(_of_counts, of_all, columns, settings, paths)
    lost = tuple(dropped for one in together for dropped in one.dropped)
    return Cases(tuple(found), tuple(c for _, c, _ in of_all), columns, lost, said=tuple(said))


def _of_reads(place: Place, settings: VariantSettings, paths: RunPaths) -> Assembled:
    """Put what a case's files and the controls' show at the same positions together.

    The result is what `flows.variants.input.locations.count_part` makes of all these files.
    """
    own, other = (
        read_state(paths.part("reads", part.index, "npz"), Counted)
        for part in (place.own, place.controls)
    )
    both = np.concatenate([own.counts, other.counts], axis=1)
    counts = both.sum(axis=2, dtype=np.int32)
    pieces = [piece for piece, _ in windows_in(place.own, settings)]
    refs = [reference(str(settings.fasta), piece, AHEAD) for piece in pieces]
    ref = np.concatenate([r[: p.length] for r, p in zip(refs, pieces, strict=True)])
    read, known = counts.any(axis=(1, 2)), ref >= 0
    keep = read & known
    loci = Loci(
        np.repeat([p.contig for p in pieces], [p.length for p in pieces])[keep],
        np.concatenate([np.arange(p.start + 1, p.stop + 1) for p in pieces])[keep],
        both[keep, :, 0], (np.cumsum(keep) - 1)[own.looked_at], _sums(own, other, ref),
    )  # fmt: skip
    indels = _indels(own, other, pieces, refs, keep, loci)
    of_case = np.arange(counts.shape[1]) < own.counts.shape[1]
    deleted = np.concatenate([own.deleted, other.deleted], axis=1)
    kept = Counts(counts[keep], ref[keep], of_case, deleted=deleted[keep])
    write_locations(paths, place.index, kept, loci, indels)
    lost = no_use(int((~read).sum()), int((read & ~known).sum()), len(read))
    return Assembled.of(place.index, kept, lost, indels)


def _of_counts(
    where: tuple[int, int, int], columns: Sequence[Column], settings: VariantSettings,
    paths: RunPaths,
) -> Assembled:  # fmt: skip
    """Take one case's and the controls' replicates out of those of all samples.

    ``where`` is the partition's number, its case, and the partition of all samples.
    """
    index, case_number, of_all = where
    every = read_counts(paths, of_all, f"{EVERY_SAMPLE}counts")
    loci = read_state(paths.part(f"{EVERY_SAMPLE}loci", of_all, "npz"), Loci)
    alone = settings.of_case(settings.several[case_number])
    at = [columns.index(column) for column in replicate_columns(columns, alone)]
    counts = every.counts[:, at]
    case = np.array([columns[i][0] == alone.case for i in at])
    keep = counts.any(axis=(1, 2))
    counts, ref = counts[keep], every.ref[keep]
    looked_at = sums = None
    if loci.looked_at is not None and loci.sums is not None:
        looked_at = np.flatnonzero(has_enough_reads(counts, ref, case))
        rows = np.searchsorted(loci.looked_at, np.flatnonzero(keep)[looked_at])
        sums = loci.sums[rows][:, at]
    forward = None if loci.forward is None else loci.forward[keep][:, at]
    deleted = None if every.deleted is None else every.deleted[keep][:, at]
    own = Counts(counts, ref, case, deleted=deleted)
    write_locations(
        paths, index, own, Loci(loci.chrom[keep], loci.pos[keep], forward, looked_at, sums)
    )
    return Assembled.of(index, own, ())


class ToFit(NamedTuple):
    """A partition that is fitted: its number, its case, its place among the case's."""

    index: int  # type: ignore[assignment]  # a tuple has a method of that name
    case: int
    part: int
    probability: FloatArray


def to_fit(cases: Cases, settings: VariantSettings) -> list[ToFit]:
    """Return the partitions with locations, each with the training sites of its case."""
    of_cases: dict[int, list[Assembled]] = {}
    for one, case in zip(cases.found, cases.case, strict=True):
        if one.locations:
            of_cases.setdefault(case, []).append(one)
    found = []
    for case, own in of_cases.items():
        probability = chosen(own)
        found += [ToFit(one.index, case, part, probability) for part, one in enumerate(own)]
    return sorted(found, key=lambda one: one.index)


def finish_case(
    one: ToFit, settings: VariantSettings, paths: RunPaths, columns: Sequence[Column]
) -> str:
    """Do for a case's partition what `training_sites.finish_partition` does."""
    alone = settings.of_case(settings.several[one.case])
    of_fit = weighed(one.index, alone, paths, one.probability, replicate_columns(columns, alone))
    url = paths.part("partitions", one.index, "npz")
    storage.write_bytes(url, to_bytes(OfCase(one.case, one.part, of_fit)))
    return url


_SUMS = (4, 11)  # of a replicate's reads at a position, as `READ_SUMS` has them


@dataclass(frozen=True)
class Reads(Slice):
    """The file of one replicate; positions of all regions laid end to end.

    Of a part's files the first alone has the positions, which are counted once as its rows.

    Attributes
    ----------
    sample, replicate
        Whose it is.
    of_case
        Whether that is a case.
    """

    sample: str = ""
    replicate: str = ""
    of_case: bool = True

    @property
    def described(self) -> str:
        """With whether that is a case: of the reads of a control less is kept."""
        return f"{super().described} {'case' if self.of_case else 'control'}"


@dataclass(frozen=True)
class Counted(State):
    """What the files of one part show at its J positions.

    Attributes
    ----------
    counts
        [J, R, 2, 4] reads by strand and base.
    deleted
        [J, R] reads with a deletion there.
    looked_at
        [E] positions whose reads the filters may need.
    sums
        [E, R, 4, 11] of a case, [E, R, 1, 11] of controls, of which the reference's reads alone
        are needed: sums over the reads, as `READ_SUMS` has them.
    events, owner
        [N, 10] insertions and deletions, as `indel_events` has them, and [N, 2] in which window and
        of which replicate each is; None where they were not looked for.
    """

    counts: NDArray[np.int32]
    deleted: NDArray[np.int32]
    looked_at: IntArray
    sums: IntArray
    events: IntArray | None
    owner: IntArray | None


def plan_reads(
    sheet: InputFile, lines: Sequence[Alignment], named: Mapping[str, str], rows: int,
    settings: VariantSettings,
) -> list[Part]:  # fmt: skip
    """Cut the positions, for the controls and for every case alike.

    Parameters
    ----------
    sheet, lines
        The sample sheet.
    named
        The files that it and the settings name, and what marks their versions.
    rows
        Positions.
    settings
        The run's.
    """
    marks = marks_of(settings)
    paths = {(line.sample, line.replicate): line.path for line in lines}
    columns = replicate_columns(list(paths), settings)
    groups = [settings.controls, *([name] for name in settings.several)]
    of_groups = [[c for c in columns if c[0] in group] for group in groups]
    also = [Slice(url, 0, 0, mark) for url, mark in marks]
    parts: list[Part] = []
    for block in cut([sheet], [rows], settings.rows_per_partition, settings.partitions):
        low, high = block.slices[0].start, block.slices[0].stop
        for group, own in enumerate(of_groups):
            files = [
                Reads(paths[c], 0 if i else low, 0 if i else high, named[paths[c]], 0, *c,
                      of_case=group > 0)
                for i, c in enumerate(own)
            ]  # fmt: skip
            parts.append(Part(len(parts), (*files, *also)))
    return parts


def of_reads(part: Part) -> list[Reads]:
    """Return the files of a part of reads; none of a part of anything else."""
    return [s for s in part.slices if isinstance(s, Reads)]


def count_reads(part: Part, settings: VariantSettings, paths: RunPaths) -> Ingested:
    """Count what one part's files show, and keep it."""
    files = of_reads(part)
    pieces, accounts = [], []
    names = ", ".join(file.url for file in files)
    with counting(part, names, "these files"), ReadCounter(settings) as reads:
        for i, (one, met) in enumerate(windows_in(part, settings)):
            piece, account = _piece(files, one, i, reads, met)
            pieces.append(piece)
            accounts.append(account)
    storage.write_bytes(paths.part("reads", part.index, "npz"), to_bytes(_joined(pieces)))
    first = files[0].start == 0  # which alone has what is of the whole files
    totals = [reads_of(file.url, settings) if first else 0 for file in files]
    account = np.column_stack([np.sum(accounts, axis=0), totals])
    json_files.write(_account_url(paths, part.index), Account(account=account.tolist()))
    rows = part.rows if files[0].of_case else 0  # the controls' are no locations of their own
    return Ingested(rows, rows, dropped(account, settings))


class Account(json_files.Form):
    """The account of the reads of a part's files, [R, FIELDS]."""

    account: list[list[int]]


def _account_url(paths: RunPaths, index: int) -> str:
    return paths.part("account", index, "json")


def _account_of(part: Part, paths: RunPaths) -> tuple[list[Column], list[list[int]]]:
    account = json_files.read(_account_url(paths, part.index), Account).account
    return [(file.sample, file.replicate) for file in of_reads(part)], account


def account_of(
    parts: Sequence[Part], columns: Sequence[Column], paths: RunPaths, each: Each
) -> IntArray:
    """Return the account of every replicate's reads over all parts, [R, FIELDS]."""
    total = np.zeros((len(columns), FIELDS), np.int64)
    for own, account in each(_account_of, parts, paths):
        total[[columns.index(column) for column in own]] += np.array(account, np.int64)
    return total


def _piece(
    files: Sequence[Reads], piece: Region, window: int, reads: ReadCounter, met: int
) -> tuple[Counted, IntArray]:
    settings = reads.settings
    found = [reads.count(file.url, piece, met) for file in files]
    account = np.stack([one.account for one in found])
    counts = np.stack([one.counts for one in found], axis=1)
    deleted = np.stack([one.deleted for one in found], axis=1)
    ref = reference(str(settings.fasta), piece)
    every, events = np.stack([one.sums for one in found], axis=1), [one.indels for one in found]
    if files[0].of_case:
        enough = has_enough_reads(
            counts.sum(axis=2, dtype=np.int32), ref, np.ones(len(files), bool)
        )
        enough[anchors_with_enough_reads(events, piece.start)] = True
        at = np.flatnonzero(enough & (ref >= 0))
        sums = every[at]
    else:
        at = np.flatnonzero(ref >= 0)
        sums = every[at, :, ref[at]][:, :, None]
    if not settings.indels:
        return Counted(counts, deleted, at, sums, None, None), account
    replicate = np.repeat(np.arange(len(events)), [len(rows) for rows in events])
    owner = np.column_stack([np.full(len(replicate), window), replicate])
    return Counted(counts, deleted, at, sums, np.concatenate(events), owner), account


def _joined(pieces: Sequence[Counted]) -> Counted:
    before = np.cumsum([0, *(len(piece.counts) for piece in pieces)])
    at = [piece.looked_at + start for piece, start in zip(pieces, before, strict=False)]
    events = [piece.events for piece in pieces if piece.events is not None]
    owner = [piece.owner for piece in pieces if piece.owner is not None]
    return Counted(
        np.concatenate([piece.counts for piece in pieces]),
        np.concatenate([piece.deleted for piece in pieces]),
        np.concatenate(at),
        np.concatenate([piece.sums for piece in pieces]),
        np.concatenate(events) if events else None,
        np.concatenate(owner) if owner else None,
    )


def _sums(own: Counted, other: Counted, ref: NDArray[np.int8]) -> IntArray:
    """Return what is known of the reads where the filters compare the case's."""
    at = own.looked_at
    control = np.zeros((len(at), other.counts.shape[1], *_SUMS), np.int64)
    of_reference = other.sums[np.searchsorted(other.looked_at, at), :, 0]
    control[np.arange(len(at)), :, ref[at]] = of_reference
    return np.concatenate([own.sums, control], axis=1)


def _indels(
    own: Counted, other: Counted, pieces: Sequence[Region], refs: Sequence[NDArray[np.int8]],
    keep: np.ndarray, loci: Loci,
) -> Indels | None:  # fmt: skip
    if own.events is None or other.events is None:
        return None
    found, first, before = [], 0, 0
    for i, (piece, ref) in enumerate(zip(pieces, refs, strict=True)):
        rows = [of_file for one in (own, other) for of_file in _events(one, i)]
        last = first + int(keep[before : before + piece.length].sum())
        here = Loci(loci.chrom[first:last], loci.pos[first:last], None)
        every = of_positions(piece.start, rows, ref, piece.length)
        found.append(at_locations(every, piece.start, here))
        first, before = last, before + piece.length
    return merge_indels(found)


def _events(of: Counted, window: int) -> list[IntArray]:
    """Return the alleles of each replicate in a window."""
    assert of.events is not None
    assert of.owner is not None
    here = of.owner[:, 0] == window
    return [of.events[here & (of.owner[:, 1] == r)] for r in range(of.counts.shape[1])]
