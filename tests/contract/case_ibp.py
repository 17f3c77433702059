"""The rows of the IBP by Polya-Gamma: plain, learned, and the search with and without filling."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import expit

from reproduce.ibp_images import matched_f1, simulate_images
from tests.contract import calibration_features, ends
from tests.contract.ibp_definition import (
    ALPHA,
    BIAS,
    LEVELS,
    WEIGHT,
    K,
    log_evidence,
    log_joint,
    log_joint_learned,
    log_q,
    sample,
    tiny,
)
from tests.contract.ibp_sampler import gibbs_draws, quantities
from tests.feature_tables import split_rows
from tests.vbmodels.features.gibbs import GibbsIBP
from vbmodels.core.draws import Schedule
from vbmodels.core.fit import InProcess, fit
from vbmodels.core.state import FloatArray
from vbmodels.features.ibp.model import FeatureGlobal, FeatureLocal, PolyaGammaIBP
from vbmodels.features.imputation.model import CompletedIBP, Members
from vbmodels.features.search.model import SearchIBP
from vbmodels.features.search.states import SearchGlobal, SearchLocal
from vbmodels.features.table import FeatureBatch, feature_batch, simulate_table
from vbmodels.testing.case import (
    EVERY,
    Agreement,
    Best,
    Case,
    Coordinates,
    Evidence,
    Extremes,
    GlobalStep,
    LocalStep,
    MonteCarlo,
    Objective,
    Recovery,
    Sampler,
)


def plain() -> PolyaGammaIBP:
    return PolyaGammaIBP(K, alpha=ALPHA, weight_variance=WEIGHT, bias_variance=BIAS, learn=False)


def learned() -> PolyaGammaIBP:
    return replace(plain(), learn=True, each=True)


def batches(seed: int, parts: int) -> list[FeatureBatch]:
    rng = np.random.default_rng(seed)
    codes, _, _ = simulate_table(rng, 60, LEVELS, np.array([0.4, 0.3]), missing=0.05)
    return split_rows(codes, LEVELS, parts)


# The sampler.


def gibbs(batches: Sequence[FeatureBatch], rng: np.random.Generator) -> FloatArray:
    sampler = GibbsIBP(
        K, alpha=ALPHA, weight_variance=WEIGHT, bias_variance=BIAS, learn=False, chains=4,
        warmup=200, draws=700,
    )  # fmt: skip
    return gibbs_draws(sampler, batches, int(rng.integers(2**31)))


def moments(q: FeatureGlobal, locals_: Sequence[FeatureLocal]) -> tuple[FloatArray, FloatArray]:
    """Mean and sd of `quantities` under q, by draws; rows of ``batches(1, 1)`` in order."""
    (batch,) = batches(1, 1)
    nu, rng = locals_[0].nu[batch.row_of], np.random.default_rng(0)
    pairs = zip(q.mean, q.covariance, strict=True)
    w = np.stack([rng.multivariate_normal(m, s, 2000) for m, s in pairs], axis=1)
    z = (rng.random((2000, *nu.shape)) < nu).astype(float)
    value = quantities(z, w, LEVELS)
    return value.mean(0), value.std(0)


# Coordinates.


def global_vector(q: FeatureGlobal) -> FloatArray:
    factor = np.linalg.cholesky(q.covariance)
    i, j = np.tril_indices(K + 1, -1)
    d = np.arange(K + 1)
    spread = [factor[:, i, j].ravel(), np.log(factor[:, d, d]).ravel()]
    return np.concatenate([q.mean.ravel(), *spread, np.log(q.tau).ravel()])


def global_from(q: FeatureGlobal, vector: FloatArray) -> FeatureGlobal:
    units = len(q.mean)
    i, j = np.tril_indices(K + 1, -1)
    d = np.arange(K + 1)
    sizes = [units * (K + 1), units * len(i), units * (K + 1)]
    mean, lower, diagonal, tau = np.split(vector, np.cumsum(sizes))
    factor = np.zeros_like(q.covariance)
    factor[:, i, j] = lower.reshape(units, -1)
    factor[:, d, d] = np.exp(diagonal.reshape(units, -1))
    return replace(
        q,
        mean=mean.reshape(units, -1),
        covariance=factor @ factor.transpose(0, 2, 1),
        tau=np.exp(tau).reshape(K, 2),
    )


def learned_vector(q: FeatureGlobal) -> FloatArray:
    return np.concatenate([[np.log(q.alpha)], np.log(q.variance), global_vector(q)])


def learned_from(q: FeatureGlobal, vector: FloatArray) -> FeatureGlobal:
    at = global_from(q, vector[K + 1 :])
    return replace(at, alpha=float(np.exp(vector[0])), variance=np.exp(vector[1 : K + 1]))


LOCAL = Coordinates(
    to_vector=lambda local: (np.log(local.nu) - np.log1p(-local.nu)).ravel(),
    from_vector=lambda local, v: FeatureLocal(expit(v).reshape(local.nu.shape)),
)


def recovery_error(seed: int) -> float:
    """1 - F1 of the text's images (section 5.1), with exactly four features or 1."""
    codes, z = simulate_images(np.random.default_rng(seed))
    batch = feature_batch(codes, np.full(36, 2))
    model = SearchIBP(PolyaGammaIBP(6, alpha=0.5))
    done = fit(model, [batch], seed=seed, tol=1e-6, max_iter=1500)
    on = model.fit.features(done.q.best.q, batch).nu[batch.row_of] > 0.5
    share = on.mean(0)
    used = (share > 0.02) & (share < 0.98)
    return 1.0 - matched_f1(on[:, used], z) if used.sum() == 4 else 1.0


def searched() -> SearchIBP:
    """The default: its chains take 100 sweeps, then come fits and moves."""
    return SearchIBP(PolyaGammaIBP(3, bias_variance=BIAS, learn=True), draws=8)


def searched_value(q: Any, batches: Sequence[FeatureBatch]) -> float:
    """Return what a search has climbed to: nothing while chains draw, then the bound proper."""
    if q.fit is None:
        return -1e6
    at, model = q.fit.q, PolyaGammaIBP(3, bias_variance=BIAS, learn=True)
    reduce = InProcess(model, batches)
    stats_ = reduce(at, number=0, warm=None)
    for i in range(30):
        stats_ = reduce(at, number=i + 1, warm=i)
    return model.elbo(at, stats_)


def best_of_search(
    model: SearchIBP, q: SearchGlobal, locals_: Sequence[SearchLocal]
) -> tuple[PolyaGammaIBP, FeatureGlobal, list[FeatureLocal]]:
    """Return the best fit of a search as the plain form's."""
    return model.fit, q.best.q, [FeatureLocal(local.fits[q.place]) for local in locals_]


def filling() -> CompletedIBP:
    """The default where cells are missing: the search, and members that learn in 13 sweeps."""
    members = Members(3, 2, BIAS, held_out=Schedule(4, 2, thin=2), whole=Schedule(1, 3))
    return CompletedIBP(searched(), members)


SAME = "The row of the plain form checks this for the same steps and the same bound."

STARTS = "The default searches with it: the row of the search checks the pipeline's own model."

POINTS = (
    "alpha and the variances are points, the modes of their logarithms: neither a bound of the "
    "evidence nor moments of the posterior; the plain form answers with them fixed"
)


def of_images(model: Callable[[], PolyaGammaIBP]) -> Agreement:
    """Check images: the small tables of the other items have no feature that stands out."""

    def batches() -> list[FeatureBatch]:
        codes, _ = simulate_images(np.random.default_rng(0), n_rows=60)
        return split_rows(codes, np.full(36, 2), 3)

    return Agreement(
        model=lambda: replace(model(), n_features=6),
        batches=batches,
        published=lambda model, q, batch, local: local.nu[batch.row_of],
        scored=lambda model, q, batch: model.features(q, batch).nu[batch.row_of],
        astray=0.05,
        because="a row may have several optima at one q: a score finds that of a cold start",
    )


AT_THE_ENDS = Extremes(
    tables=ends.tables_of_features,
    empty=ends.no_features,
    plain="it has no compiled loops: NumPy is all",
    infinite=frozenset({"value", "bounds", "yardstick"}),  # of a start that has not been scored yet
)

SEARCH = Case(
    name="ibp, search",
    calibration=calibration_features.VARIATIONAL,
    model=searched,
    batches=batches,
    tiny=tiny,
    extremes=AT_THE_ENDS,
    agreement="What is published follows from draws that q has, in a fit as in a score: "
    "tests/flows/runs/test_scores_of_the_fit.py compares the two.",
    global_step=SAME,
    local_step=SAME,
    monte_carlo=SAME,
    evidence=SAME,
    sampler=SAME,
    recovery=Recovery(error=recovery_error, tolerance=0.15, seeds=(0,)),
    objective=Objective(value=searched_value, every=170, rtol=1e-9),
    best=Best(phase=lambda q: q.phase, max_iter=600, plain=best_of_search),
    sweeps=180,
    resume_sweeps=8,
    sweeps_on_workers=110,  # the chains make 100
)

CASES = [
    Case(
        name="ibp polya-gamma",
        calibration=STARTS,
        model=plain,
        batches=batches,
        tiny=tiny,
        extremes=AT_THE_ENDS,
        agreement=of_images(plain),
        global_step=GlobalStep(
            coordinates=Coordinates(to_vector=global_vector, from_vector=global_from),
            at="fixed_point",
            max_iter=4000,
        ),
        local_step=LocalStep(coordinates=LOCAL, repeats=300),
        monte_carlo=MonteCarlo(sample=sample, log_joint=log_joint, log_q=log_q, size=40_000),
        evidence=Evidence(log_evidence=log_evidence, largest_gap=2.0),
        sampler=Sampler(
            draws=gibbs,
            moments=moments,
            mean_tolerance=0.5,
            sd_ratio=(0.5, 1.2),
            seed=1,
        ),
        recovery="The default searches with it: the row of the search checks the features.",
    ),
    Case(
        name="ibp, learned variances",
        calibration=STARTS,
        model=learned,
        batches=batches,
        tiny=tiny,
        extremes=AT_THE_ENDS,
        agreement=of_images(learned),
        global_step=GlobalStep(
            coordinates=Coordinates(to_vector=learned_vector, from_vector=learned_from),
            at="fixed_point",
            max_iter=4000,
        ),
        local_step=SAME,
        monte_carlo=MonteCarlo(
            sample=sample, log_joint=log_joint_learned, log_q=log_q, size=40_000
        ),
        evidence=POINTS,
        sampler=POINTS,
        recovery=SAME,
    ),
    SEARCH,
    replace(
        SEARCH,
        name="ibp, search with filling of cells",
        recovery="The features are those of the search: its row checks them.",
        calibration="The features are those of the search: its row checks them.",
        model=filling,
        objective=Objective(
            value=lambda q, batches: searched_value(q.search, batches), every=170, rtol=1e-9
        ),
        best=Best(
            phase=lambda q: q.search.phase,
            max_iter=600,
            plain=lambda model, q, locals_: best_of_search(
                model.search, q.search, [local.search for local in locals_]
            ),
        ),
        resume_sweeps=16,
        thorough=EVERY,
    ),
]
