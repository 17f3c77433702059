"""The rows of MIL-GP: the probit's direct fit and its coordinate ascents, the logistic rival."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from reproduce.milgp_logistic import LogisticGP, LogisticPosterior, predict_logistic
from tests.contract import calibration_bags, ends
from tests.vbmodels.bags.gp_simulate import simulate_gp
from vbmodels.bags.bags import Bags, split
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.gibbs import GibbsGP
from vbmodels.bags.mil_gp.model import DirectGP, Search
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.bags.multilabel import MultiLabelBags
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing.case import (
    EVERY,
    Agreement,
    Case,
    Coordinates,
    Evidence,
    Extremes,
    GlobalStep,
    Recovery,
    Sampler,
)

OPTIONS = KernelOptions(
    kernel="linear+rbf",
    length_scales=(1.0,),
    amplitudes=(3.0,),
    linear_variance=2.0,
    n_inducing=12,
)
PRINTED = replace(
    OPTIONS, kernel="rbf", amplitudes=(1.0,), constant_variance=0.0, offset=0.0, leak=False
)


def batches(seed: int, parts: int) -> list[Bags]:
    data, _ = simulate_gp(np.random.default_rng(seed), 60, 6)
    return split(data, parts)


def tiny(seed: int) -> list[Bags]:
    data, _ = simulate_gp(np.random.default_rng([seed, 7]), 5, 2, n_features=2, offset=-0.5)
    return split(data, 2)


# The generative model, by its description, with scipy.


@dataclass(frozen=True)
class Plain:
    """The instances of all partitions with phi and r, made without the model's code.

    Leaks stand behind the instances; ``offset`` is of each row.
    """

    phi: FloatArray
    r: FloatArray
    offset: FloatArray
    bag: np.ndarray
    label: np.ndarray


def plain(q: Any, data: Sequence[Bags], options: KernelOptions) -> Plain:
    rows = np.concatenate([b.modalities[0].features for b in data])
    z = np.clip((rows - rows.mean(0)) / rows.std(0), -3, 3) / np.sqrt(rows.shape[1])
    points, v = q.features.points, options.amplitudes[0]
    kzz = v * (np.exp(-(cdist(points, points) ** 2) / 2) + 1e-6 * np.eye(len(points)))
    kxz = v * np.exp(-(cdist(z, points) ** 2) / 2)
    half = np.linalg.solve(np.linalg.cholesky(kzz), kxz.T).T
    constant = np.full((len(z), 1), np.sqrt(options.constant_variance))
    parts = [half, np.zeros((len(z), 1)), constant] if options.leak else [half, constant]
    if "linear" in options.names:
        parts.insert(0, np.sqrt(options.linear_variance) * z)
    sizes = np.concatenate([b.modalities[0].sizes for b in data])
    phi = np.hstack(parts)
    n_leaks = sizes.size if options.leak else 0
    leak = np.zeros((n_leaks, phi.shape[1]))
    leak[:, -2] = 0.5
    return Plain(
        phi=np.vstack([phi, leak]),
        r=np.append(v - np.einsum("np,np->n", half, half), np.zeros(n_leaks)),
        offset=np.append(np.full(len(z), options.offset), np.full(n_leaks, -3.5)),
        bag=np.append(np.repeat(np.arange(sizes.size), sizes), np.arange(n_leaks)),
        label=np.concatenate([b.label for b in data]),
    )


# The probit.


def log_evidence_of(
    model: Any, options: KernelOptions, chance: Callable[[Plain, FloatArray], FloatArray]
) -> Callable[[Sequence[Bags]], float]:
    """Return log p(Y): E over the prior of w by 2^16 Sobol points; the bags are few and small."""

    def log_evidence(data: Sequence[Bags]) -> float:
        found = fit(model, data, max_iter=2000, tol=1e-6).q
        p = plain(found, data, options)
        u = stats.qmc.Sobol(p.phi.shape[1], rng=np.random.default_rng(0)).random(2**16)
        w = stats.norm.ppf(np.clip(u, 1e-12, 1 - 1e-12))
        positive = chance(p, p.offset + w @ p.phi.T)
        total = np.zeros(len(w))
        for b, label in enumerate(p.label):
            none = (1 - positive[:, p.bag == b]).prod(1)
            with np.errstate(divide="ignore"):  # far out a label can be impossible
                total += np.log(1 - none if label else none)
        return float(logsumexp(total) - np.log(len(w)))

    return log_evidence


def probit_chance(p: Plain, mean: FloatArray) -> FloatArray:
    return stats.norm.cdf(mean / np.sqrt(1 + p.r))


GRID = np.random.default_rng(5).standard_normal((8, 3))


def grid(features: Any) -> tuple[FloatArray, FloatArray]:
    """Return the mean of f and phi of a few inputs, and of the leak where there is one."""
    phi = features.base(GRID)[0][0] * features.weights[0]
    mean = np.full(len(phi), features.offset)
    if not features.leak:
        return mean, phi
    leak = np.zeros((1, phi.shape[1]))
    leak[0, -2] = 0.5
    return np.append(mean, -3.5), np.vstack([phi, leak])


def at_grid(features: Any, w: FloatArray) -> FloatArray:
    """Return f without r on a few inputs; w is [..., P]."""
    mean, phi = grid(features)
    return mean + w @ phi.T


def chains(options: KernelOptions) -> Callable[..., FloatArray]:
    def draws(data: Sequence[Bags], _: np.random.Generator) -> FloatArray:
        found = fit(GibbsGP(options, warmup=1000, draws=1500, thin=8), data, max_iter=20_000).q
        return at_grid(found.features, found.draws[:, :, 0])

    return draws


def gaussian_moments(model: Any) -> Callable[..., tuple[FloatArray, FloatArray]]:
    def moments(q: Search, _: Any) -> tuple[FloatArray, FloatArray]:
        post = model.posterior(q)
        half = np.linalg.solve(post.factor[0], grid(q.features)[1].T)
        return at_grid(q.features, post.mean[0]), np.sqrt((half**2).sum(0))

    return moments


def recovery(model: Any, score: Callable[[Any, Bags], FloatArray]) -> Callable[[int], float]:
    def error(seed: int) -> float:
        """Root mean square error of the instances' probabilities."""
        data, truth = simulate_gp(np.random.default_rng([seed, 3]), 500, 5, n_features=2)
        done = fit(model, split(data, 2), max_iter=3000, tol=1e-7)
        return float(np.sqrt(np.mean((score(done.q, data) - truth.probability) ** 2)))

    return error


MU = Coordinates(
    to_vector=lambda q: q.points.ravel(),
    from_vector=lambda q, v: replace(q, points=v.reshape(q.points.shape)),
)
STATELESS = "a partition keeps no parameters: q(m) follows from q(w) in closed form"


AT_THE_ENDS = Extremes(
    tables=ends.tables_of_bags,
    empty=ends.no_bags,
    plain="compiled are log Phi and its slope alone: a test has them against sixty digits",
    infinite=frozenset({"clip"}),  # of features that are not clipped
)
OF_TWO_CLASSES = replace(
    AT_THE_ENDS,
    tables=lambda: {name: ends.classes(at) for name, at in ends.tables_of_bags().items()},
    empty=ends.no_labelled_bags,
)


def unlabelled(batch: Bags | MultiLabelBags) -> Any:
    """Return the bags as a score sees them: without labels."""
    if isinstance(batch, MultiLabelBags):
        return MultiLabelBags(unlabelled(batch.bags), np.full_like(batch.labels, -1))
    return replace(batch, label=np.full_like(batch.label, -1))


def predicted(score: Callable[[Any, Any, Any], FloatArray]) -> Agreement:
    return Agreement(
        published=lambda model, q, batch, local: score(model, q, batch),
        scored=score,
        hidden=unlabelled,
        tol=1e-8,
        atol=1e-10,
    )


PREDICTED = predicted(
    lambda model, q, batch: np.concatenate(
        [one.probability for one in predict(model.posterior(q), batch)]
    )
)
PREDICTED_BY_LOGISTIC = predicted(lambda model, q, batch: predict_logistic(q, batch)[0][1])


def probit_case(
    name: str,
    model: Any,
    options: KernelOptions,
    *,
    largest_gap: float,
    mean_tolerance: float,
    sd_ratio: tuple[float, float],
    rms: float,
    sweeps: int = 30,
) -> Case:
    return Case(
        name=name,
        model=lambda: model,
        calibration=calibration_bags.GP
        if name == "milgp_direct"
        else "Not a default: it counts each instance as observed and is too sure of itself.",
        batches=batches,
        tiny=tiny,
        extremes=AT_THE_ENDS,
        agreement=PREDICTED,
        global_step=GlobalStep(coordinates=MU, at="fixed_point", max_iter=20_000),
        local_step=STATELESS,
        monte_carlo="its bound is log p(Y | w) at the mean and two terms in closed form: "
        "tests/vbmodels/bags/test_milgp_recipe.py has that likelihood by its definition",
        evidence=Evidence(
            log_evidence=log_evidence_of(model, options, probit_chance), largest_gap=largest_gap
        ),
        sampler=Sampler(
            draws=chains(options),
            moments=gaussian_moments(model),
            mean_tolerance=mean_tolerance,
            sd_ratio=sd_ratio,
            largest_r_hat=1.05,
        ),
        recovery=Recovery(
            error=recovery(model, lambda q, data: predict(model.posterior(q), data)[0].probability),
            tolerance=rms,
            seeds=(0, 1, 2),
        ),
        sweeps=sweeps,
        slow=frozenset({"truth", "recovery"}),
        thorough=frozenset() if name == "milgp_direct" else EVERY,
    )


# Several classes and kernel values at once.


def two_classes(seed: int, parts: int) -> list[MultiLabelBags]:
    data, _ = simulate_gp(np.random.default_rng(seed), 60, 6)
    other = (np.arange(60) % 3 == 0).astype(np.int8)
    other[:5] = -1
    labels, at, out = np.stack([data.label, other], 1), 0, []
    for part in split(data, parts):
        out.append(MultiLabelBags(part, labels[at : at + part.n_bags]))
        at += part.n_bags
    return out


SEE_GAUSSIAN = (
    "the nearest Gaussian is no bound's fixed point: "
    "tests/vbmodels/bags/test_milgp_recipe.py checks it on its objective, by fresh draws, and of "
    "long chains"
)
SEE = "checked on milgp_direct, which is the same code with one class and one kernel value"


# The logistic rival.


@lru_cache(maxsize=1)
def nodes() -> tuple[FloatArray, FloatArray]:
    at, weight = np.polynomial.hermite_e.hermegauss(60)
    return at, weight / weight.sum()


def logistic_chance(p: Plain, mean: FloatArray) -> FloatArray:
    return sum(w / (1 + np.exp(-(mean + a * np.sqrt(p.r)))) for a, w in zip(*nodes(), strict=True))


LOWER = np.tril_indices


def logistic_to_vector(q: LogisticPosterior) -> FloatArray:
    factor = q.factor[0].copy()
    factor[np.diag_indices(len(factor))] = np.log(np.diag(factor))
    return np.concatenate([q.mean[0], factor[LOWER(len(factor))]])


def logistic_from_vector(q: LogisticPosterior, v: FloatArray) -> LogisticPosterior:
    size = q.mean.shape[1]
    factor = np.zeros((size, size))
    factor[LOWER(size)] = v[size:]
    factor[np.diag_indices(size)] = np.exp(np.diag(factor))
    return replace(q, mean=v[None, :size], factor=factor[None])


LOGISTIC = LogisticGP(PRINTED, sweeps=None)

CASES = [
    probit_case(
        "milgp_direct",
        DirectGP(OPTIONS, tolerance=1e-13, posterior_form="laplace"),
        OPTIONS,
        largest_gap=6.0,
        # The mode of a skew posterior of 60 bags: its mean is off by up to .58 sd, its sd as little
        # as .39 of the sampler's (with the kernel rbf, 27 November 2026).
        mean_tolerance=0.6,
        sd_ratio=(0.38, 1.4),
        rms=0.15,
        sweeps=80,
    ),
    replace(
        probit_case(
            "milgp_gaussian",
            DirectGP(OPTIONS),
            OPTIONS,
            largest_gap=2.0,
            mean_tolerance=0.4,
            sd_ratio=(0.58, 1.1),  # the posterior is skew, and the nearest Gaussian narrower: .59
            rms=0.15,
            sweeps=60,
        ),
        global_step=SEE_GAUSSIAN,
        monte_carlo=SEE_GAUSSIAN,
        resume_sweeps=32,
        partition_rtol=1e-6,
    ),
    Case(
        name="milgp_two_classes",
        calibration=SEE,
        model=lambda: DirectGP(
            replace(OPTIONS, kernel="rbf", length_scales=(0.7, 1.4), amplitudes=(1.0, 3.0)),
        ),
        batches=two_classes,
        tiny=lambda seed: two_classes(seed, 2),
        extremes=OF_TWO_CLASSES,
        agreement=PREDICTED,
        global_step=SEE,
        local_step=STATELESS,
        monte_carlo=SEE,
        evidence=SEE,
        sampler=SEE,
        recovery=SEE,
        # The last step turns from the kernel values of the highest bound to those of the highest
        # evidence: rise is checked in the steps before.
        sweeps=12,
        partition_rtol=1e-7,
        thorough=EVERY,
    ),
    Case(
        name="milgp_logistic",
        calibration="A rival that the probit is compared with, and not a default.",
        model=lambda: LOGISTIC,
        batches=batches,
        tiny=tiny,
        extremes=AT_THE_ENDS,
        agreement=PREDICTED_BY_LOGISTIC,
        global_step=GlobalStep(
            coordinates=Coordinates(to_vector=logistic_to_vector, from_vector=logistic_from_vector),
            at="fixed_point",
            max_iter=20_000,
        ),
        local_step="a partition keeps no parameters: q(h) and xi follow from q(w) in closed form",
        monte_carlo="a bound on a bound: item 6 holds it below the exact evidence",
        evidence=Evidence(
            log_evidence=log_evidence_of(LOGISTIC, PRINTED, logistic_chance), largest_gap=3.0
        ),
        sampler="the logistic link has no exact sampler here: that is the point of the probit",
        recovery=Recovery(
            error=recovery(LOGISTIC, lambda q, data: predict_logistic(q, data)[0][1]),
            tolerance=0.25,
            seeds=(0, 1, 2),
        ),
        slow=frozenset({"truth", "recovery"}),
        thorough=EVERY,
    ),
]
