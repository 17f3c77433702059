"""Rows of the additive form of a number."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import norm

from tests.contract import ends
from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray
from vbmodels.experts.additive.gaussian import GaussianAdditive
from vbmodels.experts.additive.held_out import FormState
from vbmodels.experts.rows import Rows
from vbmodels.experts.terms.step_rows import CodedRows, TargetRows
from vbmodels.testing.case import (
    Agreement,
    Bounds,
    Calibration,
    Case,
    Extremes,
    Forecast,
    Readings,
    Recovery,
)

HELD = 60


def target_rows(x: FloatArray, y: FloatArray, parts: int = 1, without: int = 0) -> list[TargetRows]:
    """Return rows with their numbers, and columns of a Gaussian process, in parts.

    The first rows are ``without`` a number.
    """
    known = (np.arange(len(y)) >= without).astype(float)
    batches = cut_coded(x, known, parts, joint=True, bare=True, y=y)
    return with_numbers(batches, y * known)


def new_rows(x: FloatArray, y: FloatArray, new: FloatArray) -> CodedRows:
    """Return new rows as a fit to x and y has them."""
    return cut_coded(x, np.ones(len(y)), new=new, joint=True, bare=True, y=y)[0]


def with_numbers(batches: Sequence[CodedRows], y: FloatArray) -> list[TargetRows]:
    ends_at = np.cumsum([one.size for one in batches])[:-1]
    return [TargetRows(rows, own) for rows, own in zip(batches, np.split(y, ends_at), strict=True)]


def surface(x: FloatArray) -> FloatArray:
    """A curve, a line and a product, of variance one half or so."""
    found: FloatArray = 0.6 * np.abs(x[:, 0]) + 0.4 * x[:, 1] + 0.4 * x[:, 1] * x[:, 2]
    return found


def batches(seed: int, parts: int) -> Sequence[TargetRows]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((300, 3))
    y = surface(x) + 0.3 * rng.standard_normal(300)
    x[rng.random(300) < 0.1, 1] = np.nan
    return target_rows(x, (y - y.mean()) / y.std(), parts, without=20)


def tiny(seed: int) -> Sequence[TargetRows]:
    rng = np.random.default_rng(seed)
    return target_rows(rng.standard_normal((6, 1)), np.array([1.0, -1.0, 1.0, 1.0, -1.0, -1.0]), 2)


def with_labels(x: FloatArray, y: FloatArray, parts: int) -> list[TargetRows]:
    """Return rows whose labels are numbers."""
    return with_numbers(cut_coded(x, np.abs(y), parts, bare=True), y)


def none_of(batch: TargetRows) -> TargetRows:
    coded = batch.rows
    rows = CodedRows(ends.no_rows(coded.rows), coded.codes[:0], coded.basis, coded.missing[:0])
    return TargetRows(rows, batch.y[:0])


def predicted(model: Any, q: FormState, batch: TargetRows) -> FloatArray:
    return np.stack(model.posterior(q).predict(batch.rows), axis=1)


def scored(model: Any, q: FormState, batch: TargetRows) -> FloatArray:
    """Mean and sd of new rows: a score sees no numbers, and rows in another order."""
    assert not batch.y.any()
    own = batch.rows
    back = Rows.of(np.asarray(own.rows.dense)[::-1, :-1], own.t, own.rows.key[::-1])
    rows = CodedRows(back, own.codes[::-1], own.basis, own.missing[::-1])
    return predicted(model, q, replace(batch, rows=rows))[::-1]


def hidden(batch: TargetRows) -> TargetRows:
    rows = replace(batch.rows, rows=replace(batch.rows.rows, t=np.zeros(batch.size)))
    return TargetRows(rows, np.zeros(batch.size))


def excess_error(seed: int) -> float:
    """Held-out squared error above the noise, as a share of the target's variance."""
    rng = np.random.default_rng([seed, 7])
    x = rng.standard_normal((4000, 3))
    f = surface(x)
    y = f + 0.5 * rng.standard_normal(4000)
    mean, sd = y[:2500].mean(), y[:2500].std()
    model = GaussianAdditive()
    done = fit(model, target_rows(x[:2500], (y[:2500] - mean) / sd, 2), max_iter=500)
    new = new_rows(x[:2500], y[:2500], x[2500:])
    found = mean + sd * model.posterior(done.q).predict(new)[0]
    return float(np.mean((found - f[2500:]) ** 2) / sd**2)


def held_out(rng: np.random.Generator) -> Readings:
    """Chances that a new number is above the mean, and that it is within its 95 % interval."""
    x = rng.standard_normal((120 + HELD, 3))
    y = surface(x) + rng.choice([0.3, 1.0]) * rng.standard_normal(len(x))
    y = (y - y[:120].mean()) / y[:120].std()
    model = GaussianAdditive()
    done = fit(model, target_rows(x[:120], y[:120]), max_iter=500)
    new = new_rows(x[:120], y[:120], x[120:])
    mean, sd = model.posterior(done.q).predict(new)
    inside = np.abs(y[120:] - mean) < 1.959964 * sd
    return {
        "above the mean": Forecast(norm.sf(0.0, mean, sd), y[120:] > 0.0),
        "in the interval": Forecast(np.full(HELD, 0.95), inside),
    }


def held_out_gaps(rng: np.random.Generator) -> Readings:
    """Chances that a new number is within its 95 % interval, where a cell is missing and not."""
    x = rng.standard_normal((300 + HELD, 3))
    y = 2.0 * x[:, 0] + x[:, 1] + 0.3 * rng.standard_normal(len(x))
    y = (y - y[:300].mean()) / y[:300].std()
    gone = rng.random(len(x)) < np.where(np.arange(len(x)) < 300, 0.1, 0.3)
    x[gone, 0] = np.nan
    model = GaussianAdditive()
    done = fit(model, target_rows(x[:300], y[:300]), max_iter=500)
    mean, sd = model.posterior(done.q).predict(new_rows(x[:300], y[:300], x[300:]))
    inside, gap = np.abs(y[300:] - mean) < 1.959964 * sd, gone[300:]
    return {
        "in the interval, a cell missing": Forecast(np.full(gap.sum(), 0.95), inside[gap]),
        "in the interval, none missing": Forecast(np.full((~gap).sum(), 0.95), inside[~gap]),
    }


CASE = Case(
    name="additive_number",
    model=GaussianAdditive,
    calibration=(
        Calibration(
            form="experts, a number",
            run=held_out,
            bounds={
                "above the mean": Bounds(
                    slope=(0.8, 0.95),  # too sure far from the mean, by so few rows
                    bins=0.04,
                    measured="1000 runs: -.002 +- .002, slope .88 +- .01",
                ),
                "in the interval": Bounds(
                    large=(-0.01, 0.01),
                    slope=None,
                    bins=None,
                    measured="100 runs: -.007 +- .003",
                ),
            },
        ),
        Calibration(
            form="experts, a number, with gaps",
            run=held_out_gaps,
            bounds={
                "in the interval, a cell missing": Bounds(
                    large=(-0.03, 0.01),
                    slope=None,
                    bins=None,
                    measured="278 runs: -.011 +- .004",
                ),
                "in the interval, none missing": Bounds(
                    large=(-0.02, 0.01),
                    slope=None,
                    bins=None,
                    measured="278 runs: -.003 +- .002",
                ),
            },
        ),
    ),
    batches=batches,
    tiny=tiny,
    extremes=Extremes(
        tables=lambda: ends.tables_of_coded_rows(with_labels),
        empty=none_of,
        plain="it has no compiled loops: NumPy is all",
    ),
    agreement=Agreement(
        published=lambda model, q, batch, local: predicted(model, q, batch),
        scored=scored,
        hidden=hidden,
        tol=1e-8,
    ),
    global_step="the coefficients are solved for; variances stop near their fixed point",
    local_step="a partition has no local parameters",
    monte_carlo="the evidence is exact given variances: tests/vbmodels has the dense Gaussian",
    evidence="variances are point estimates: no evidence is of the whole",
    sampler="the posterior given variances is exact: nothing is approximated",
    recovery=Recovery(error=excess_error, tolerance=0.02, seeds=(0, 1)),
    partition_rtol=1e-6,
)
