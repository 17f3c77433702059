"""Base counts of a set of locations, and the units and totals that the models read from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.variants.options import BASES as BASES

N_TYPES = 12


@dataclass(frozen=True)
class Counts(State, kind="variants.Counts"):
    """Base counts of J locations in R replicates.

    A replicate that is missing at a location has depth 0 there: its likelihood is 1.

    Attributes
    ----------
    counts
        [J, R, 4] reads that show A, C, G, T.
    ref
        [J] index of the reference base in ``ACGT``; -1 where the reference is not a base.
    case
        [R] True for the replicates of the case, False for those of the control.
    weight
        [J] what each location counts for where the two-groups hyperparameters are fitted, 0 for
        those that are left out, and ``share`` over the probability of being taken for the others;
        None: all are taken. See `sampling`.
    share
        Least probability with which a location is taken.
    member
        [R] which of the control's samples each replicate is of, from 0; -1 for the case. None: all
        replicates of the control are of one sample.
    deleted
        [J, R] reads with a deletion there, which are part of the depth; None: not known.
    context
        [J] which bases are next to each location, or which strand its reads lie on, as `contexts`
        has them; None: not known.
    """

    counts: NDArray[np.int32]
    ref: NDArray[np.int8]
    case: BoolArray
    weight: FloatArray | None = None
    share: float = 1.0
    member: IntArray | None = None
    context: IntArray | None = None
    deleted: IntArray | None = None

    def __post_init__(self) -> None:
        j, r = self.counts.shape[:2]
        if self.counts.shape != (j, r, 4) or self.ref.shape != (j,) or self.case.shape != (r,):
            raise ValueError(
                "expected counts [J, R, 4], ref [J] and case [R], got "
                f"{self.counts.shape}, {self.ref.shape} and {self.case.shape}"
            )
        if self.member is not None and not np.array_equal(self.member < 0, self.case):
            raise ValueError("expected member -1 for the case's replicates, and for no others")
        if j and self.counts.min() < 0:
            where = np.argwhere(self.counts < 0)[0]
            raise ValueError(f"counts must not be negative; location {where[0]} has a negative one")
        if not self.case.any():
            raise ValueError("no replicate belongs to the case: expected at least one")

    def __len__(self) -> int:
        return len(self.ref)

    @property
    def depth(self) -> IntArray:
        """Reads at each location: of any base, or with a deletion there, [J, R]."""
        shown = self.counts.sum(axis=2, dtype=np.int64)
        return np.asarray(shown if self.deleted is None else shown + self.deleted)

    def take(self, index: Any) -> Counts:
        """Return the locations at ``index``."""
        return replace(
            self,
            counts=self.counts[index],
            ref=self.ref[index],
            weight=None if self.weight is None else self.weight[index],
            context=None if self.context is None else self.context[index],
            deleted=None if self.deleted is None else self.deleted[index],
        )

    def sample(self) -> Counts:
        """Return the locations that hyperparameters are fitted on."""
        return self if self.weight is None else self.take(np.flatnonzero(self.weight))


@dataclass(frozen=True)
class Units(State, kind="variants.Units"):
    """One (location, alternative allele) each: what the two-groups test decides about.

    Attributes
    ----------
    alt_reads
        [U, R] reads that show the alternative allele.
    depth
        [U, R] all reads there.
    kind
        [U] substitution type, 3 * ref + rank of alt among the other bases: 0 to 11.
    location
        [U] index of the location in its `Counts`.
    alt
        [U] index of the alternative base in ``ACGT``.
    case
        [R] True for the replicates of the case.
    member, share
        As `Counts` has them.
    weight, context
        [U] of the location.
    """

    alt_reads: IntArray
    depth: IntArray
    kind: IntArray
    location: IntArray
    alt: IntArray
    case: BoolArray
    member: IntArray | None = None
    weight: FloatArray | None = None
    share: float = 1.0
    context: IntArray | None = None

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def members(self) -> IntArray:
        """Which of the control's samples each replicate is of, [R]; -1 for the case."""
        return np.asarray(np.where(self.case, -1, 0) if self.member is None else self.member)

    def take(self, index: Any) -> Units:
        """Return the units at ``index``."""
        return replace(
            self,
            alt_reads=self.alt_reads[index],
            depth=self.depth[index],
            kind=self.kind[index],
            location=self.location[index],
            alt=self.alt[index],
            weight=None if self.weight is None else self.weight[index],
            context=None if self.context is None else self.context[index],
        )

    def by_weight(self) -> Units:
        """Return the units with those of a weight together."""
        return self if self.weight is None else self.take(np.argsort(-self.weight, kind="stable"))


def units(batch: Counts) -> Units:
    """Return three units a location, none where the reference is not a base.

    >>> batch = Counts(np.array([[[9, 0, 1, 0]]], np.int32), np.zeros(1, np.int8), np.ones(1, bool))
    >>> units(batch).alt_reads.ravel().tolist(), units(batch).kind.tolist()
    ([0, 1, 0], [0, 1, 2])
    """
    known = np.flatnonzero(batch.ref >= 0)
    ref = batch.ref[known].astype(np.int64)[:, None]
    rank = np.arange(3)[None, :]
    alt = rank + (rank >= ref)
    location = np.repeat(known, 3)
    alt_reads = batch.counts[known[:, None], :, alt].reshape(len(location), len(batch.case))
    depth = batch.depth[location]
    return Units(
        alt_reads=alt_reads.astype(np.int64),
        depth=depth,
        kind=(3 * ref + rank).ravel(),
        location=location.astype(np.int64),
        alt=alt.ravel(),
        case=batch.case,
        member=batch.member,
        weight=None if batch.weight is None else batch.weight[location],
        share=batch.share,
        context=None if batch.context is None else batch.context[location],
    )


def totals(batch: Counts) -> tuple[IntArray, IntArray]:
    """Return reads that do not show the reference, and depth, both [J, R]; the papers' r and n."""
    depth = batch.counts.sum(axis=2, dtype=np.int64)
    ref = np.maximum(batch.ref, 0).astype(np.int64)
    shown = np.take_along_axis(batch.counts, ref[:, None, None], axis=2)[:, :, 0]
    r = np.where(batch.ref[:, None] >= 0, depth - shown, 0)
    return r.astype(np.int64), np.where(batch.ref[:, None] >= 0, depth, 0)
