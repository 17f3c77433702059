"""Rows of several classes, each fitted against the rest by the additive form with experts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tests.contract import case_bmem_additive as two
from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.one_vs_rest import ClassRows, OneVersusRest
from vbmodels.testing.case import EVERY

CLASSES = 3


def drawn(rng: np.random.Generator, rows: int) -> tuple[FloatArray, IntArray]:
    """Draw cells and classes; the third lies on both sides."""
    x = rng.standard_normal((rows, 2))
    odds = np.column_stack([2.0 * x[:, 0], -2.0 * x[:, 0], 2.0 * x[:, 1] ** 2 - 2.0])
    chance = np.exp(odds) / np.exp(odds).sum(1, keepdims=True)
    classes = (rng.random((rows, 1)) > np.cumsum(chance, axis=1)).sum(1)
    return x, classes


def cut(x: FloatArray, classes: IntArray, parts: int = 1) -> list[ClassRows]:
    """Return the rows x [N, D] in parts."""
    coded = cut_coded(x, np.where(classes < 0, 0.0, np.where(classes > 0, 1.0, -1.0)), parts)
    ends_at = np.cumsum([0, *(one.size for one in coded)])
    return [
        ClassRows(one, classes[a:b], CLASSES)
        for one, a, b in zip(coded, ends_at[:-1], ends_at[1:], strict=True)
    ]


def batches(seed: int, parts: int) -> Sequence[ClassRows]:
    x, classes = drawn(np.random.default_rng(seed), 60)
    return cut(x, classes, parts)


def tiny(seed: int) -> Sequence[ClassRows]:
    x = np.random.default_rng(seed).standard_normal((6, 1))
    return cut(x, np.array([0, 1, 2, 0, 1, 2]), 2)


OF_ONE = "each class is fitted as bmem_additive is, whose row answers"
CASE = replace(
    two.CASE,
    name="bmem_several",
    model=lambda: OneVersusRest(two.with_mixture()),
    calibration=OF_ONE,
    batches=batches,
    tiny=tiny,
    extremes=OF_ONE,
    agreement=OF_ONE,
    global_step=OF_ONE,
    recovery="held-out rows are compared with the truth by tests/estimators/test_experts.py",
    seeds=(0,),
    thorough=EVERY,
)
