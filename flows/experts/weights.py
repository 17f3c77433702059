"""The weights of a fit as tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from flows.records.runs import Parameter
from vbmodels.experts.additive.counts import CountPosterior
from vbmodels.experts.additive.gaussian import GaussianPosterior
from vbmodels.experts.additive.one_vs_rest import OneVersusRest
from vbmodels.experts.additive.posterior import AdditivePosterior, Part
from vbmodels.experts.forms import AnyPosterior, Names, weights_of


def table_of(posterior: AnyPosterior, names: Names) -> list[Any]:
    """Return the columns of the table of experts."""
    return [pa.array(values) for values in zip(*weights_of(posterior, names), strict=True)]


def parameters_in(model: Any, q: Any) -> list[Parameter]:
    """Return every weight on the scale of the fit; of several classes by their numbers."""
    posterior = model.posterior(q)
    if isinstance(posterior, CountPosterior | GaussianPosterior):
        name, value = "dispersion", getattr(posterior, "dispersion", 0.0)
        if isinstance(posterior, GaussianPosterior):
            name, value = "noise sd", float(np.sqrt(posterior.noise))
        return [*_coefficients(posterior.part), Parameter(name, "0", value, 0.0)]
    if isinstance(model, OneVersusRest):
        return [
            replace(one, name=f"class {number + 1} {one.name}")
            for number, part in enumerate(posterior.parts)
            for one in parameters_of(part)
        ]
    return parameters_of(posterior)


def _coefficients(part: Part) -> list[Parameter]:
    pairs = zip(part.coefficients, part.sd, strict=True)
    return [Parameter("additive", str(d), float(m), float(sd)) for d, (m, sd) in enumerate(pairs)]


def parameters_of(posterior: AnyPosterior) -> list[Parameter]:
    """Return every weight of the additive part, where there is one, and of the best start."""
    found = []
    if isinstance(posterior, AdditivePosterior):
        found = _coefficients(posterior.part)
    one = posterior.components[0]
    return found + [
        Parameter(f"{role} {k + 1}", str(d), float(one.mean[r, k, d]), float(one.sd[r, k, d]))
        for r, role in enumerate(("gate", "expert"))
        for k in range(one.mean.shape[1])
        for d in range(one.mean.shape[2])
    ]
