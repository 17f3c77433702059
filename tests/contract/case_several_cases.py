"""The row of several cases in one fit: two of `batch_null`, each with partitions of its own."""

from __future__ import annotations

import numpy as np

from tests.contract import case_batch_null
from vbmodels.testing.case import Best, Case
from vbmodels.variants.several import OfCase, Several

OF_ONE = "each case's fit is that of `batch_null`, to the bit: tests/vbmodels/variants/test_several"
NAMES = ("one", "other")


def batches(seed: int, parts: int) -> list[OfCase]:
    """Cut the first case into half of the parts and the other into the rest, side by side."""
    counts = [max(1, parts // 2), max(1, parts - parts // 2)]
    cut = [case_batch_null.batches(seed + 100 * c, n) for c, n in enumerate(counts)]
    placed = [OfCase(c, p, own) for c, of in enumerate(cut) for p, own in enumerate(of)]
    return [placed[i] for i in np.argsort([one.part for one in placed], kind="stable")]


def tiny(seed: int) -> list[OfCase]:
    """Two cases of a few units."""
    return [
        OfCase(c, p, own) for c in range(2) for p, own in enumerate(case_batch_null.tiny(seed + c))
    ]


CASE = Case(
    name="several_cases",
    calibration=OF_ONE,
    best=Best(max_iter=80),
    model=lambda: Several(case_batch_null.MODEL, NAMES),
    batches=batches,
    tiny=tiny,
    draws="it has no sampler: every posterior is quadrature",
    extremes=OF_ONE,
    agreement=OF_ONE,
    global_step=OF_ONE,
    local_step="the local state is a table of likelihoods: it depends on the data alone",
    monte_carlo=OF_ONE,
    evidence=OF_ONE,
    sampler=OF_ONE,
    recovery=OF_ONE,
    partition_rtol=case_batch_null.CASE.partition_rtol,
)
