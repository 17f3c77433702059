"""Latent classes as the usual rival: found by the BIC, by no more than the cells that are there."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import logsumexp

from vbmodels.features.completion.classes import one_hot
from vbmodels.features.published.latent_classes import SMOOTH, _climbed, by_bic, latent_classes

LEVELS = np.array([2, 3, 2, 4, 2, 3, 2, 2])


def drawn(n, classes, seed, missing=0.0):
    rng = np.random.default_rng(seed)
    of = rng.integers(0, classes, n)
    codes = np.zeros((n, len(LEVELS)), np.int16)
    for d, r in enumerate(LEVELS.tolist()):
        chance = rng.dirichlet(np.full(r, 0.2), classes)
        codes[:, d] = [rng.choice(r, p=chance[c]) for c in of]
    codes[rng.random(codes.shape) < missing] = -1
    return codes


@pytest.mark.parametrize(("classes", "missing"), [(1, 0.0), (3, 0.0), (3, 0.2)])
def test_the_bic_finds_the_number_of_classes(classes, missing):
    found = by_bic(one_hot(drawn(600, classes, 5, missing), LEVELS), LEVELS, 0)
    assert found.number == classes


def test_every_sweep_raises_the_smoothed_likelihood_and_one_class_has_the_shares():
    x = one_hot(drawn(200, 3, 2, 0.1), LEVELS)
    r = np.random.default_rng(0).dirichlet(np.full(3, 0.3), len(x))
    values = []
    for sweeps in range(1, 15):
        _, _, (log_share, log_chance) = _climbed(x, LEVELS, r, sweeps)
        prior = SMOOTH * (log_share.sum() + log_chance.sum())
        values.append(logsumexp(log_share + x @ log_chance.T, axis=1).sum() + prior)
    assert np.all(np.diff(values) > -1e-9)
    one = latent_classes(x, LEVELS, 1, np.random.default_rng(0), 1)
    counts = x.sum(0) + SMOOTH
    first = np.cumsum(LEVELS) - LEVELS
    share = counts / np.repeat(np.add.reduceat(counts, first), LEVELS)
    assert_allclose(one.categories(x), np.tile(share, (len(x), 1)))
    free = int((LEVELS - 1).sum())
    assert_allclose(one.bic, -2.0 * (x @ np.log(share)).sum() + free * np.log(200))
