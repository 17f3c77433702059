"""Rows of the additive form of a count."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.contract import case_additive_number as number
from tests.contract import ends
from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.experts.additive.counts import CountAdditive
from vbmodels.experts.additive.held_out import FormState
from vbmodels.experts.terms.step_rows import CountRows
from vbmodels.testing.case import (
    Agreement,
    Bounds,
    Calibration,
    Forecast,
    Readings,
    Recovery,
)

HELD = 60


def count_rows(x: FloatArray, y: FloatArray, parts: int = 1) -> list[CountRows]:
    """Return rows with their counts, in parts."""
    batches = number.with_numbers(cut_coded(x, np.ones(len(y)), parts, bare=True), y)
    return [CountRows(one.rows, one.y, np.ones(one.size)) for one in batches]


def drawn(rng: np.random.Generator, n: int, varied: bool = False) -> tuple[FloatArray, ...]:
    """Draw columns, log means and counts; ``varied``: with three times a Poisson's variance."""
    x = rng.standard_normal((n, 3))
    f = 0.5 + number.surface(x)
    mean = np.exp(f)
    y = rng.negative_binomial(mean / 2.0, 1.0 / 3.0) if varied else rng.poisson(mean)
    return x, f, y.astype(float)


def batches(seed: int, parts: int) -> Sequence[CountRows]:
    x, _, y = drawn(np.random.default_rng(seed), 150)
    return count_rows(x, y, parts)


def tiny(seed: int) -> Sequence[CountRows]:
    x = np.random.default_rng(seed).standard_normal((6, 1))
    return count_rows(x, np.array([3.0, 0.0, 2.0, 1.0, 0.0, 0.0]), 2)


def with_labels(x: FloatArray, t: FloatArray, parts: int) -> list[CountRows]:
    """Return rows whose labels are counts of 0 and 2."""
    cut = number.with_numbers(cut_coded(x, np.abs(t), parts, bare=True), t + np.abs(t))
    return [CountRows(one.rows, one.y, np.ones(one.size)) for one in cut]


def none_of(batch: CountRows) -> CountRows:
    none = number.none_of(batch)
    return CountRows(none.rows, none.y, np.ones(none.size))


def deviance_of_mean(seed: int) -> float:
    """Mean squared error of the log mean of new rows."""
    x, f, y = drawn(np.random.default_rng([seed, 7]), 4000)
    model = CountAdditive()
    done = fit(model, count_rows(x[:2500], y[:2500], 2), max_iter=1000)
    (new,) = cut_coded(x[:2500], np.ones(2500), new=x[2500:], bare=True)
    mean, _ = model.posterior(done.q).predict(new)
    return float(np.mean((np.log(mean) - f[2500:]) ** 2))


def held_out(rng: np.random.Generator) -> Readings:
    """How often a new count is within two standard deviations of its mean."""
    x, _, y = drawn(rng, 300 + HELD, bool(rng.random() < 0.5))
    model = CountAdditive()
    done = fit(model, count_rows(x[:300], y[:300]), max_iter=1000)
    (new,) = cut_coded(x[:300], np.ones(300), new=x[300:], bare=True)
    mean, sd = model.posterior(done.q).predict(new)
    inside = np.abs(y[300:] - mean) < 1.959964 * sd
    return {"in the interval": Forecast(np.full(HELD, 0.95), inside)}


def published(model: Any, q: FormState, batch: CountRows, local: Any) -> FloatArray:
    return np.stack(model.posterior(q).predict(batch.rows), axis=1)


def hidden(batch: CountRows) -> CountRows:
    none = number.hidden(batch)
    return CountRows(none.rows, none.y, np.ones(none.size))


CASE = replace(
    number.CASE,
    name="additive_count",
    model=CountAdditive,
    calibration=(
        Calibration(
            form="experts, a count",
            run=held_out,
            bounds={
                "in the interval": Bounds(
                    large=(0.0, 0.03),
                    slope=None,
                    bins=None,
                    measured="60 runs: .013 +- .004, as counts are discrete and their tails uneven",
                ),
            },
        ),
    ),
    batches=batches,
    tiny=tiny,
    extremes=replace(
        number.CASE.extremes, tables=lambda: ends.tables_of_coded_rows(with_labels), empty=none_of
    ),
    agreement=Agreement(published=published, scored=number.scored, hidden=hidden, tol=1e-8),
    global_step="Newton's steps are refused where they do not rise; variances move between them",
    monte_carlo="what is shown is a log-likelihood at a mode, no bound",
    sampler="Laplace's approximation has no sampler here; the mode is checked in tests/vbmodels",
    recovery=Recovery(error=deviance_of_mean, tolerance=0.03, seeds=(0, 1)),
    resume_sweeps=5,
    sweeps_on_workers=8,  # before the end there is no posterior
    seeds=(0,),
)
