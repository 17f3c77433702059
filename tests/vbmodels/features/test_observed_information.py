"""Intervals of what a feature does, against the curve of the posterior without the features."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from vbmodels.core import linalg
from vbmodels.features.ibp.model import best_omega, with_one
from vbmodels.features.ibp.predict import category_probabilities
from vbmodels.features.moment_kernels import packed_moments
from vbmodels.features.observed_information import (
    MOST,
    contrast_covariances,
    lost_information,
)
from vbmodels.features.table import signs_of

LEVELS = np.array([2, 3, 2, 2, 2])
PRIOR = np.array([10.0, 3.0])


def simulated(rows, seed=0):
    """One feature that a third of the rows have, and a tenth of the cells missing."""
    rng = np.random.default_rng(seed)
    truth = np.array([[-1, 1.8], [0.4, -1.5], [0.2, 1.0], [0.7, -1.6], [-0.8, 2.0], [0.3, 1.2]])
    psi = with_one((rng.random((rows, 1)) < 0.35) * 1.0) @ truth.T
    cells = [category_probabilities(psi, LEVELS, np.full(rows, d)) for d in range(len(LEVELS))]
    codes = np.stack(
        [(rng.random((rows, 1)) > np.cumsum(c, axis=1)[:, :-1]).sum(1) for c in cells], axis=1
    )
    codes = np.minimum(codes, LEVELS - 1)
    codes[rng.random(codes.shape) < 0.1] = -1
    return codes, signs_of(codes, LEVELS), truth


def split(theta):
    return theta[:-1].reshape(-1, 2), theta[-1]


def joint(theta, sign):
    """Return log p(row, z) of both z; [2, N]."""
    weights, odds = split(theta)
    return np.array(
        [
            np.where(sign != 0, log_expit(sign * (weights @ z)), 0.0).sum(1) + log_expit(own * odds)
            for z, own in ((np.array([1.0, 0.0]), -1.0), (np.array([1.0, 1.0]), 1.0))
        ]
    )


def energy(theta, sign):
    """Return minus the log posterior; the prior of the odds is one row, half with the feature."""
    weights, odds = split(theta)
    prior = 0.5 * (weights**2 / PRIOR).sum() - 0.5 * (log_expit(odds) + log_expit(-odds))
    return prior - np.logaddexp(*joint(theta, sign)).sum()


def curve(theta, sign, step=1e-3):
    """Return the second derivatives of the energy, by differences."""
    moves = step * np.eye(len(theta))
    return np.array(
        [
            [
                sum(
                    a * b * energy(theta + a * one + b * other, sign)
                    for a in (1, -1)
                    for b in (1, -1)
                )
                / (4 * step**2)
                for other in moves
            ]
            for one in moves
        ]
    )


def contrasts(theta):
    """Return p1 - p0 of every category."""
    weights, _ = split(theta)
    on, off = (
        np.concatenate(
            [
                category_probabilities((weights @ z)[None], LEVELS, np.array([d]))[0, : LEVELS[d]]
                for d in range(len(LEVELS))
            ]
        )
        for z in ((1.0, 1.0), (1.0, 0.0))
    )
    return on - off


def test_of_one_feature_the_covariance_is_that_of_the_posterior_without_it():
    codes, sign, truth = simulated(500)
    best = minimize(energy, np.append(truth.ravel(), -0.6), (sign,), tol=1e-8)
    mean, odds = split(best.x)
    nu = expit(np.diff(joint(best.x, sign), axis=0)).T
    covariance = np.broadcast_to(np.diag(PRIOR), (len(mean), 2, 2))
    for _ in range(20):
        second = linalg.pack(covariance + mean[:, :, None] * mean[:, None, :])
        omega = best_omega(nu, sign, second)
        precision = linalg.unpack(omega.T @ packed_moments(with_one(nu)))
        covariance = np.linalg.inv(precision + np.diag(1.0 / PRIOR))
    args = mean, covariance
    lost = lost_information(nu, *args, codes, LEVELS, np.arange(500), np.ones(500))
    ((narrow, whole),) = contrast_covariances(lost, *args, expit([odds]), 500.0, LEVELS)
    moves = 1e-5 * np.eye(len(best.x))
    slope = np.array([contrasts(best.x + one) - contrasts(best.x - one) for one in moves]) / 2e-5
    exact = slope.T @ np.linalg.inv(curve(best.x, sign)) @ slope
    sd, known, right = (np.sqrt(np.diagonal(one)) for one in (whole, narrow, exact))
    assert_allclose(sd, right, rtol=0.05)
    assert (known < 0.8 * right).all()


def test_where_all_rows_are_sure_only_the_curve_is_lost():
    codes, _, truth = simulated(800)
    nu = (np.arange(800) % 3 == 0)[:, None] * 1.0
    covariance = np.broadcast_to(0.01 * np.eye(2), (6, 2, 2))
    count = np.ones(800)
    lost = lost_information(nu, truth, covariance, codes, LEVELS, np.arange(800), count)
    assert not lost[:2, 2:].any()
    assert (np.diagonal(lost)[:-1] > 0.0).all()
    twice = lost_information(nu, truth, covariance, codes, LEVELS, np.arange(800), 2.0 * count)
    assert_allclose(twice, 2.0 * lost)


def test_of_too_many_weights_nothing_is_said():
    mean, nu = np.zeros((MOST, 2)), np.zeros((1, 1))
    covariance = np.zeros((MOST, 2, 2))
    levels = np.full(MOST, 2)
    codes = np.zeros((1, MOST), np.int64)
    args = codes, levels, np.arange(1), np.ones(1)
    assert lost_information(nu, mean, covariance, *args) is None
