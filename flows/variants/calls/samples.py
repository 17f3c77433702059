"""Which replicates are whose: of the case, of its control, of every sample of a panel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from flows.variants.settings import VariantSettings
from vbmodels.core.state import BoolArray, IntArray
from vbmodels.variants.counts import Counts

LEAST_DEPTH = 20  # of a replicate that says what its sample carries
CARRIED, ABSENT = 0.3, 0.02  # shares of an allele that one person's replicates do not both have
LEAST_MIXED = 3  # locations from which on replicates are of different people


class Role(NamedTuple):
    """The replicates of one sample of a comparison.

    Attributes
    ----------
    name
        ``case``, ``control``, or ``panel`` with a number from 1.
    sample
        The sample's name.
    own
        [R] its replicates.
    """

    name: str
    sample: str
    own: BoolArray

    @property
    def of_panel(self) -> bool:
        """Whether it is of the panel."""
        return self.name.startswith("panel")


def roles_of(case: BoolArray, member: IntArray | None, settings: VariantSettings) -> list[Role]:
    """Return the samples of a comparison: the case, its control, the panel.

    ``case`` and ``member`` are [R], as `Counts` has them.
    """
    found = [Role("case", settings.case, case)]
    if settings.control:
        found.append(Role("control", settings.control, ~case if member is None else member == 0))
    first = len(found) - 1
    for i, sample in enumerate(settings.members):
        own = np.zeros(len(case), bool) if member is None else member == first + i
        found.append(Role(f"panel{i + 1}", sample, own))
    return found


@dataclass(frozen=True)
class Mixed:
    """A sample, and at how many locations its replicates carry different alleles."""

    sample: str
    locations: int


def mixed(batch: Counts, settings: VariantSettings) -> tuple[Mixed, ...]:
    """Count locations at which replicates of a sample carry different alleles, by sample.

    An allele has a share above .3 in one of them and below .02 in another, of 20 reads and more.
    """
    found = []
    for role in roles_of(batch.case, batch.member, settings):
        if role.own.sum() < 2 or not len(batch):
            continue
        reads = batch.counts[:, role.own].astype(float)
        depth = reads.sum(axis=2, keepdims=True)
        share = np.where(depth >= LEAST_DEPTH, reads / np.maximum(depth, 1.0), np.nan)
        known = ~np.isnan(share).any(axis=(1, 2))
        if not known.any():
            continue
        share = share[known]
        rows = np.arange(len(share))
        share[rows, :, np.maximum(batch.ref[known], 0)] = np.nan
        most, least = _ends(share)
        apart = ((most >= CARRIED) & (least <= ABSENT)).any(axis=1)
        found.append(Mixed(role.sample, int(apart.sum())))
    return tuple(one for one in found if one.locations)


def _ends(share: Any) -> tuple[Any, Any]:
    """Return the largest and the smallest share of every allele over replicates, [J, 4]."""
    return (np.where(np.isnan(share), -1.0, share).max(axis=1),
            np.where(np.isnan(share), 2.0, share).min(axis=1))  # fmt: skip


def mixed_in(parts: Sequence[Sequence[Mixed]]) -> tuple[Mixed, ...]:
    """Return the samples whose replicates look like different people's in all parts together."""
    total: Counter[str] = Counter()
    for one in (one for part in parts for one in part):
        total[one.sample] += one.locations
    return tuple(Mixed(sample, n) for sample, n in total.items() if n >= LEAST_MIXED)
