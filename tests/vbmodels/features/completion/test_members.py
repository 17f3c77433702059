"""The members that fill cells, each against numbers that share no code with it."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import digamma, expit, log_expit, softmax

from vbmodels.core.optimise import CONCENTRATION
from vbmodels.features.draw_kernels import row_keys
from vbmodels.features.imputation.latent import (
    EDGES,
    FEW,
    LANES,
    SMOOTH,
    Classes,
    class_counts,
    draw_rows,
    moved_classes,
)
from vbmodels.features.imputation.model import _score_members, _weighed
from vbmodels.features.imputation.states import Completion

LEVELS = np.array([2, 3, 4])


def table(n=60, seed=0, missing=0.1):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    codes = np.column_stack([(kind + (rng.random(n) < 0.2)) % r for r in LEVELS])
    return np.where(rng.random(codes.shape) < missing, -1, codes)


def test_a_trait_has_the_posterior_that_its_row_says():
    """One trait, three answers and one without an answer: the reference is a sum over a grid."""
    loadings = np.array([[0.5, 1.5], [-1.0, 2.0], [0.3, -1.0], [0.0, 3.0]])
    row = np.array([1, -1, 1, 0], np.int8)
    grid = np.linspace(-8, 8, 4001)
    psi = loadings[:, :1] + loadings[:, 1:] * grid
    log_p = -0.5 * grid**2 + (np.abs(row)[:, None] * log_expit(row[:, None] * psi)).sum(0)
    weight = softmax(log_p)
    mean = weight @ grid
    sd = np.sqrt(weight @ (grid - mean) ** 2)
    n = 20_000
    sign, u, ids = np.tile(row, (n, 1)), np.zeros((n, 1)), np.arange(n)
    for i in range(15):
        u, _ = draw_rows(loadings, sign, u, row_keys(ids, 3, i, 1), row_keys(ids, 3, i, 2))
    assert_allclose(u.mean(), mean, atol=4 * sd / np.sqrt(n))
    assert_allclose(u.std(), sd, rtol=0.03)


@pytest.mark.parametrize("lane", range(len(LANES)))
def test_a_lane_moves_as_its_equations_say(lane):
    codes = table()
    keys = row_keys(np.arange(len(codes)), 1)
    none = Classes(np.zeros(0), np.zeros((0, 0)))
    first = moved_classes(class_counts(none, codes, np.ones(len(codes)), LEVELS, keys), LEVELS)
    found = class_counts(first, codes, np.ones(len(codes)), LEVELS, keys)
    i, j = EDGES[lane], EDGES[lane + 1]
    edges, k = np.concatenate([[0], np.cumsum(LEVELS)]), LANES[lane]
    rows, cells = np.zeros(k), np.zeros((k, LEVELS.sum()))
    for row in codes:
        log_r = np.empty(k)
        for c in range(k):
            pi, own = first.rows[i:j], first.cells[i + c]
            of = (lambda a, s: digamma(a) - digamma(s)) if k == FEW else (
                lambda a, s: np.log(a / s)
            )  # fmt: skip
            log_r[c] = of(pi[c], pi.sum())
            for d, (a, b) in enumerate(pairwise(edges)):
                if row[d] >= 0:
                    log_r[c] += of(own[a + row[d]], own[a:b].sum())
        r = softmax(log_r)
        rows += r
        for d, a in enumerate(edges[:-1]):
            if row[d] >= 0:
                cells[:, a + row[d]] += r
    assert_allclose(found.rows[i:j], rows)
    assert_allclose(found.cells[i:j], cells, atol=1e-12)
    prior = 1.0 / k if k == FEW else SMOOTH
    assert_allclose(moved_classes(found, LEVELS).rows[i:j], rows + prior)
    of_cells = np.repeat(1.0 / LEVELS, LEVELS) if k == FEW else SMOOTH
    assert_allclose(moved_classes(found, LEVELS).cells[i:j], cells + of_cells, atol=1e-12)


def test_the_weights_climb_to_their_optimum():
    """The reference is a general optimiser on the logarithms of the weights."""
    rng = np.random.default_rng(2)
    density = expit(rng.normal(size=(300, 5)) + np.array([1.0, 0.5, 0.0, -1.0, -3.0]))

    def loss(v):
        w = softmax(v)
        return -np.log(density @ w).sum() - (CONCENTRATION - 1.0) * np.log(w).sum()

    best = softmax(minimize(loss, np.zeros(5), method="BFGS", options={"gtol": 1e-9}).x)
    q = Completion(
        0, 0, 1.0, LEVELS, None, None, None, None, np.full(5, 0.2), 0.0, np.zeros(5), 0.0
    )
    values = []
    for _ in range(2000):
        hidden = _score_members(q.weights, density, np.ones(len(density)))
        values.append(-loss(np.log(q.weights)))
        q = _weighed(q, hidden)
    assert_allclose(q.weights, best, atol=1e-4)
    assert np.diff(values).min() > -1e-9
    assert_allclose(q.mixture, np.log(density @ q.weights).mean(), atol=1e-6)
    assert_allclose(q.log_p, np.log(density).mean(0))
