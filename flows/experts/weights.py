"""The weights of a fit as tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flows.data.run_tables import Parameter
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.forms import AnyPosterior, Names, weights_of


def table_of(posterior: AnyPosterior, names: Names) -> list[Any]:
    """Return the columns of the table of experts."""
    return [pa.array(values) for values in zip(*weights_of(posterior, names), strict=True)]


def parameters_of(posterior: AnyPosterior) -> list[Parameter]:
    """Return every weight of the additive part, where there is one, and of the best start."""
    found = []
    if isinstance(posterior, AdditivePosterior):
        pairs = zip(posterior.part.coefficients, posterior.part.sd, strict=True)
        found = [
            Parameter("additive", str(d), float(mean), float(sd))
            for d, (mean, sd) in enumerate(pairs)
        ]
    one = posterior.components[0]
    return found + [
        Parameter(f"{role} {k + 1}", str(d), float(one.mean[r, k, d]), float(one.sd[r, k, d]))
        for r, role in enumerate(("gate", "expert"))
        for k in range(one.mean.shape[1])
        for d in range(one.mean.shape[2])
    ]
