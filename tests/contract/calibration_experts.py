"""Calibration of experts: the probability of held-out labels, and the sampler's ranks."""

from typing import Any

import numpy as np
from scipy.special import expit, softmax

from flows.experts.settings import ExpertSettings
from tests.contract.bmem import PLACES, chances
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.estimators import MixtureOfExperts
from vbmodels.experts.bmem.metropolis import SampledExperts, WalkPrior
from vbmodels.experts.forms import make
from vbmodels.experts.options import ExpertTuning, experts_of
from vbmodels.experts.rows import Rows
from vbmodels.testing.calibration import ranked
from vbmodels.testing.case import Bounds, Calibration, Forecast, Readings

FITTED, HELD, COLUMNS = 60, 60, 2
TAUS = (0.1, 1.0, 3.0, 10.0)


def weights(
    rng: np.random.Generator, k: int, tau: float, shared: bool = False
) -> tuple[FloatArray, FloatArray]:
    """Draw gates and experts [K, p] from the Gaussian prior; intercepts are N(0, 10)."""
    drawn = rng.standard_normal((2, k, COLUMNS + 1))
    drawn[..., :-1] /= np.sqrt(tau)
    drawn[..., -1] *= np.sqrt(10.0)
    if shared:
        drawn[1, :, :-1] += rng.standard_normal(COLUMNS)
    return drawn[0], drawn[1]


def labels(
    rng: np.random.Generator, x: FloatArray, gates: FloatArray, experts: FloatArray
) -> FloatArray:
    full = np.column_stack([x, np.ones(len(x))])
    p = (softmax(full @ gates.T, axis=1) * expit(full @ experts.T)).sum(1)
    return np.where(rng.random(len(x)) < p, 1.0, -1.0)


def drawn(
    rng: np.random.Generator, k: int, tau: float, shared: bool
) -> tuple[FloatArray, FloatArray]:
    """Draw rows to fit and rows to hold out, with both labels among the first."""
    while True:
        x = rng.standard_normal((FITTED + HELD, COLUMNS))
        t = labels(rng, x, *weights(rng, k, tau, shared))
        if abs(t[:FITTED].sum()) < FITTED:
            return x, t


def held_out(
    rng: np.random.Generator, settings: ExpertSettings, k: int, tau: float, shared: bool
) -> Any:
    x, t = drawn(rng, k, tau, shared)
    keys = np.arange(len(t))
    seen, new = slice(FITTED), slice(FITTED, None)
    model = make(ExpertTuning.of(settings))
    done = fit(
        model, [Rows.of(x[seen], t[seen], keys[seen])], seed=int(rng.integers(2**31)),
        tol=settings.tol, max_iter=settings.max_iter,
    )  # fmt: skip
    rows = Rows.of(x[new], np.zeros(HELD), keys[new])
    p = model.posterior(done.q).predict(rows).probability
    return {"held-out labels": Forecast(p, t[new] > 0)}


def additive(rng: np.random.Generator) -> Readings:
    """The form chooses by held-out rows; the truth is a mixture of five experts.

    The estimator makes lines and steps as the pipeline does, and has its defaults.
    """
    tau = float(rng.choice(TAUS))
    x, t = drawn(rng, 5, tau, bool(rng.integers(2)))
    found = MixtureOfExperts(random_state=int(rng.integers(2**31))).fit(x[:FITTED], t[:FITTED])
    return {"held-out labels": Forecast(found.predict_proba(x[FITTED:])[:, 1], t[FITTED:] > 0)}


def gaps(rng: np.random.Generator) -> Readings:
    """Labels by two of three columns; of the stronger one a tenth is missing, later a third."""
    x = rng.standard_normal((300 + 4 * HELD, 3))
    t = rng.random(len(x)) < expit(2.0 * x[:, 0] + x[:, 1])
    gone = rng.random(len(x)) < np.where(np.arange(len(x)) < 300, 0.1, 0.3)
    x[gone, 0] = np.nan
    found = MixtureOfExperts(random_state=int(rng.integers(2**31))).fit(x[:300], t[:300])
    p, held, gap = found.predict_proba(x[300:])[:, 1], t[300:], gone[300:]
    return {
        "labels, a cell missing": Forecast(p[gap], held[gap]),
        "labels, none missing": Forecast(p[~gap], held[~gap]),
    }


def cavi(rng: np.random.Generator) -> Readings:
    """The prior is the form's own, with the default tau."""
    settings = ExpertSettings(inference="cavi")
    return held_out(rng, settings, experts_of(settings), 1.0, False)


def metropolis_ranks(rng: np.random.Generator) -> Readings:
    """Ranks of the chance of the label 1 at three places, which no order of experts touches."""
    while True:
        x = rng.standard_normal((20, COLUMNS))
        gates, experts = weights(rng, 2, 1.0)
        t = labels(rng, x, gates, experts)
        if abs(t.sum()) < 20:
            break
    sampler = SampledExperts(2, WalkPrior("gaussian", 1.0), chains=2, warmup=200, draws=10, thin=30)
    batch = Rows.of(x, t, np.arange(20))
    q = fit(sampler, [batch], seed=int(rng.integers(2**31)), max_iter=sampler.evaluations).q
    draws = q.draws.reshape(-1, *q.draws.shape[2:])[1:]
    found = chances(draws[:, 0], draws[:, 1], PLACES[:3])
    return {"chance at a place": ranked(chances(gates, experts, PLACES[:3]), found, rng)}


ADDITIVE = (
    Calibration(
        form="experts, additive",
        run=additive,
        bounds={
            "held-out labels": Bounds(
                large=(-0.02, 0.02),
                slope=(0.75, 1.0),
                bins=0.08,
                measured="60 runs only: -.010 +- .010, slope .88 +- .05",
            )
        },
        few=4,
    ),
    Calibration(
        form="experts, additive, with gaps",
        run=gaps,
        bounds={
            "labels, a cell missing": Bounds(
                large=(-0.03, 0.03),
                slope=(0.55, 0.85),
                bins=0.09,
                measured="229 runs: -.001 +- .003, slope .65 +- .03, bins to .032",
            ),
            "labels, none missing": Bounds(
                large=(-0.03, 0.03),
                slope=(0.9, 1.1),
                bins=0.05,
                measured="229 runs: -.007 +- .002, slope 1.00 +- .01, bins to .007",
            ),
        },
        few=2,
    ),
)
CAVI = (
    Calibration(
        form="experts, cavi",
        run=cavi,
        bounds={
            "held-out labels": Bounds(
                large=(-0.01, 0.01),
                slope=(0.78, 0.92),
                bins=0.05,
                largest_se=0.01,
                measured="200 runs: .002 +- .006, slope .85 +- .02, bins to .036",
            )
        },
        few=12,
    ),
)
METROPOLIS = (Calibration(form="experts, mh", run=metropolis_ranks, few=4),)
