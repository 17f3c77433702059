"""The text's images, and how well their features are found."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from vbmodels.core.state import BoolArray, IntArray

_PLUS = [(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)]
_SQUARE = [(0, 3), (0, 4), (0, 5), (1, 3), (1, 5), (2, 3), (2, 4), (2, 5)]
_CORNER = [(3, 0), (4, 0), (5, 0), (5, 1), (5, 2), (4, 1)]
_ROOF = [(3, 4), (4, 3), (4, 4), (4, 5), (5, 4)]


def base_images() -> BoolArray:
    """Return four base images of 6 x 6 pixels, white where true; [4, 36].

    Our own drawings after those of section 5.1, which stand in no table.
    """
    images = np.zeros((4, 6, 6), dtype=bool)
    for image, pixels in zip(images, (_PLUS, _SQUARE, _CORNER, _ROOF), strict=True):
        for place in pixels:
            image[place] = True
    return images.reshape(4, 36)


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
    """Mean F1 of the true features, each matched to its own found one or its complement.

    A feature and its complement give the same fit, so either counts. The matching is the best
    one; true features beyond the found ones count 0.
    """
    n_true, n_found = true.shape[1], found.shape[1]
    score = np.zeros((n_true, max(n_true, n_found)))
    for i in range(n_true):
        for j in range(n_found):
            score[i, j] = max(_f1(found[:, j], true[:, i]), _f1(~found[:, j], true[:, i]))
    if n_found > 12:
        raise ValueError(f"expected at most 12 found features to match, got {n_found}")
    return max(
        float(np.mean([score[i, j] for i, j in enumerate(chosen)]))
        for chosen in permutations(range(score.shape[1]), n_true)
    )


def _f1(found: BoolArray, true: BoolArray) -> float:
    both = float(np.sum(found & true))
    total = float(np.sum(found) + np.sum(true))
    return 2.0 * both / total if total else 0.0
