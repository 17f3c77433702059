"""The row of the regression in the contract: simulated rows, definitions, truths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from scipy.special import expit, log_expit, logsumexp

from vbflows_logistic.model import Global, Local, LogisticRegression, Rows
from vbflows_logistic.predict import probability
from vbflows_logistic.simulate import simulate
from vbmodels.core.expfam.polya_gamma import draw_polya_gamma
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing import (
    Agreement,
    Bounds,
    Calibration,
    Case,
    Coordinates,
    Evidence,
    Extremes,
    GlobalStep,
    LocalStep,
    MonteCarlo,
    Readings,
    Recovery,
    Sampler,
    Told,
    inside,
)

PRIOR = LogisticRegression(shape=2.0, rate=1.5, intercept_variance=4.0)
TRUE = np.array([0.3, 1.0, -0.7, 0.0])


def cut(rows: Rows, parts: int) -> list[Rows]:
    """Return rows as partitions."""
    pieces = zip(np.array_split(rows.x, parts), np.array_split(rows.label, parts), strict=True)
    return [Rows(x, label) for x, label in pieces]


def batches(seed: int, parts: int) -> list[Rows]:
    rows = simulate(np.random.default_rng(seed), 80, TRUE)
    rows.label[::9] = -1
    return cut(rows, parts)


def tiny(seed: int) -> list[Rows]:
    return cut(simulate(np.random.default_rng(seed), 7, TRUE[:2]), 2)


def together(batches: Sequence[Rows]) -> Rows:
    """Return the labelled rows of all partitions."""
    x = np.concatenate([batch.x for batch in batches])
    label = np.concatenate([batch.label for batch in batches])
    return Rows(x[label >= 0], label[label >= 0])


# The definition: log p(omega) under PG(1, 0) stands in the joint and in q alike, so both leave it
# out; PG(1, c) is cosh(c / 2) exp(-c^2 omega / 2) times it.


def sample(q, batches, locals_, rng, size):
    covariance = np.linalg.inv(q.w.factor @ q.w.factor.T)
    w = rng.multivariate_normal(q.w.mean, covariance, size)
    a = rng.gamma(q.a.shape, 1.0 / q.a.rate, size)
    c = np.concatenate([local.c for local in locals_])
    return w, a, draw_polya_gamma(np.tile(c, (size, 1)), rng)


def log_joint(draws, batches):
    w, a, omega = draws
    rows = together(batches)
    psi = w @ rows.x.T
    words = (rows.label - 0.5) * psi - 0.5 * omega * psi**2 - np.log(2.0)
    total = words.sum(1) + stats.gamma.logpdf(a, PRIOR.shape, scale=1.0 / PRIOR.rate)
    total += stats.norm.logpdf(w[:, 0], 0.0, PRIOR.intercept_variance**0.5)
    return total + stats.norm.logpdf(w[:, 1:], 0.0, a[:, None] ** -0.5).sum(1)


def log_q(draws, q, batches, locals_):
    w, a, omega = draws
    c = np.concatenate([local.c for local in locals_])
    covariance = np.linalg.inv(q.w.factor @ q.w.factor.T)
    total = stats.multivariate_normal.logpdf(w, q.w.mean, covariance)
    total += stats.gamma.logpdf(a, q.a.shape, scale=1.0 / q.a.rate)
    return total + (np.log(np.cosh(0.5 * c)) - 0.5 * c**2 * omega).sum(1)


def log_evidence(batches: Sequence[Rows]) -> float:
    """The intercept and one slope on a grid; the precision summed out: Student's t."""
    rows = together(batches)
    grid = np.linspace(-25.0, 25.0, 1001)
    psi = grid[:, None, None] + grid[None, :, None] * rows.x[:, 1]
    likelihood = log_expit(np.where(rows.label == 1, psi, -psi)).sum(-1)
    first = stats.norm.logpdf(grid, 0.0, PRIOR.intercept_variance**0.5)
    slope = stats.t.logpdf(grid, 2.0 * PRIOR.shape, scale=(PRIOR.rate / PRIOR.shape) ** 0.5)
    total = likelihood + first[:, None] + slope[None, :]
    return float(logsumexp(total) + 2.0 * np.log(grid[1] - grid[0]))


def gibbs(batches: Sequence[Rows], rng: np.random.Generator) -> FloatArray:
    """Two chains of w and log a (Polson, Scott and Windle 2013, section 3.1)."""
    rows = together(batches)
    x, kappa, size = rows.x, rows.label - 0.5, rows.x.shape[1]
    chains = []
    for _ in range(2):
        w, a, kept = rng.standard_normal(size), 1.0, []
        for draw in range(1700):
            omega = draw_polya_gamma(x @ w, rng)
            prior = np.r_[1.0 / PRIOR.intercept_variance, np.full(size - 1, a)]
            covariance = np.linalg.inv((x.T * omega) @ x + np.diag(prior))
            w = rng.multivariate_normal(covariance @ (x.T @ kappa), covariance)
            rate = PRIOR.rate + 0.5 * (w[1:] ** 2).sum()
            a = rng.gamma(PRIOR.shape + 0.5 * (size - 1), 1.0 / rate)
            if draw >= 200:
                kept.append([*w, np.log(a)])
        chains.append(kept)
    return np.array(chains)


def moments(q: Global, locals_: Sequence[Local]) -> tuple[FloatArray, FloatArray]:
    a = stats.loggamma(q.a.shape, loc=-np.log(q.a.rate))
    sd = np.sqrt(np.diag(np.linalg.inv(q.w.factor @ q.w.factor.T)))
    return np.r_[q.w.mean, a.mean()], np.r_[sd, a.std()]


def recovery_error(seed: int) -> float:
    """Largest error of a weight in posterior sd, from 5000 rows."""
    q = fit(PRIOR, [simulate(np.random.default_rng(seed), 5000, TRUE)]).q
    sd = np.sqrt(np.diag(np.linalg.inv(q.w.factor @ q.w.factor.T)))
    return float(np.abs((q.w.mean - TRUE) / sd).max())


def readings(rng: np.random.Generator) -> Readings:
    """The weights behind 60 rows, and the labels of 200 more."""
    a = rng.gamma(PRIOR.shape, 1.0 / PRIOR.rate)
    w = np.r_[rng.normal(0.0, PRIOR.intercept_variance**0.5), rng.normal(0.0, a**-0.5, 3)]
    q = fit(PRIOR, [simulate(rng, 60, w)], tol=1e-6).q
    sd = np.sqrt(np.diag(np.linalg.inv(q.w.factor @ q.w.factor.T)))
    new = simulate(rng, 200, w)
    true = (rng.random(200) < expit(new.x @ w)).astype(float)
    return {
        "weight": inside(q.w.mean - 1.96 * sd, q.w.mean + 1.96 * sd, w),
        "label": Told(probability(q, new.x)[0], true),
    }


def tables() -> dict[str, list[Rows]]:
    x = np.column_stack([np.ones(6), np.arange(6) - 2.5])
    label = (np.arange(6) > 2).astype(np.int64)
    return {
        "one row alone": [Rows(x[:1], label[:1])],
        "labels far apart": [Rows(x * [1.0, 30.0], label)],
        "a column at 1e6": [Rows(x * [1.0, 1e6], label), Rows(x * [1.0, 1e6], 1 - label)],
        "constant columns": [Rows(np.ones((6, 3)), label)],
        "one label alone": [Rows(x, np.ones(6, np.int64))],
        "no label at all": [Rows(x, np.full(6, -1))],
    }


CASE = Case(
    name="logistic",
    model=lambda: PRIOR,
    batches=batches,
    tiny=tiny,
    calibration=(
        Calibration(
            form="logistic",
            run=readings,
            bounds={
                "weight": Bounds(
                    large=(-0.16, 0.0),
                    slope=None,
                    bins=None,
                    measured="600 runs: -0.128 +- 0.009, mean field is too sure of weights",
                ),
                "label": Bounds(
                    slope=(0.9, 1.1),
                    bins=0.02,
                    measured="600 runs: slope 1.017 +- 0.012; bins 0.009 off",
                ),
            },
            few=20,
        ),
    ),
    extremes=Extremes(
        tables=tables,
        empty=lambda full: Rows(full.x[:0], full.label[:0]),
        plain="it has no compiled loops: NumPy is all",
    ),
    agreement=Agreement(
        published=lambda model, q, batch, local: local.c,
        hidden=lambda batch: Rows(batch.x, np.full(len(batch.x), -1)),
    ),
    draws="its sampler is the row's own, in this file: nothing of it is published",
    global_step=GlobalStep(
        coordinates=Coordinates(to_vector=PRIOR.to_vector, from_vector=PRIOR.from_vector),
        at="fixed_point",
        tolerance=1e-5,
    ),
    local_step=LocalStep(
        coordinates=Coordinates(
            to_vector=lambda local: np.log(local.c),
            from_vector=lambda local, vector: Local(np.exp(vector)),
        )
    ),
    monte_carlo=MonteCarlo(sample=sample, log_joint=log_joint, log_q=log_q),
    evidence=Evidence(log_evidence=log_evidence, largest_gap=0.8),
    sampler=Sampler(draws=gibbs, moments=moments, mean_tolerance=0.2, sd_ratio=(0.6, 1.1)),
    recovery=Recovery(error=recovery_error, tolerance=4.0),
)
