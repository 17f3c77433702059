"""Called bases on the same reads as one record, a multi-nucleotide variant (MNV).

The reads are read again at the called places alone: counts of single positions have no phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows import storage
from flows.family import Each
from flows.variants.calls.alleles import AlleleReads, by_role
from flows.variants.calls.part_calls import PartCalls
from flows.variants.calls.samples import Role, roles_of
from flows.variants.input.counts import Column
from flows.variants.input.locations import members_of
from flows.variants.reads.reads import ReadCounter, reference
from flows.variants.reads.regions import Region
from flows.variants.settings import VariantSettings
from vbmodels.variants.counts import BASES

SAME_READS = 0.8
"""Least share, of the case's templates with either allele, that have all alleles of a record."""

Call = dict[str, Any]
File = tuple[str, str]  # a file of reads, and what marks its version


def join_alleles(
    parts: Sequence[PartCalls],
    columns: Sequence[Column],
    files: Sequence[File],
    settings: VariantSettings,
    each: Each,
) -> list[PartCalls]:
    """Join called bases that the same reads show, within ``mnv`` bases of each other.

    Parameters
    ----------
    parts
        The calls of every partition, in the order of the contigs.
    columns, files
        [R] the replicates, and their files of reads; no files where counts were given.
    settings, each
        Of one case.
    """
    groups = _close_calls([call for part in parts for call in part.calls], settings.mnv)
    if not files or not groups:
        return list(parts)
    replaced: dict[tuple[Any, ...], Call | None] = {}
    for records in each(_join_group, groups, columns, files, settings):
        for members, record in records:
            replaced |= {_key(call): None for call in members} | {_key(members[0]): record}
    joined = []
    for part in parts:
        calls = [replaced.get(_key(call), call) for call in part.calls]
        joined.append(replace(part, calls=tuple(call for call in calls if call is not None)))
    return joined


def _key(call: Call) -> tuple[Any, ...]:
    return call["chrom"], call["pos"], call["alt"]


def _close_calls(calls: Sequence[Call], most: int) -> list[list[Call]]:
    """Return groups of calls at several positions, each within ``most`` bases of the next."""
    groups: list[list[Call]] = []
    for call in calls:
        last = groups[-1][-1] if groups else {"chrom": None}
        if last["chrom"] == call["chrom"] and 0 <= call["pos"] - last["pos"] < most:
            groups[-1].append(call)
        else:
            groups.append([call])
    return [group for group in groups if group[0]["pos"] != group[-1]["pos"]]


@dataclass(frozen=True)
class _Place:
    """What the reads show at consecutive positions.

    Attributes
    ----------
    start
        The first position, from 1.
    ref
        [P] bases of the reference.
    shown, reverse
        By replicate, see `bam_walk.templates`.
    roles
        The samples.
    """

    start: int
    ref: NDArray[np.int8]
    shown: list[NDArray[np.int8]]
    reverse: list[NDArray[np.bool_]]
    roles: list[Role]

    def on_same_reads(self, calls: Sequence[Call]) -> bool:
        """Return whether most of the case's reads of any of the alleles have all of them."""
        bases = np.concatenate([self.shown[r] for r in np.flatnonzero(self.roles[0].own)])
        offsets = [call["pos"] - self.start for call in calls]
        bases = bases[(bases[:, offsets] >= 0).all(axis=1)][:, offsets]
        has = bases == [BASES.index(call["alt"]) for call in calls]
        joint = int(has.all(axis=1).sum())
        every = max(call["samples"]["case"]["reads"] for call in calls)
        # Where few reads reach over all positions these say little of the others.
        return joint >= max(SAME_READS * int(has.sum(axis=0).max(initial=0)), 0.5 * every, 1)

    def record(self, calls: Sequence[Call]) -> Call:
        """Return the record of alleles together: joint reads, and the rest of the surest."""
        low, high = (calls[i]["pos"] - self.start for i in (0, -1))
        alt = self.ref.copy()
        for call in calls:
            alt[call["pos"] - self.start] = BASES.index(call["alt"])
        ref, alt = self.ref[low : high + 1], alt[low : high + 1]
        bases = [shown[:, low : high + 1] for shown in self.shown]
        all_there = [(shown >= 0).all(axis=1) for shown in bases]
        of_ref = [(shown == ref).all(axis=1) for shown in bases]
        of_alt = [(shown == alt).all(axis=1) for shown in bases]
        strands = [
            _numbers([these & way for these, way in zip(kind, ways, strict=True)])
            for kind in (of_ref, of_alt)
            for ways in ([~r[:, low] for r in self.reverse], [r[:, low] for r in self.reverse])
        ]
        reads = AlleleReads(_numbers(all_there), _numbers(of_ref), _numbers(of_alt), strands)
        best = max(calls, key=lambda call: float(call["qual"]))
        return {
            **best,
            "pos": calls[0]["pos"],
            "ref": _text(ref),
            "alt": _text(alt),
            **by_role(reads, self.roles),
        }


def _numbers(which: Sequence[Any]) -> NDArray[np.int64]:
    return np.array([rows.sum() for rows in which], np.int64)


def _text(codes: NDArray[np.int8]) -> str:
    return "".join((*BASES, "N")[code] for code in codes)


def _join_group(
    group: Sequence[Call],
    columns: Sequence[Column],
    files: Sequence[File],
    settings: VariantSettings,
) -> list[tuple[list[Call], Call]]:
    """Return the alleles that are joined, and the record of each, within a group of calls.

    From the first allele on, each of the next ones joins that is within ``mnv`` bases, has the
    same FILTER and is on the same reads.
    """
    place, joined, left = _read_place(group, columns, files, settings), [], list(group)
    while left:
        members = [left.pop(0)]
        for call in list(left):
            apart = call["pos"] > members[-1]["pos"]
            near = call["pos"] - members[0]["pos"] < settings.mnv
            alike = call["filters"] == members[0]["filters"]
            if apart and near and alike and place.on_same_reads([*members, call]):
                members.append(call)
                left.remove(call)
        if len(members) > 1:
            joined.append((members, place.record(members)))
    return joined


def _read_place(
    group: Sequence[Call],
    columns: Sequence[Column],
    files: Sequence[File],
    settings: VariantSettings,
) -> _Place:
    contig, start, stop = group[0]["chrom"], group[0]["pos"], group[-1]["pos"] + 1
    shown, reverse = [], []
    with ReadCounter(settings) as reads:
        for url, mark in files:
            storage.refuse_changed(url, mark)
            bases, backwards = reads.templates(url, contig, np.arange(start, stop) - 1)
            storage.refuse_changed(url, mark)
            shown.append(bases)
            reverse.append(backwards)
    ref = reference(str(settings.fasta), Region(contig, start - 1, stop - 1))
    case = np.array([sample == settings.case for sample, _ in columns])
    return _Place(
        start, ref, shown, reverse, roles_of(case, members_of(columns, settings), settings)
    )
