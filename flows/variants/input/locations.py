"""Partitions of locations in a run's store: what is kept of them, and what was left out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from flows import storage
from flows.records.runs import Dropped, RunPaths
from flows.records.states import read_state
from flows.tables.partition import Part
from flows.variants.input.counts import Column, Loci
from flows.variants.reads.contigs import Marks
from flows.variants.settings import VariantSettings
from vbmodels.core.state import IntArray, State, to_bytes
from vbmodels.variants.counts import Counts
from vbmodels.variants.indels import Indels
from vbmodels.variants.sampling import differing, numbers
from vbmodels.variants.two_groups.cases import OfCase

NO_READS = "position without a read in any replicate"
NO_REFERENCE = "location whose reference is not A, C, G or T"


@dataclass(frozen=True)
class Assembled:
    """A partition of one case's locations that was put together, and what was left out.

    Attributes
    ----------
    index, case
        The partition, and the number of its case.
    locations, dropped
        How many locations it has, and what was left out.
    levels
        Numbers of locations by `sampling.differing`.
    depth
        [R, 2] bases that count at the locations, and those that differ from the reference.
    digests
        [R] of the counts.
    account
        [R, FIELDS] the account of reads; without rows where counts were given.
    """

    index: int
    case: int
    locations: int
    dropped: tuple[Dropped, ...]
    levels: IntArray
    depth: IntArray
    digests: tuple[str, ...]
    account: IntArray

    @classmethod
    def of(
        cls,
        index: int,
        case: int,
        counts: Counts,
        dropped: tuple[Dropped, ...],
        indels: Indels | None = None,
        account: IntArray | None = None,
    ) -> Self:
        """Describe the counts of a partition."""
        bases = counts.counts.sum(axis=(0, 2), dtype=np.int64)
        same = counts.counts[np.arange(len(counts)), :, counts.ref].sum(axis=0, dtype=np.int64)
        columns = np.moveaxis(counts.counts, 1, 0)
        return cls(
            index,
            case,
            len(counts),
            dropped,
            numbers(differing(counts, indels)),
            np.stack([bases, bases - same], axis=1),
            tuple(hashlib.blake2b(c.tobytes(), digest_size=8).hexdigest() for c in columns),
            np.zeros((0, 0), np.int64) if account is None else account,
        )


@dataclass(frozen=True)
class Gathered:
    """All partitions of all cases.

    Attributes
    ----------
    partitions
        Each, also those without a location.
    columns
        The replicates of all samples.
    account
        [R, FIELDS] the account of reads; None of counts.
    positions
        How many positions were looked at; 0 of counts.
    files
        By replicate its file of reads, and what marks its version; none of counts.
    warnings
        What is to be said of the files.
    """

    partitions: Sequence[Assembled]
    columns: list[Column]
    account: IntArray | None = None
    positions: int = 0
    files: Mapping[Column, tuple[str, str]] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def of_case(self, case: int) -> list[Assembled]:
        """Return the partitions of one case."""
        return [p for p in self.partitions if p.case == case]


def read_loci(paths: RunPaths, index: int) -> Loci:
    """Read where a partition's locations are."""
    return read_state(paths.part("loci", index, "npz"), Loci)


def read_counts(paths: RunPaths, index: int, folder: str = "partitions") -> Counts:
    """Read the counts of a partition."""
    state = read_state(paths.part(folder, index, "npz"), State)
    counts = state.counts if isinstance(state, OfCase) else state
    assert isinstance(counts, Counts)
    return counts


def read_indels(paths: RunPaths, index: int) -> Indels | None:
    """Read a partition's alleles; None where they were not looked for."""
    url = paths.part("indels", index, "npz")
    return read_state(url, Indels) if storage.exists(url) else None


def write_locations(
    paths: RunPaths, index: int, counts: Counts, loci: Loci, indels: Indels | None = None
) -> None:
    """Keep the counts of some locations, where these are, and the alleles there if any are."""
    for name, state in {"counts": counts, "loci": loci, "indels": indels}.items():
        if state is not None:
            storage.write_bytes(paths.part(name, index, "npz"), to_bytes(state))


def marks_in(part: Part, settings: VariantSettings) -> Marks:
    """Return the versions of the FASTA and the BED that a partition was planned with."""
    named = (settings.fasta, settings.bed)
    return tuple((s.url, s.fingerprint) for s in part.slices if s.url in named)


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
