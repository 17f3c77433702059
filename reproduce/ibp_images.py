"""The text's images, and how well their features are found."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from vbmodels.core.state import BoolArray, FloatArray, IntArray

DRAWN = """
.0.111
0001.1
.0.111
2...3.
22.333
222.3.
"""
"""Which base image each of 6 x 6 pixels is of: drawn after section 5.1; they are in no table."""


def base_images() -> BoolArray:
    """Return four base images, white where true; [4, 36]."""
    pixels = np.array(list(DRAWN.replace("\n", "")))
    return np.asarray(pixels == np.array(list("0123"))[:, None])


def simulate_images(
    rng: np.random.Generator, n_rows: int = 200, presence: float = 0.3, white: float = 0.5
) -> tuple[IntArray, BoolArray]:
    """Draw images as in section 5.1: each base image is there with probability ``presence``.

    A pixel that any of them makes white shows so with probability ``white``.

    Returns
    -------
    codes, z
        [N, 36] pixels and [N, 4] which base images are there.
    """
    z = rng.random((n_rows, 4)) < presence
    possible = (z.astype(int) @ base_images().astype(int)) > 0
    shown = possible & (rng.random(possible.shape) < white)
    return shown.astype(np.int64), z


def matched_f1(found: BoolArray, true: BoolArray) -> float:
    """Return the mean F1 of the true features, each with a found one or its complement.

    A feature and its complement give the same fit, so either counts. The matching is the best
    one; true features beyond the found ones count 0.
    """
    score = np.maximum(_f1(found, true), _f1(~found, true))
    rows, columns = linear_sum_assignment(score, maximize=True)
    return float(score[rows, columns].sum() / true.shape[1])


def _f1(found: BoolArray, true: BoolArray) -> FloatArray:
    """Return F1 of every true feature and every found one, [K, K']."""
    both = true.T.astype(float) @ found
    total = true.sum(0)[:, None] + found.sum(0)
    return np.asarray(2.0 * both / np.maximum(total, 1))
