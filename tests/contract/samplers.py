"""Short runs of every sampler on small data."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from reproduce.ibp_laplace import ChainRows, LaplaceIBP
from reproduce.vbss_bss import BSS, bss
from reproduce.vbss_gibbs import gibbs
from tests.contract import vmmic
from tests.contract.draws import CHAINS, Chains, Draws
from tests.vbmodels.bags.gp_simulate import simulate_gp
from vbmodels.bags.bags import split
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.gibbs import GibbsGP, predict_from_draws
from vbmodels.bags.vmmic.gibbs import GibbsVMMIC
from vbmodels.core.driver import Driver, Step
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.core.state import FloatArray
from vbmodels.experts.bmem.metropolis import SampledExperts, WalkPrior
from vbmodels.experts.rows import Rows
from vbmodels.experts.simulate import simulate as simulate_experts
from vbmodels.features.ibp.model import PolyaGammaIBP
from vbmodels.features.table import feature_batch, simulate_table
from vbmodels.keywords.vbss.model import VBSS
from vbmodels.variants.rvd2 import gibbs as rvd2
from vbmodels.variants.rvd2.gibbs import Sampler, sample_rates
from vbmodels.variants.rvd2.model import RVD2, Errors

MOST_STEPS = 1000


def course(model: Any, batches: Sequence[Any]) -> list[tuple[Step, list[Any]]]:
    """Return all steps of a run, with its partitions' states."""
    reduce = InProcess(model, batches)
    q = model.init(reduce.observe(), np.random.default_rng(0))
    run = Driver(loop_of(model), model, q, reduce, max_iter=MOST_STEPS)
    steps = [(step, reduce.local_states(step.iteration)) for step in run]
    if not run.converged:
        raise RuntimeError(f"the chains did not end within {MOST_STEPS} steps")
    return steps


def visits(steps: Sequence[tuple[Step, Any]], of: Callable[[Any], FloatArray]) -> FloatArray:
    """Return where chains stood, [C, steps, ...], from the parameters of every step."""
    return np.stack([of(step.q) for step, _ in steps], axis=1)


# Keywords, a document.

OBSERVED = np.array([True, False, True, False, False])
ADJACENCY = np.array(
    [[0, 2, 1, 0, 0], [2, 0, 0, 1, 0], [1, 0, 0, 1, 2], [0, 1, 1, 0, 1], [0, 0, 2, 1, 0]], float
)


def of_document(
    sample: Callable[..., Any], model: Any, names: tuple[str, ...], *sizes: int
) -> Chains:
    warmup, draws, _ = sizes
    found = sample(
        OBSERVED, ADJACENCY, model, np.random.default_rng(0), chains=CHAINS, draws=draws,
        warmup=warmup,
    )  # fmt: skip
    kept = {name: getattr(found, name) for name in names}
    return Chains(kept=kept, summaries={"probability": (found.probability, found.r.mean((0, 1)))})


DOCUMENTS = (
    Draws(
        name="gibbs",
        run=partial(of_document, gibbs, VBSS(), ("a", "b", "sigma2", "alpha", "theta", "r")),
        thins=False,
    ),
    Draws(
        name="bss",
        run=partial(of_document, bss, BSS(), ("theta", "sigma2", "alpha", "r")),
        thins=False,
    ),
)


# Rates.


def of_rates(warmup: int, draws: int, thin: int) -> Chains:
    data = Errors(np.array([[2, 3], [0, 1], [40, 55]]), np.full((3, 2), 500))
    model = RVD2()
    q = model.init(model.observe(data), np.random.default_rng(0))
    sizes = {"chains": CHAINS, "warmup": warmup, "draws": draws, "thin": thin}
    found = rvd2.gibbs(data, q, np.random.default_rng(0), log_m_sd=0.5, **sizes)
    assert found.evaluations > 2 * 2 * thin  # of two coordinates: two ends and a draw at least
    published = sample_rates(data, q, np.random.default_rng(0), Sampler(**sizes, log_m_sd=0.5))
    made = 1.0 / (1.0 + np.exp(-found.logit_mu.reshape(-1, 3)))
    return Chains(
        kept={"logit_mu": found.logit_mu, "log_m": found.log_m},
        summaries={
            "draws": (np.sort(published.draws, axis=0), np.sort(made, axis=0)),
            "mean": (published.moments[:, 0], made.mean(0)),
            "sd": (published.moments[:, 1], made.std(0, ddof=1)),
        },
    )


RATES = (Draws(name="rvd2 gibbs", run=of_rates),)


# Bags.


def of_bags(warmup: int, draws: int, thin: int) -> Chains:
    model = GibbsVMMIC(priors=vmmic.PRIORS, chains=CHAINS, warmup=warmup, draws=draws, thin=thin)
    steps = course(model, vmmic.batches(0, 2))
    q = steps[-1][0].q
    every = q.kept.reshape(-1, q.kept.shape[-1])
    mean, sd = model.posterior(q).moments()
    return Chains(
        kept={"t": q.kept},
        visited={"t": visits(steps, lambda q: q.t)},
        summaries={
            "mean": (mean, every.mean(0)),
            "sd": (sd, every.std(0)),
            "draws for prediction": (model.posterior(q).draws(len(every)), every),
        },
    )


BAGS = (Draws(name="vmmic gibbs", run=of_bags),)


def of_process(warmup: int, draws: int, thin: int) -> Chains:
    options = KernelOptions(kernel="rbf", length_scales=(1.0,), amplitudes=(1.0,), n_inducing=6)
    data, _ = simulate_gp(np.random.default_rng(0), 20, 3)
    model = GibbsGP(options, chains=CHAINS, warmup=warmup, draws=draws, thin=thin)
    steps = course(model, split(data, 2))
    q = steps[-1][0].q
    (published,) = predict_from_draws(q, data)
    rows = data.modalities[0].features
    phi = q.features.base(rows)[0][0] * q.features.weights[0]
    made = q.features.offset + phi @ q.draws[:, :, 0].mean((0, 1))
    return Chains(
        kept={"w": q.draws},
        visited={"w": visits(steps, lambda q: q.w)},
        summaries={"score": (published.score, made)},
    )


PROCESS = (Draws(name="gp gibbs", run=of_process),)


# Features.


def of_buffet(warmup: int, draws: int, thin: int) -> Chains:
    """Its draws have features of other names every time: what is published are their shares."""
    levels = np.array([2] * 6)
    codes, _, _ = simulate_table(np.random.default_rng(0), 15, levels, np.array([0.5, 0.4]))
    batch = feature_batch(codes, levels, grouped=False)
    model = LaplaceIBP(PolyaGammaIBP(3), warmup=warmup, draws=draws, held=2)
    steps = course(model, [batch])
    seen = [states[0] for _, states in steps if isinstance(states[0], ChainRows)]
    assert len(seen) == warmup + draws, f"{len(seen)} iterations"
    names = seen[-1].draw.names.tolist()
    times = np.zeros((15, len(names)))
    for local in seen[warmup:]:
        for k, name in enumerate(local.draw.names.tolist()):
            if name in names:
                times[:, names.index(name)] += local.draw.z[:, k]
    assert times.any(), "no feature: the test would prove nothing"
    return Chains(summaries={"shares": (steps[-1][1][0].nu, times / draws)})


BUFFET = (Draws(name="features laplace", run=of_buffet, thins=False),)


# Experts.


def of_experts(warmup: int, draws: int, thin: int) -> Chains:
    """One expert: then there is one order."""
    x, t, _ = simulate_experts(np.random.default_rng(0), 60, features=2, n_experts=2)
    keys = np.arange(60, dtype=np.int64)
    batches = [Rows.of(x[:30], t[:30], keys[:30]), Rows.of(x[30:], t[30:], keys[30:])]
    model = SampledExperts(
        1, WalkPrior("gaussian", tau=0.5), chains=CHAINS, warmup=warmup, draws=draws, thin=thin
    )
    steps = course(model, batches)
    q = steps[-1][0].q
    assert np.all(q.accepted[1] > 0)
    density = np.array([step.elbo for step, _ in steps])
    published = model.posterior(q).predict(batches[0]).probability
    made = np.mean(
        [1.0 / (1.0 + np.exp(-batches[0].dense @ w)) for w in q.draws[:, :, 1, 0].reshape(-1, 3)], 0
    )
    return Chains(
        kept={"vectors": q.draws},
        visited={"vectors": visits(steps, lambda q: q.vectors)},
        summaries={
            "density": (q.density.mean(0), density[warmup + thin :: thin]),
            "probability": (published, made),
        },
    )


EXPERTS = (Draws(name="experts metropolis", run=of_experts, stays=True),)


SAMPLERS = (*DOCUMENTS, *RATES, *BAGS, *PROCESS, *BUFFET, *EXPERTS)
