"""Calibration of the counts that the documentation walks through; it also carries planted bugs."""

from functools import partial
from typing import Any

import numpy as np
from scipy import stats
from vbflows_counts.model import Counts, GroupedCounts

from vbmodels.core.fit import fit
from vbmodels.testing.calibration import SHARE, inside
from vbmodels.testing.case import Bounds, Calibration, Forecast, Readings


def counts(rng: np.random.Generator, model: Any) -> Readings:
    """The rates of 40 groups: their 95 % interval, and the chance to lie above the mean count."""
    plain = GroupedCounts()
    beta = rng.gamma(plain.c, 1.0 / plain.d)
    lam = rng.gamma(plain.a, 1.0 / beta, 40)
    y = rng.poisson(lam[:, None], (40, 3)).astype(np.float64)
    done = fit(model, [Counts(y)])
    (local,) = done.reduce.local_states(done.iterations - 1)
    q = stats.gamma(local.lam.shape, scale=1.0 / local.lam.rate)
    return {
        "rate of a group": inside(q.ppf(0.025), q.isf(0.025), lam),
        "above the mean": Forecast(q.sf(y.mean()), lam > y.mean()),
    }


def counts_of(model: Any) -> Calibration:
    """Return the row for ``model``, the right one or one with a bug."""
    return Calibration(
        form="counts",
        run=partial(counts, model=model),
        bounds={"rate of a group": Bounds(**SHARE), "above the mean": Bounds()},
        few=30,
    )


COUNTS = (counts_of(GroupedCounts()),)
