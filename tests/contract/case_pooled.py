"""The rows of pooled VBSS, without and with a document's own intercept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import stats
from scipy.special import logsumexp, roots_jacobi

from tests.contract import calibration_keywords, ends, samplers
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.pooled import PooledGlobal, PooledLocal, PooledVBSS
from vbmodels.keywords.pooled_gibbs import pooled_gibbs
from vbmodels.keywords.simulate import simulate_pooled, split_documents, typical_coefficients
from vbmodels.testing.agreement import Agreement
from vbmodels.testing.case import (
    Case,
    Coordinates,
    Evidence,
    GlobalStep,
    LocalStep,
    MonteCarlo,
    Recovery,
    Sampler,
)
from vbmodels.testing.extremes import Extremes

RATE = 0.3
CONSTANT_SD = 2.0
TAU = 4.0
# The prior's mean of alpha_d, abar = 1 - k / (pi n), stays within these.
LOWEST, HIGHEST, STRENGTH = 0.05, 0.98, 20.0


def plain() -> PooledVBSS:
    return PooledVBSS(keyword_rate=RATE, constant_sd=CONSTANT_SD)


def with_intercepts() -> PooledVBSS:
    return replace(plain(), document_precision=TAU)


def batches(seed: int, parts: int) -> list[KeywordBatch]:
    batch, _ = simulate_pooled(
        np.random.default_rng(seed),
        48,
        coefficients=typical_coefficients(3, RATE),
        mean_words=20.0,
        n_complete=5,
    )
    return split_documents(batch, parts)


def tiny(seed: int) -> list[KeywordBatch]:
    batch, _ = simulate_pooled(
        np.random.default_rng([seed, 1]),
        3,
        coefficients=np.array([0.2, 0.8]),
        mean_words=4.0,
        mean_alpha=0.5,
        n_complete=1,
    )
    return split_documents(batch, 2)


# Coordinates.


def open_documents(local: PooledLocal) -> np.ndarray:
    return np.isfinite(local.log_c)


def local_coordinates(intercepts: bool) -> Coordinates:
    """log c, log missed of the documents that are not complete, q(z)'s coefficients, a_d."""

    def to_vector(local: PooledLocal) -> FloatArray:
        seen = open_documents(local)
        own = local.intercept if intercepts else np.zeros(0)
        return np.concatenate(
            [local.log_c[seen], np.log(local.missed[seen]), local.coefficients, own]
        )

    def from_vector(local: PooledLocal, vector: FloatArray) -> PooledLocal:
        seen = open_documents(local)
        n, p = int(seen.sum()), len(local.coefficients)
        log_c, log_missed, coefficients, own = np.split(vector, [n, 2 * n, 2 * n + p])
        log_c_all, missed = local.log_c.copy(), local.missed.copy()
        log_c_all[seen], missed[seen] = log_c, np.exp(log_missed)
        return PooledLocal(
            coefficients=coefficients,
            log_c=log_c_all,
            missed=missed,
            intercept=own if intercepts else local.intercept,
        )

    return Coordinates(to_vector=to_vector, from_vector=from_vector, step=1e-3)


# The generative model, from the module's description, with scipy.stats.


def standardised(batches: Sequence[KeywordBatch]) -> FloatArray:
    x = np.concatenate([b.x for b in batches])
    x[:, 1:] = (x[:, 1:] - x[:, 1:].mean(0)) / x[:, 1:].std(0)
    return x


def documents(batches: Sequence[KeywordBatch]) -> list[tuple[slice, bool]]:
    found, at = [], 0
    for batch in batches:
        for d in range(batch.n_documents):
            n = int(batch.sizes[d])
            found.append((slice(at, at + n), bool(batch.complete[d])))
            at += n
    return found


def labels(batches: Sequence[KeywordBatch]) -> np.ndarray:
    return np.concatenate([b.y for b in batches])


def alpha_prior(y: np.ndarray) -> tuple[float, float]:
    abar = min(max(1.0 - y.sum() / (RATE * y.size), LOWEST), HIGHEST)
    return STRENGTH * abar, STRENGTH * (1.0 - abar)


Draws = tuple[FloatArray, FloatArray, FloatArray, FloatArray]


def word_means(locals_: Sequence[PooledLocal], batches: Sequence[KeywordBatch]) -> FloatArray:
    """The means that q(z) was made with, from the local states."""
    x = standardised(batches)
    at, found = 0, []
    for local, batch in zip(locals_, batches, strict=True):
        rows = x[at : at + batch.n_words]
        found.append(rows @ local.coefficients + np.repeat(local.intercept, batch.sizes))
        at += batch.n_words
    return np.concatenate(found)


def word_weights(locals_: Sequence[PooledLocal], batches: Sequence[KeywordBatch]) -> FloatArray:
    pairs = zip(locals_, batches, strict=True)
    return np.exp(np.concatenate([np.repeat(q.log_c, b.sizes) for q, b in pairs]))


def alpha_q(
    locals_: Sequence[PooledLocal], batches: Sequence[KeywordBatch]
) -> list[tuple[float, float] | None]:
    y, found = labels(batches), []
    missed = np.concatenate([x.missed for x in locals_])
    for (rows, complete), a in zip(documents(batches), missed, strict=True):
        listed = y[rows]
        found.append(None if complete else (float(a), alpha_prior(listed)[1] + listed.sum()))
    return found


def intercept_q(
    locals_: Sequence[PooledLocal], batches: Sequence[KeywordBatch], w: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Mean [draw, D] and sd [D] of q(a_d | w): it moves against s_d'w."""
    x = standardised(batches)
    means, sds = [], []
    own = np.concatenate([q.intercept for q in locals_])
    made = np.concatenate([np.tile(q.coefficients, (len(q.missed), 1)) for q in locals_])
    for d, (rows, _) in enumerate(documents(batches)):
        weight = x[rows].shape[0] + TAU
        s = x[rows].sum(0)
        means.append(own[d] - (w - made[d]) @ s / weight)
        sds.append(weight**-0.5)
    return np.stack(means, 1), np.array(sds)


def sampler_of_q(intercepts: bool) -> Callable[..., Draws]:
    def sample(
        q: PooledGlobal,
        batches: Sequence[KeywordBatch],
        locals_: Sequence[PooledLocal],
        rng: np.random.Generator,
        size: int,
    ) -> Draws:
        w = rng.multivariate_normal(q.mean, q.cov, size)
        a = np.zeros((size, len(documents(batches))))
        if intercepts:
            mean, sd = intercept_q(locals_, batches, w)
            a = rng.normal(mean, sd)
        alpha = np.zeros_like(a)
        for d, shape in enumerate(alpha_q(locals_, batches)):
            if shape is not None:
                alpha[:, d] = rng.beta(*shape, size)
        mean, c, y = word_means(locals_, batches), word_weights(locals_, batches), labels(batches)
        above = stats.norm.sf(0, mean)
        r = np.where(y, 1.0, c * above / (1 - above + c * above))
        positive = rng.random((size, y.size)) < r
        u = rng.random((size, y.size))
        low = np.where(positive, 1 - above, 0.0)
        high = np.where(positive, 1.0, 1 - above)
        z = stats.norm.ppf(low + u * (high - low), mean)
        return w, a, alpha, z

    return sample


def joint(intercepts: bool) -> Callable[..., FloatArray]:
    def log_joint(draws: Draws, batches: Sequence[KeywordBatch]) -> FloatArray:
        w, a, alpha, z = draws
        x, y = standardised(batches), labels(batches)
        total = stats.norm.logpdf(w[:, 0], 0, CONSTANT_SD) + stats.norm.logpdf(w[:, 1:]).sum(1)
        if intercepts:
            total += stats.norm.logpdf(a, 0, TAU**-0.5).sum(1)
        for d, (rows, complete) in enumerate(documents(batches)):
            eta = w @ x[rows].T + a[:, [d]]
            total += stats.norm.logpdf(z[:, rows], eta).sum(1)
            if not complete:
                total += stats.beta.logpdf(alpha[:, d], *alpha_prior(y[rows]))
            chance = np.where(z[:, rows] > 0, 1.0 - alpha[:, [d]], 0.0)
            total += np.log(np.where(y[rows], chance, 1.0 - chance)).sum(1)
        return total

    return log_joint


def density_of_q(intercepts: bool) -> Callable[..., FloatArray]:
    def log_q(
        draws: Draws,
        q: PooledGlobal,
        batches: Sequence[KeywordBatch],
        locals_: Sequence[PooledLocal],
    ) -> FloatArray:
        w, a, alpha, z = draws
        total = stats.multivariate_normal.logpdf(w, q.mean, q.cov)
        if intercepts:
            total += stats.norm.logpdf(a, *intercept_q(locals_, batches, w)).sum(1)
        for d, shape in enumerate(alpha_q(locals_, batches)):
            if shape is not None:
                total += stats.beta.logpdf(alpha[:, d], *shape)
        mean, c, y = word_means(locals_, batches), word_weights(locals_, batches), labels(batches)
        above = stats.norm.sf(0, mean)
        norm = np.where(y, above, 1 - above + c * above)
        weight = np.where(z > 0, np.where(y, 1.0, c), np.where(y, 0.0, 1.0))
        return total + (stats.norm.logpdf(z, mean) + np.log(weight) - np.log(norm)).sum(1)

    return log_q


def evidence(intercepts: bool) -> Callable[[Sequence[KeywordBatch]], float]:
    def log_evidence(batches: Sequence[KeywordBatch]) -> float:
        """w and a_d on trapezia, alpha_d by Gauss-Jacobi, z and y* summed out by hand."""
        x, y = standardised(batches), labels(batches)
        w0, w1 = np.linspace(-12, 12, 121), np.linspace(-6, 6, 81)
        own = np.linspace(-2.5, 2.5, 41) if intercepts else np.zeros(1)
        own_weight = np.zeros(1)
        if intercepts:
            own_weight = stats.norm.logpdf(own, 0, TAU**-0.5) + np.log(own[1] - own[0])
        total = stats.norm.logpdf(w0, 0, CONSTANT_SD)[:, None] + stats.norm.logpdf(w1)
        total += np.log((w0[1] - w0[0]) * (w1[1] - w1[0]))
        w = np.stack(np.meshgrid(w0, w1, indexing="ij"), -1)
        for rows, complete in documents(batches):
            a0, b0 = alpha_prior(y[rows])
            node, weight = roots_jacobi(24, b0 - 1, a0 - 1)
            alpha, weight = (1 + node) / 2, weight / weight.sum()
            if complete:
                alpha, weight = np.zeros(1), np.ones(1)
            parts = []
            for a, log_a in zip(own, own_weight, strict=True):
                p = stats.norm.cdf(w @ x[rows].T + a)[..., None] * (1 - alpha)
                each = np.where(y[rows][:, None], p, 1 - p).prod(-2)
                with np.errstate(divide="ignore"):  # far out on the grid
                    parts.append(np.log(each @ weight) + log_a)
            total += logsumexp(parts, axis=0)
        return float(logsumexp(total))

    return log_evidence


SHOWN = 5  # documents whose alpha is compared, after the complete ones


def gibbs(intercepts: bool) -> Callable[..., FloatArray]:
    def draws(batches: Sequence[KeywordBatch], rng: np.random.Generator) -> FloatArray:
        """w, and alpha of some documents."""
        model = with_intercepts() if intercepts else plain()
        (batch,) = batches
        done = pooled_gibbs(
            model, batch, rng, chains=2, draws=1800, warmup=200, keep_documents=True
        )
        first = int(batch.complete.sum())
        return np.concatenate([done.coefficients, done.alpha[:, :, first : first + SHOWN]], -1)

    return draws


def moments(intercepts: bool) -> Callable[..., tuple[FloatArray, FloatArray]]:
    def of(q: PooledGlobal, locals_: Sequence[PooledLocal]) -> tuple[FloatArray, FloatArray]:
        (local,), batches_ = locals_, batches(0, 1)
        first = int((~open_documents(local)).sum())
        shapes = alpha_q(locals_, batches_)[first : first + SHOWN]
        alpha = [stats.beta(*shape) for shape in shapes if shape is not None]
        mean = np.concatenate([q.mean, [a.mean() for a in alpha]])
        # The sd that is published: q(w) itself has a third of it, and the sampler says so.
        cov = (with_intercepts() if intercepts else plain()).posterior_covariance(q)
        return mean, np.concatenate([np.sqrt(np.diag(cov)), [a.std() for a in alpha]])

    return of


def recovery_error(intercepts: bool) -> Callable[[int], float]:
    def error(seed: int) -> float:
        """Largest distance of a coefficient from the truth.

        The prior of alpha_d is centred at 1 - k_d / (pi n_d), so k_d is used twice and the
        slopes come out up to a tenth too small: more documents do not cure it.
        """
        w = typical_coefficients(4, RATE)
        batch, truth = simulate_pooled(
            np.random.default_rng([seed, 2]),
            500 if intercepts else 1500,
            coefficients=w,
            mean_words=30.0,
            intercept_sd=TAU**-0.5 if intercepts else 0.0,
        )
        model = with_intercepts() if intercepts else plain()
        done = fit(replace(model, keyword_rate=truth.keyword_rate), [batch])
        return float(np.abs(done.q.mean - w).max())

    return error


def case(intercepts: bool) -> Case:
    return Case(
        name="pooled_intercepts" if intercepts else "pooled",
        model=with_intercepts if intercepts else plain,
        calibration="By default documents have no intercepts of their own; the plain row answers."
        if intercepts
        else calibration_keywords.ITEMS,
        batches=batches,
        tiny=tiny,
        draws=samplers.CORPUS
        if intercepts
        else "asked of pooled_intercepts: it is the same sampler, with more to draw",
        extremes=Extremes(
            tables=lambda: ends.tables_of_documents(4),
            empty=ends.no_documents,
            plain="it has no compiled loops: NumPy is all",
            # Of documents whose keywords are all known; of features that are left out.
            infinite=frozenset({"log_c", "scale"}),
        ),
        agreement=Agreement(
            published=lambda model, q, batch, local: model.probabilities(q, batch, local),
            scored=lambda model, q, batch: model.predict(q, batch),
            largest=0.05,
            because="a score integrates the coefficients out, the fit does not, since they have "
            "the labels of its documents in them already (docs/pipelines/keywords.md)",
        ),
        global_step=GlobalStep(
            coordinates=Coordinates(to_vector=plain().to_vector, from_vector=plain().from_vector)
        ),
        local_step=LocalStep(coordinates=local_coordinates(intercepts)),
        monte_carlo=MonteCarlo(
            sample=sampler_of_q(intercepts),
            log_joint=joint(intercepts),
            log_q=density_of_q(intercepts),
            size=40_000,
        ),
        evidence=Evidence(log_evidence=evidence(intercepts), largest_gap=1.5),
        sampler=Sampler(
            draws=gibbs(intercepts),
            moments=moments(intercepts),
            # q(z) is made at the mean of w: the mode more than the mean where a_d is free.
            mean_tolerance=0.7 if intercepts else 0.4,
            sd_ratio=(0.85, 1.15),
        ),
        # At the fixed point the last digits of the bound decide which of SQUAREM's trials stand.
        partition_rtol=1e-7,
        recovery=Recovery(error=recovery_error(intercepts), tolerance=0.2 if intercepts else 0.15),
    )


CASES = [case(intercepts=False), case(intercepts=True)]
