"""What reads show at positions: counted of every case and of the controls apart, then put together.

A part of what is read is of one case, or of all controls, at some positions. What is counted stays
as it is at every position, so a later run with other cases finds the controls' counted; and each
case's locations are put together from its own part and the controls'.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from flows import storage
from flows.family import Each, Ingested
from flows.records.runs import RunPaths
from flows.records.states import read_state
from flows.storage import InputFile
from flows.tables.partition import Part, Slice, cut
from flows.variants.input.counts import Column, Loci, has_enough_reads, to_table
from flows.variants.input.locations import (
    Assembled,
    Gathered,
    marks_in,
    no_use,
    replicate_columns,
    write_locations,
)
from flows.variants.input.read_account import FIELDS, dropped, reads_of
from flows.variants.input.sample_sheet import Alignment
from flows.variants.reads import indel_alleles
from flows.variants.reads.alignments import described
from flows.variants.reads.bam_walk import Tally
from flows.variants.reads.reads import ReadCounter, reference
from flows.variants.reads.regions import Region, regions_of, windows_of
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray, State, to_bytes
from vbmodels.variants.counts import Counts
from vbmodels.variants.indels import Indels

_NAMED = 5  # positions without a read
_SUMS = (4, 11)  # of a replicate's reads at a position, as `READ_SUMS` has them


@dataclass(frozen=True)
class Positions(Slice):
    """Positions of all regions, laid end to end; the file is the sheet that names the reads.

    What is counted does not depend on the sheet, which may come to name other cases.
    """

    @property
    def described(self) -> str:
        """The positions."""
        return f"{self.start} {self.stop}"


@dataclass(frozen=True)
class Reads(Slice):
    """The file of one replicate, all of it.

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

    @property
    def column(self) -> Column:
        """The replicate."""
        return self.sample, self.replicate


def plan_reads(
    sheet: InputFile,
    lines: Sequence[Alignment],
    named: Mapping[str, str],
    rows: int,
    settings: VariantSettings,
    compared: bool = True,
) -> list[Part]:
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
    compared
        Whether samples are compared; else each part is of every sample of the sheet.
    """
    paths = {(line.sample, line.replicate): line.path for line in lines}
    samples_of = [(False, settings.controls), *((True, [name]) for name in settings.tested)]
    columns = replicate_columns(list(paths), settings)
    if not compared:
        samples_of, columns = [(True, [line.sample for line in lines])], sorted(paths)
    groups: list[list[Reads]] = []
    for of_case, samples in samples_of:
        chosen = [column for column in columns if column[0] in samples]
        if chosen:
            groups.append([Reads(paths[c], 0, 0, named[paths[c]], 0, *c, of_case) for c in chosen])
    read = set(paths.values())
    also = [Slice(url, 0, 0, mark) for url, mark in named.items() if url not in read]
    parts: list[Part] = []
    for block in cut([sheet], [rows], settings.rows_per_partition, settings.partitions):
        positions = Positions(**vars(block.slices[0]))
        for files in groups:
            parts.append(Part(len(parts), (positions, *files, *also)))
    return parts


def files_of(part: Part) -> list[Reads]:
    """Return the files of reads of a part; none of a part of anything else."""
    return [s for s in part.slices if isinstance(s, Reads)]


@dataclass(frozen=True)
class Tallies(State, kind="flows/variants.Tallies"):
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
    account
        [R, FIELDS] the account of the files' reads.
    events, owner
        [N, 10] insertions and deletions, as `indel_alleles` has them, and [N, 2] in which window
        and of which replicate each is; None where they were not looked for.
    """

    counts: NDArray[np.int32]
    deleted: NDArray[np.int32]
    looked_at: IntArray
    sums: IntArray
    account: IntArray
    events: IntArray | None
    owner: IntArray | None

    def events_in(self, window: int) -> list[IntArray]:
        """Return the insertions and deletions of each replicate in a window."""
        assert self.events is not None
        assert self.owner is not None
        here = self.owner[:, 0] == window
        return [self.events[here & (self.owner[:, 1] == r)] for r in range(self.counts.shape[1])]


def windows_in(part: Part, settings: VariantSettings) -> Iterator[tuple[Region, int]]:
    """Cut the positions of a part of reads into windows, as `windows_of` does."""
    wanted = regions_of(settings, marks_in(part, settings))
    return windows_of(wanted, part.slices[0].start, part.slices[0].stop)


@contextmanager
def counting(part: Part, settings: VariantSettings) -> Iterator[ReadCounter]:
    """Count reads, and refuse files that change while they are counted or are damaged.

    Looked at both before and after, so that what was read is what was checked: the sheet, and all
    that it and the settings name.
    """
    _refuse_changed(part)
    try:
        with ReadCounter(settings) as reads:
            yield reads
    except (OSError, ValueError) as error:
        _refuse_changed(part)  # what changes while it is read looks damaged
        raise storage.StorageError(
            f"the reads of {part.slices[0].url} cannot be counted: {described(error)}; check the "
            "files that it names with samtools quickcheck, and CRAM files against this FASTA"
        ) from error
    _refuse_changed(part)


def _refuse_changed(part: Part) -> None:
    for named in part.slices:
        storage.refuse_changed(named.url, named.fingerprint)


def count_reads(part: Part, settings: VariantSettings, paths: RunPaths) -> Ingested:
    """Count what one part's files show, and keep it."""
    files = files_of(part)
    tallies = []
    with counting(part, settings) as reads:
        for i, (window, met) in enumerate(windows_in(part, settings)):
            tallied = [reads.count(file.url, window, met) for file in files]
            tallies.append(_tallies_of(tallied, window, i, files[0].of_case, settings))
    whole = _joined(tallies)
    whole = replace(whole, account=_with_totals(whole.account, part, settings))
    storage.write_bytes(paths.part("reads", part.index, "npz"), to_bytes(whole))
    rows = part.rows if files[0].of_case else 0  # the controls' are no locations of their own
    return Ingested(rows, rows, dropped(whole.account, settings))


def _with_totals(account: IntArray, part: Part, settings: VariantSettings) -> IntArray:
    """Return accounts with the reads of the whole files, [R, FIELDS].

    The first positions alone have these, so that a sum over parts does.
    """
    first = part.slices[0].start == 0
    totals = [reads_of(file.url, settings) if first else 0 for file in files_of(part)]
    return np.column_stack([account, totals])


def _tallies_of(
    tallied: Sequence[Tally], window: Region, number: int, of_case: bool, settings: VariantSettings
) -> Tallies:
    counts = np.stack([t.counts for t in tallied], axis=1)
    deleted = np.stack([t.deleted for t in tallied], axis=1)
    sums = np.stack([t.sums for t in tallied], axis=1)
    account = np.stack([t.account for t in tallied])
    events = [t.indels for t in tallied]
    ref = reference(str(settings.fasta), window)
    if of_case:
        every = np.ones(len(tallied), bool)
        enough = has_enough_reads(counts.sum(axis=2, dtype=np.int32), ref, every)
        enough[indel_alleles.anchors_with_enough_reads(events, window.start)] = True
        looked_at = np.flatnonzero(enough & (ref >= 0))
        sums = sums[looked_at]
    else:
        looked_at = np.flatnonzero(ref >= 0)
        sums = sums[looked_at, :, ref[looked_at]][:, :, None]
    if not settings.indels:
        return Tallies(counts, deleted, looked_at, sums, account, None, None)
    replicate = np.repeat(np.arange(len(events)), [len(rows) for rows in events])
    owner = np.column_stack([np.full(len(replicate), number), replicate])
    return Tallies(counts, deleted, looked_at, sums, account, np.concatenate(events), owner)


def _joined(windows: Sequence[Tallies]) -> Tallies:
    """Put the windows of a part together."""
    before = np.cumsum([0, *(len(w.counts) for w in windows)])
    looked_at = [w.looked_at + start for w, start in zip(windows, before, strict=False)]
    events = [w.events for w in windows if w.events is not None]
    owner = [w.owner for w in windows if w.owner is not None]
    return Tallies(
        np.concatenate([w.counts for w in windows]),
        np.concatenate([w.deleted for w in windows]),
        np.concatenate(looked_at),
        np.concatenate([w.sums for w in windows]),
        np.sum([w.account for w in windows], axis=0),
        np.concatenate(events) if events else None,
        np.concatenate(owner) if owner else None,
    )


class _Comparison(NamedTuple):
    """One case at some positions: the number of its partition, the case's, and what is counted."""

    partition: int
    case: int
    own: Part
    controls: Part | None


def gather_reads(
    parts: Sequence[Part], settings: VariantSettings, paths: RunPaths, each: Each
) -> Gathered:
    """Put every case's locations together, from its own parts and the controls'."""
    cases = len(settings.tested)
    groups = cases + int(not files_of(parts[0])[0].of_case)
    comparisons: list[_Comparison] = []
    for first in range(0, len(parts), groups):
        of_group = parts[first : first + groups]
        controls = of_group[0] if groups > cases else None
        for case, of_case in enumerate(of_group[groups - cases :]):
            comparisons.append(_Comparison(len(comparisons), case, of_case, controls))
    files = [file for part in parts[:groups] for file in files_of(part)]
    columns = replicate_columns([file.column for file in files], settings)
    partitions = each(_put_together, comparisons, settings, paths)
    account = np.zeros((len(columns), FIELDS), np.int64)
    for comparison, partition in zip(comparisons, partitions, strict=True):
        counted = files_of(comparison.own)
        if comparison.controls is not None and comparison.case == 0:  # they are every case's
            counted += files_of(comparison.controls)
        rows = [columns.index(file.column) for file in counted]
        account[rows] += partition.account[: len(rows)]
    return Gathered(
        partitions,
        columns,
        account,
        positions=sum(part.rows for part in parts) // groups,
        files={file.column: (file.url, file.fingerprint) for file in files},
    )


def _put_together(comparison: _Comparison, settings: VariantSettings, paths: RunPaths) -> Assembled:
    """Put what a case's files and the controls' show at the same positions together."""
    compared = [part for part in (comparison.own, comparison.controls) if part is not None]
    tallies = [read_state(paths.part("reads", p.index, "npz"), Tallies) for p in compared]
    both = np.concatenate([t.counts for t in tallies], axis=1)
    counts = both.sum(axis=2, dtype=np.int32)
    windows = [window for window, _ in windows_in(comparison.own, settings)]
    references = [reference(str(settings.fasta), w, indel_alleles.AHEAD) for w in windows]
    ref = np.concatenate([r[: w.length] for r, w in zip(references, windows, strict=True)])
    chrom = np.repeat([w.contig for w in windows], [w.length for w in windows])
    pos = np.concatenate([np.arange(w.start + 1, w.stop + 1) for w in windows])
    read, known = counts.any(axis=(1, 2)), ref >= 0
    keep = read & known
    looked_at = tallies[0].looked_at
    sums = _sums(tallies, ref)[keep[looked_at]]
    row_of = np.cumsum(keep) - 1
    loci = Loci(chrom[keep], pos[keep], both[keep, :, 0], row_of[looked_at[keep[looked_at]]], sums)
    indels = _indels(tallies, windows, references, keep) if settings.indels else None
    of_case = np.arange(counts.shape[1]) < tallies[0].counts.shape[1]
    deleted = np.concatenate([t.deleted for t in tallies], axis=1)
    joined = Counts(counts[keep], ref[keep], of_case, deleted=deleted[keep])
    write_locations(paths, comparison.partition, joined, loci, indels)
    empty = [f"{chrom[j]}:{pos[j]}" for j in np.flatnonzero(~read)[:_NAMED]]
    lost = no_use(int((~read).sum()), int((read & ~known).sum()), len(read), examples=empty)
    account = np.concatenate([t.account for t in tallies])
    return Assembled.of(comparison.partition, comparison.case, joined, lost, indels, account)


def _sums(tallies: Sequence[Tallies], ref: NDArray[np.int8]) -> IntArray:
    """Return what is known of the reads where the filters compare the case's."""
    of_case, *others = tallies
    looked_at, sums = of_case.looked_at, [of_case.sums]
    for controls in others:
        of_controls = np.zeros((len(looked_at), controls.counts.shape[1], *_SUMS), np.int64)
        of_reference = controls.sums[np.searchsorted(controls.looked_at, looked_at), :, 0]
        of_controls[np.arange(len(looked_at)), :, ref[looked_at]] = of_reference
        sums.append(of_controls)
    return np.concatenate(sums, axis=1)


def _indels(
    tallies: Sequence[Tallies],
    windows: Sequence[Region],
    references: Sequence[NDArray[np.int8]],
    keep: NDArray[np.bool_],
) -> Indels:
    """Put the insertions and deletions at the locations together."""
    of_windows, before = [], 0
    for i, (window, ref) in enumerate(zip(windows, references, strict=True)):
        rows = [of_file for t in tallies for of_file in t.events_in(i)]
        every = indel_alleles.of_positions(window.start, rows, ref, window.length)
        here = np.flatnonzero(keep[before : before + window.length])
        of_windows.append(indel_alleles.at_locations(every, here))
        before += window.length
    return indel_alleles.merge(of_windows)


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
    files = files_of(part)
    columns = [file.column for file in files]
    tables, accounts = list[pa.Table](), []
    with counting(part, settings) as reads:
        for window, met in windows_in(part, settings):
            tallied = [reads.count(file.url, window, met) for file in files]
            by_strand = np.stack([t.counts for t in tallied], axis=1)
            accounts.append(np.stack([t.account for t in tallied]))
            tables.append(
                to_table(
                    by_strand.sum(axis=2, dtype=np.int32),
                    reference(str(settings.fasta), window),
                    window.contig,
                    window.start,
                    columns,
                    by_strand[:, :, 0],
                    np.stack([t.sums for t in tallied], axis=1),
                    np.stack([t.deleted for t in tallied], axis=1),
                )
            )
    table = pa.concat_tables(tables)
    storage.write_table(storage.join(target, names[part.index]), table)
    account = _with_totals(np.sum(accounts, axis=0), part, settings)
    return PartCounts(table.num_rows, columns, account)
