"""The trivial baseline as a feature: a regression of copied labels, scored out of its fold.

Each instance of bag b gets the label y_b of its bag. With x scaled as the kernel sees it, and
z = [x, 1], the regression of fold j is fitted to the bags of all other folds,

    beta_j = (sum z z' - sum_j z z' + lambda diag(1, .., 1, 0))^-1 (sum z y - sum_j z y),

least squares with a ridge: Fisher's discriminant, in closed form, for every class and fold by
one pass over the data (the logistic regression of the baseline has no such form). A bag is scored
by the regression of its own fold, which has not seen it; so the score means the same in bags
that were fitted and in new ones. Scores are brought to mean 0 and variance 1 over the bags of
the fit; both follow from the same sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.bags.gp_data import (
    FOLDS,
    Batch,
    blocks_of,
    folds_of,
    instances_of,
    labels_of,
    rows_of,
)
from vbmodels.bags.gp_features import FeatureMap
from vbmodels.core.linalg import cholesky, pack, solve, unpack
from vbmodels.core.state import FloatArray, Stats

RIDGE = 10.0
"""lambda for features of variance 1, about that of scikit-learn's logistic regression."""


@dataclass(frozen=True)
class FoldSums(Stats):
    """sum [x, 1, y] [x, 1, y]' over the instances of each fold, packed, [folds, ...].

    Bags without a label in some class are left out.
    """

    total: FloatArray


def fold_sums(features: FeatureMap, batch: Batch) -> FoldSums:
    """Sum over a partition."""
    labels, n_classes = labels_of(batch), features.baseline.shape[1]
    size = features.mean.size + 1 + n_classes
    total = np.zeros((FOLDS, size, size))
    for part in blocks_of(batch):
        rows, own = rows_of(batch, part), labels[part]
        offsets = instances_of(batch).offsets[part.start : part.stop + 1]
        folds = folds_of(rows, offsets - offsets[0])
        y = np.repeat(own, np.diff(offsets), axis=0).astype(float)
        known = (y >= 0.0).all(axis=1)
        z = np.hstack([features.scaled(rows), np.ones((len(rows), 1)), y])
        for j in range(FOLDS):
            some = z[known & (folds == j)]
            total[j] += some.T @ some
    return FoldSums(pack(total))


def regressions(features: FeatureMap, sums: FoldSums) -> FloatArray:
    """Return the regressions of all folds and classes, scores scaled, [folds, C, D + 1]."""
    each, n_classes = unpack(sums.total), features.baseline.shape[1]
    size = features.mean.size + 1
    whole = each.sum(axis=0)
    ridge = np.full(size, RIDGE / features.divisor**2)
    ridge[-1] = 1e-6
    beta = np.empty((FOLDS, n_classes, size))
    for j in range(FOLDS):
        left = whole - each[j]
        factor = cholesky(left[:size, :size] + np.diag(ridge), "the baseline's normal matrix")
        beta[j] = solve(factor, left[size:, :size])
    count = max(float(whole[size - 1, size - 1]), 1.0)
    # z z' of fold j has z in its last row, for the constant is the last feature.
    mean = np.einsum("jcd,jd->c", beta, each[:, size - 1, :size]) / count
    square = np.einsum("jcd,jde,jce->c", beta, each[:, :size, :size], beta) / count
    variance = np.maximum(square - mean**2, 0.0)
    sd = np.where(variance > 1e-12, np.sqrt(variance), 1.0)
    beta[:, :, -1] -= mean
    result: FloatArray = beta / sd[:, None]
    return result
