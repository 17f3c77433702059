"""Partitions of several cases: each of one case at some locations, with the controls beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from flows.data import storage
from flows.data.partition import Part
from flows.data.runs import Dropped, RunPaths
from flows.data.states import read_state
from flows.family import Each
from flows.variants.case_reads import joined_reads, of_reads
from flows.variants.counts import Column, Loci, judged
from flows.variants.fitted_on import chosen, weighed
from flows.variants.locations import (
    EVERY_SAMPLE,
    NO_READS,
    NO_REFERENCE,
    Assembled,
    levels_of,
    read_counts,
    replicate_columns,
    shuffle,
    work_url,
    write_locations,
)
from flows.variants.settings import VariantSettings
from vbmodels.core.state import FloatArray, to_bytes
from vbmodels.variants.batch import Counts
from vbmodels.variants.several import OfCase


class Place(NamedTuple):
    """A partition of one case: its number among all, and the parts that it is made of."""

    index: int  # type: ignore[assignment]  # a tuple has a method of that name
    case: int
    own: Part | int
    controls: Part | None


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
        What was left out before the cases were told apart.
    """

    found: tuple[Assembled, ...]
    case: tuple[int, ...]
    columns: list[Column]
    dropped: tuple[Dropped, ...] = ()


def columns_of(columns: Sequence[Column], settings: VariantSettings) -> list[Column]:
    """Return the replicates of one case and of its controls."""
    return replicate_columns(list(columns), settings)


def tell_apart(
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
        return Cases(tuple(found), tuple(place.case for place in places), columns)
    together, _, columns = shuffle(parts, settings, paths, each)
    whole = [one.index for one in together if one.locations]
    places = [
        Place(count * i + c, c, index, None) for i, index in enumerate(whole) for c in range(count)
    ]
    found = each(_of_counts, places, columns, settings, paths)
    dropped = tuple(dropped for one in together for dropped in one.dropped)
    return Cases(tuple(found), tuple(place.case for place in places), columns, dropped)


def _of_reads(place: Place, settings: VariantSettings, paths: RunPaths) -> Assembled:
    assert isinstance(place.own, Part)
    assert place.controls is not None
    joined = joined_reads(place.own, place.controls, settings, paths)
    write_locations(paths, place.index, joined.counts, joined.loci)
    if joined.indels is not None:
        url = work_url(paths, "indels", place.index, "npz")
        storage.write_bytes(url, to_bytes(joined.indels))
    dropped = (Dropped(reason=NO_READS, count=joined.no_reads),
               Dropped(reason=NO_REFERENCE, count=joined.no_reference))  # fmt: skip
    levels = levels_of(joined.counts, joined.indels)
    return Assembled(place.index, len(joined.counts), dropped, levels)


def _of_counts(
    place: Place, columns: Sequence[Column], settings: VariantSettings, paths: RunPaths
) -> Assembled:
    """Take one case's and the controls' replicates out of those of all samples."""
    assert isinstance(place.own, int)
    every = read_counts(paths, place.own, f"{EVERY_SAMPLE}counts")
    loci = read_state(work_url(paths, f"{EVERY_SAMPLE}loci", place.own, "npz"), Loci)
    alone = settings.of_case(settings.several[place.case])
    at = [columns.index(column) for column in columns_of(columns, alone)]
    counts = every.counts[:, at]
    case = np.array([columns[i][0] == alone.case for i in at])
    keep = counts.any(axis=(1, 2))
    counts, ref = counts[keep], every.ref[keep]
    looked_at = sums = None
    if loci.looked_at is not None and loci.sums is not None:
        looked_at = np.flatnonzero(judged(counts, ref, case))
        rows = np.searchsorted(loci.looked_at, np.flatnonzero(keep)[looked_at])
        sums = loci.sums[rows][:, at]
    forward = None if loci.forward is None else loci.forward[keep][:, at]
    here = Loci(loci.chrom[keep], loci.pos[keep], forward, looked_at, sums)
    own_counts = Counts(counts, ref, case)
    write_locations(paths, place.index, own_counts, here)
    return Assembled(place.index, int(keep.sum()), (), levels_of(own_counts))


class ToFit(NamedTuple):
    """A partition that is fitted: its number, its case, its place among the case's."""

    index: int  # type: ignore[assignment]  # a tuple has a method of that name
    case: int
    part: int
    probability: FloatArray


def to_fit(cases: Cases, settings: VariantSettings) -> list[ToFit]:
    """Return the partitions with locations, each with what `fitted_on.chosen` says of its case."""
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
    """Do for a case's partition what `flows.variants.fitted_on.finish_partition` does."""
    alone = settings.of_case(settings.several[one.case])
    of_fit = weighed(one.index, alone, paths, one.probability, columns_of(columns, alone))
    url = work_url(paths, "partitions", one.index, "npz")
    storage.write_bytes(url, to_bytes(OfCase(one.case, one.part, of_fit)))
    return url
