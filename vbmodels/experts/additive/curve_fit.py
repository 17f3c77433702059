"""The fit of lines and curves: smooth ones, then what refines them where the residuals ask for it.

The fit without a part of the rows goes the same way from its start, selection included, so what it
says of that part is no flattery.
"""

from __future__ import annotations

from dataclasses import replace

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase
from vbmodels.core.linalg import cholesky, inverse, pack
from vbmodels.experts.additive.blocks import BlockFit, climbed
from vbmodels.experts.additive.curves import Terms
from vbmodels.experts.additive.newton import Counted
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.additive.screen import Screen, refined

ROUGH = 2e-4
"""Rise to come, in nats a row, that ends a fit which blocks may still join."""


def fit_curves(observed: Counted, fold: int, tolerance: float) -> Algorithm:
    """Return the `BlockFit` of the rows that are not in a part (-1: of all rows).

    ``tolerance`` is the rise to come, in nats, that ends it.
    """
    assert observed.curves is not None
    rough = ROUGH * observed.rows
    fit = yield Phase(climbed(BlockFit.first(observed, fold), observed, rough))
    residuals = yield Evaluate(Screen(fit.coefficients, fit.terms, fold))
    columns, variances = refined(observed.curves, residuals)
    if columns.size:
        fit = fit.with_terms(Terms(columns), variances, observed)
    else:
        fit = replace(fit, settled=True, done=False)
    return (yield Phase(climbed(fit, observed, tolerance)))


def part_of(fit: BlockFit, observed: Counted) -> Part:
    """Return what a fit found."""
    covariance = None
    if fit.fold < 0:
        factor = cholesky(fit.hessian(observed), "the second moments")
        covariance = pack(inverse(factor))
    return Part(fit.coefficients, 0.0, fit.fold, covariance, terms=fit.terms)
