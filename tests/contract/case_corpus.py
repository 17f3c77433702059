"""The rows of the corpus model: the rate given as a fact, and read off the labels."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import minimize

from tests.contract import calibration_keywords, ends
from tests.contract.words_drawn import simulate_words
from tests.vbmodels.keywords.keyword_documents import split_documents, typical_coefficients
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.corpus.states import CorpusGlobal
from vbmodels.keywords.units import KeywordBatch
from vbmodels.testing.case import (
    EVERY,
    Agreement,
    Case,
    Coordinates,
    Extremes,
    GlobalStep,
    Recovery,
    Sampler,
)

RATE, CONSTANT_SD, EXPONENT = 0.3, 2.0, 1.0


def given_rate() -> CorpusProbit:
    """The rate and kappa are facts, so that w is all there is."""
    return CorpusProbit(RATE, length_exponent=EXPONENT, constant_sd=CONSTANT_SD)


def read_off() -> CorpusProbit:
    return CorpusProbit(constant_sd=CONSTANT_SD)


def batches(seed: int, parts: int) -> list[KeywordBatch]:
    batch, _ = simulate_words(
        np.random.default_rng(seed),
        48,
        coefficients=typical_coefficients(3, RATE),
        mean_words=20.0,
        n_complete=5,
    )
    return split_documents(batch, parts)


def standardised(batches: Sequence[KeywordBatch]) -> FloatArray:
    x = np.concatenate([b.x for b in batches])
    x[:, 1:] = (x[:, 1:] - x[:, 1:].mean(0)) / x[:, 1:].std(0)
    return x


def tiny(seed: int) -> list[KeywordBatch]:
    batch, _ = simulate_words(
        np.random.default_rng([seed, 1]),
        3,
        coefficients=np.array([0.2, 0.8]),
        mean_words=4.0,
        mean_alpha=0.5,
        n_complete=1,
    )
    return split_documents(batch, 2)


def shares(parts: Sequence[KeywordBatch]) -> FloatArray:
    """delta of every word: mu_d over the expected number, from a regression by scipy."""
    n = np.concatenate([b.sizes for b in parts]).astype(float)
    k = np.concatenate([b.n_observed for b in parts]).astype(float)
    whole = np.concatenate([b.complete for b in parts])
    number = RATE * n.sum() * n**EXPONENT / np.sum(n**EXPONENT)
    log_n, counts = np.log(n[~whole]), k[~whole]
    away = log_n - log_n.mean()

    def loss(at: FloatArray) -> float:
        mu = np.exp(at[0] + at[1] * away)
        return -stats.poisson.logpmf(counts, mu).sum() + 0.5e-2 * (at[1] - 0.45) ** 2

    start = np.array([np.log(counts.mean()), 0.0])
    level, slope = minimize(loss, start, tol=1e-12).x
    mu = np.exp(level + slope * (np.log(n) - log_n.mean()))
    left = (k - mu)[~whole] ** 2
    seen = counts.sum() / (RATE * n[~whole].sum())
    expected = mu[~whole] * (1 - seen) + 0.13 * mu[~whole] ** 2
    rho = max(left.sum() - expected.sum(), 0.0) / max(left.sum(), 1e-9)
    listed = np.maximum(mu + rho * (k - mu), 0.02 * mu)
    share = listed / number
    delta = np.where(whole, 1.0, share / (1 + (share / 0.97) ** 8) ** 0.125)
    return np.repeat(delta, n.astype(int))


def log_density(w: FloatArray, parts: Sequence[KeywordBatch]) -> FloatArray:
    """log p(w, y) [...] from the module's text; w [..., P]."""
    x, y = standardised(parts), np.concatenate([b.y for b in parts])
    p = stats.norm.cdf(w @ x.T) * shares(parts)
    sd = np.append(CONSTANT_SD, np.ones(x.shape[1] - 1))
    prior = stats.norm.logpdf(w, 0, sd).sum(-1)
    with np.errstate(divide="ignore"):
        return prior + np.log(np.where(y, p, 1 - p)).sum(-1)


def walk(parts: Sequence[KeywordBatch], rng: np.random.Generator) -> FloatArray:
    """Random-walk Metropolis on w with scipy's densities: [chain, draw, P]."""
    x = standardised(parts)
    chains, draws, size = 4, 2000, x.shape[1]
    at = rng.normal(0, 0.3, (chains, size))
    value = log_density(at, parts)
    bend = np.linalg.inv(0.25 * x.T @ x * shares(parts).mean() + np.eye(size))
    factor = 2.0 / np.sqrt(size) * np.linalg.cholesky(bend)
    kept = []
    for i in range(draws + 1000):
        new = at + rng.standard_normal((chains, size)) @ factor.T
        other = log_density(new, parts)
        taken = np.log(rng.random(chains)) < other - value
        at, value = np.where(taken[:, None], new, at), np.where(taken, other, value)
        if i >= 1000:
            kept.append(at)
    return np.stack(kept, 1)


def moments(q: CorpusGlobal, locals_: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
    return q.mean, np.sqrt(np.diag(given_rate().posterior_covariance(q)))


def recovery_error(seed: int) -> float:
    """Largest distance of a coefficient from the truth, the rate and kappa not given exactly."""
    w = typical_coefficients(4, RATE)
    batch, truth = simulate_words(
        np.random.default_rng([seed, 2]), 1500, coefficients=w, mean_words=30.0
    )
    done = fit(CorpusProbit(truth.keyword_rate), [batch])
    return float(np.abs(done.q.mean - w).max())


def coordinates(model: CorpusProbit) -> Coordinates:
    def free(q: CorpusGlobal) -> FloatArray:
        return np.flatnonzero(model.prior(q)[1] > 0.0)

    def to_vector(q: CorpusGlobal) -> FloatArray:
        return q.theta[:, free(q)].ravel()

    def from_vector(q: CorpusGlobal, vector: FloatArray) -> CorpusGlobal:
        theta = q.theta.copy()
        theta[:, free(q)] = vector.reshape(len(theta), -1)
        return replace(q, theta=theta)

    return Coordinates(to_vector=to_vector, from_vector=from_vector)


def case(name: str, made: Any) -> Case:
    plain = made is given_rate
    return Case(
        name=name,
        model=made,
        calibration=calibration_keywords.ITEMS
        if not plain
        else "The row whose rate is read off the labels has the pipeline's defaults.",
        batches=batches,
        tiny=tiny,
        extremes=Extremes(
            tables=lambda: ends.tables_of_documents(4),
            empty=ends.no_documents,
            plain="it has no compiled loops: NumPy is all",
            infinite=frozenset({"scale"}),  # of features that are left out
        ),
        agreement=Agreement(
            published=lambda model, q, batch, local: model.probabilities(q, batch, local),
            scored=lambda model, q, batch: model.predict(q, batch),
            largest=0.06,
            because="a score integrates the coefficients out, the fit does not, since they have "
            "the labels of its documents in them already (docs/keywords-model.md)",
        ),
        global_step=GlobalStep(coordinates=coordinates(made()), at="fixed_point", tolerance=1e-5),
        local_step="a partition has no parameters of its own",
        monte_carlo="it is fitted to its mode, which has no expectation; the objective, its "
        "gradient and its information are compared with scipy's in tests/vbmodels/keywords",
        evidence="its objective is a density at the mode, not a bound; Laplace's evidence from it "
        "is compared with quadrature in tests/vbmodels/keywords/test_corpus.py",
        sampler=Sampler(draws=walk, moments=moments, mean_tolerance=0.3, sd_ratio=(0.8, 1.2))
        if plain
        else "the row with the rate as a fact answers: a node is nothing else",
        recovery=Recovery(error=recovery_error, tolerance=0.15)
        if plain
        else "the share of keywords it reads off the labels is checked in tests/vbmodels/keywords",
        partition_rtol=1e-8,
        thorough=EVERY if plain else frozenset(),
    )


CASES = [case("corpus", read_off), case("corpus_given_rate", given_rate)]
