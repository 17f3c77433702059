"""Variant calling in one process: the default test and the papers' rule on one table of counts."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

from vbmodels.core.fit import NotConverged, fit
from vbmodels.variants.calls import called, local_fdr
from vbmodels.variants.counts import Counts, totals, units
from vbmodels.variants.rvd2.model import RVD2, Errors
from vbmodels.variants.rvd2.posterior_difference import compare
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups


def two_groups(counts: Counts, model: TwoGroups | None = None) -> dict[str, Any]:
    """Fit and call; return the units, what is called and what the fit took."""
    model = model or TwoGroups(alternatives=MIXTURE)
    begun = time.process_time()
    done = fit(model, [counts], tol=1e-5)
    q = model.anchored(done.q)
    of = units(counts)
    tabulated = model.table(q, of)
    m0, m1, _ = model.e_step(q, tabulated)
    lfdr = local_fdr(m1 - m0, q.pi)
    return {
        "model": model,
        "units": of,
        "q": q,
        "table": tabulated,
        "log_bf": m1 - m0,
        "called": called(lfdr, 0.05),
        "seconds": time.process_time() - begun,
        "sweeps": done.iterations,
    }


def papers(counts: Counts) -> dict[float, np.ndarray]:
    """Return the locations that the papers' rule calls, by tau."""
    r, n = totals(counts)
    states = []
    for member in (counts.case, ~counts.case):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            done = fit(RVD2(), [Errors(r[:, member], n[:, member])], tol=1e-6, max_iter=200)
        states.append(done.reduce.local_states(done.iterations - 1)[0])
    case, control = states
    return {
        tau: np.flatnonzero(compare(case, control, tau).probability > 0.95) for tau in (0.0, 5e-4)
    }
