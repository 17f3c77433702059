"""The weights of a fit as a table: names of what they weigh, and the curves of an additive part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flows.data.run_tables import Parameter
from flows.experts.design import Design
from vbmodels.core.linalg import unpack
from vbmodels.core.state import FloatArray
from vbmodels.experts.additive.knots import Basis
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.forms import AnyPosterior, Names, weights_of

MOST_CURVES = 12
"""Curves that the report shows."""


@dataclass(frozen=True)
class Curve:
    """What a column adds to the log odds, at points of its own unit, with standard deviations.

    ``spread`` is how much it moves the log odds from row to row, by which curves are ordered.
    """

    column: str
    at: tuple[float, ...]
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    spread: float


def table_of(posterior: AnyPosterior, names: Names) -> list[Any]:
    """Return the columns of the table of experts."""
    return [pa.array(values) for values in zip(*weights_of(posterior, names), strict=True)]


def curves_of(posterior: AnyPosterior, design: Design, basis: Basis | None) -> tuple[Curve, ...]:
    """Return the additive part's curve for every column, those that move most first.

    A curve is 0 in the middle of its places, of two at the first (0 of 0 and 1); its standard
    deviations are those of the Gaussian approximation, of the difference from there.
    """
    if basis is None or not isinstance(posterior, AdditivePosterior):
        return ()
    part = posterior.part
    covariance = None if part.covariance is None else unpack(part.covariance)
    found = []
    for j, name in enumerate(design.columns):
        if np.isinf(design.scale[j]):
            continue
        z = _places(j, design, basis)
        x = np.zeros((len(z), part.coefficients.size))
        x[:, j] = z
        if part.terms is not None and basis.curves is not None:
            x[:, len(design.columns) : -1] = basis.curves.functions(j, z, part.terms)
        x -= x[len(x) // 2 if len(x) > 2 else 0]
        mean = x @ part.coefficients
        sd = np.zeros(len(z))
        if covariance is not None:
            sd = np.sqrt(np.maximum(np.sum(x @ covariance * x, axis=1), 0.0))
        spread = float(np.std(mean)) if len(z) > 2 else float(abs(mean[-1] - mean[0])) / 2.0
        at = design.centre[j] + design.scale[j] * z
        points, means, sds = (tuple(map(float, v)) for v in (at, mean, sd))
        found.append(Curve(str(name), points, means, sds, spread))
    return tuple(sorted(found, key=lambda c: -c.spread))


def _places(column: int, design: Design, basis: Basis) -> FloatArray:
    """Return where a curve is drawn, on the scale of the fit: at 0 and 1, or where cells are."""
    if design.scale[column] == 1.0 and design.centre[column] == 0.0:
        return np.array([0.0, 1.0])
    if basis.curves is None:
        return np.array([-2.0, 2.0])
    return basis.curves.places(column)


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
