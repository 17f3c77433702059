"""One latent scale: its likelihood is the integral, its slopes are those drawn from."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import log_softmax
from scipy.stats import norm

from vbmodels.features.imputation.latent import one_hot
from vbmodels.features.rivals import latent_classes, latent_scale

LEVELS = np.array([2, 3, 4, 2, 3, 4, 2, 5])
FIRST = np.concatenate([[0], np.cumsum(LEVELS)[:-1]])
RNG = np.random.default_rng(1)
INTERCEPT, SLOPE = RNG.normal(size=(2, LEVELS.sum()))


def fitted(rows, missing=0.0):
    z = RNG.normal(size=(rows, 1))
    codes = np.stack([
        np.argmax(INTERCEPT[f : f + r] + z * SLOPE[f : f + r] + RNG.gumbel(size=(rows, r)), 1)
        for f, r in zip(FIRST, LEVELS, strict=True)
    ], 1).astype(np.int16)  # fmt: skip
    codes[RNG.random(codes.shape) < missing] = -1
    x, count = one_hot(codes, LEVELS), np.ones(rows)
    classes = latent_classes(x, LEVELS, 2, np.random.default_rng(0))
    return codes, x, latent_scale(x, LEVELS, count, classes)


def test_the_likelihood_is_the_integral_over_the_scale():
    codes, _, found = fitted(40, missing=0.2)
    columns = np.split(np.arange(LEVELS.sum()), FIRST[1:])

    def at(z, row):
        terms = [
            log_softmax(found.intercept[c] + z * found.slope[c])[x]
            for c, x in zip(columns, row, strict=True) if x >= 0
        ]  # fmt: skip
        return np.exp(sum(terms)) * norm.pdf(z)

    exact = sum(np.log(quad(at, -9, 9, args=(row,), epsabs=0, limit=200)[0]) for row in codes)
    assert_allclose(found.log_likelihood, exact, rtol=1e-5)
    free = 2 * np.sum(LEVELS - 1)
    assert_allclose(found.bic, -2 * found.log_likelihood + free * np.log(40))


def test_slopes_and_intercepts_are_found_up_to_the_direction():
    _, _, found = fitted(16_000)
    slope = SLOPE - np.repeat(SLOPE[FIRST], LEVELS)
    intercept = INTERCEPT - np.repeat(INTERCEPT[FIRST], LEVELS)
    assert_allclose(found.slope * np.sign(found.slope @ slope), slope, atol=0.4)
    assert_allclose(found.intercept, intercept, atol=0.4)
