"""Latent classes as the usual rival: found by the BIC, by no more than the cells that are there."""

import numpy as np
import pytest

from vbmodels.features.imputation.latent import one_hot
from vbmodels.features.rivals import by_bic

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
