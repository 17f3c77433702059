"""The row of the embedding of a number."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import multivariate_t
from scipy.stats import t as student

from tests.contract import ends
from tests.contract.case_embedding import kernel
from tests.vbmodels.bags.joined import concatenate
from vbmodels.bags.bags import Bags, Instances, bags, split, with_targets
from vbmodels.bags.embedding.block_variances import log_prior
from vbmodels.bags.embedding.number import NumberModel, predict_numbers
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.testing.case import (
    Agreement,
    Best,
    Bounds,
    Calibration,
    Case,
    Evidence,
    Extremes,
    Forecast,
    Readings,
    Recovery,
)

HELD = 60


def drawn(rng: np.random.Generator, n: int, noise: float) -> tuple[Bags, FloatArray]:
    """Bags whose number rises with the mean of a feature and the max of another."""
    bag = np.repeat(np.arange(n), rng.integers(1, 7, n))
    rows = rng.standard_normal((bag.size, 3))
    starts = np.searchsorted(bag, np.arange(n))
    f = 1.5 * np.bincount(bag, rows[:, 0]) / np.bincount(bag)
    f = f + np.maximum.reduceat(rows[:, 1], starts)
    data = bags([Instances.from_rows(bag, rows, n)], np.zeros(n))
    return with_targets(data, 3.0 + f + noise * rng.standard_normal(n)), 3.0 + f


def batches(seed: int, parts: int) -> list[Bags]:
    return split(drawn(np.random.default_rng([seed, 23]), 60, 0.5)[0], parts)


def tiny(seed: int) -> list[Bags]:
    return split(drawn(np.random.default_rng([seed, 24]), 6, 0.5)[0], 2)


def log_evidence(data: Sequence[Bags]) -> float:
    """Scaled numbers are a Student t with one degree of freedom and the variance's middle 1/2."""
    q = fit(MODEL, data, max_iter=100).q
    whole = concatenate(data)
    y = (whole.target - whole.target.mean()) / whole.target.std()
    shape = 0.5 * (kernel(q, whole) + np.eye(whole.n_bags))
    return float(multivariate_t(np.zeros(y.size), shape, df=1).logpdf(y) + log_prior(q.at))


def published(model: Any, q: Any, batch: Bags, *_: Any) -> FloatArray:
    found = predict_numbers(q, batch)
    return np.stack([found.mean, found.sd, found.low, found.high], axis=1)


def hidden(batch: Bags) -> Bags:
    return with_targets(batch, np.full(batch.n_bags, np.nan))


def tables() -> dict[str, list[Bags]]:
    """The tables of bags, whose labels are numbers here."""
    found = {}
    for name, parts in ends.tables_of_bags().items():
        numbers = [np.where(b.label < 0, np.nan, 1e3 + b.label) for b in parts]
        found[name] = [replace(b, target=y) for b, y in zip(parts, numbers, strict=True)]
    return found


def error(seed: int) -> float:
    """Root mean square error against the truth of 300 other bags, in sds of the truth."""
    rng = np.random.default_rng([seed, 29])
    data, _ = drawn(rng, 300, 0.5)
    new, truth = drawn(rng, 300, 0.5)
    q = fit(NumberModel(), split(data, 2), max_iter=100).q
    return float(np.sqrt(np.mean((predict_numbers(q, new).mean - truth) ** 2)) / truth.std())


def held_out(rng: np.random.Generator) -> Readings:
    """Chances that a new number is above the middle, and that it is within its 95 % interval."""
    data, _ = drawn(rng, 60 + HELD, rng.choice([0.3, 1.0]))
    q = fit(NumberModel(), [data.take(np.arange(60))], max_iter=100).q
    found = predict_numbers(q, data.take(np.arange(60, 60 + HELD)))
    y, freedom = data.target[60:], 2.0 * q.noise.shape
    width = found.sd * np.sqrt((freedom - 2.0) / freedom)
    return {
        "above the middle": Forecast(student.sf(4.0, freedom, found.mean, width), y > 4.0),
        "in the interval": Forecast(np.full(HELD, 0.95), (y > found.low) & (y < found.high)),
    }


MODEL = NumberModel(gathered=8)

CASE = Case(
    name="bag_number",
    model=lambda: MODEL,
    calibration=(
        Calibration(
            form="bags, a number",
            run=held_out,
            bounds={
                "above the middle": Bounds(
                    slope=(0.9, 1.1), bins=0.04, measured="150 runs: -.002, bins to .03"
                ),
                "in the interval": Bounds(
                    large=(-0.03, 0.01),
                    slope=None,
                    bins=None,
                    measured="150 runs: -.019 +- .004: the variances are point estimates",
                ),
            },
        ),
    ),
    batches=batches,
    tiny=tiny,
    extremes=Extremes(
        tables=tables, empty=ends.no_bags, plain="it has no compiled loops: NumPy is all"
    ),
    agreement=Agreement(published=published, scored=published, hidden=hidden, tol=1e-8, atol=1e-8),
    global_step="weights and noise are solved for: test_number.py checks the variances' slope",
    local_step="a bag is left out in closed form: test_number.py checks it by two evidences",
    monte_carlo="the evidence given the variances is exact: item 6 compares it",
    evidence=Evidence(log_evidence=log_evidence, largest_gap=1e-6, strict=False),
    sampler="the posterior given the variances is exact: nothing is approximated",
    recovery=Recovery(error=error, tolerance=0.3, seeds=(0, 1, 2)),
    best=Best(phase=lambda q: "sweeps", max_iter=200),
    seeds=(0,),
    partition_rtol=1e-6,
)
