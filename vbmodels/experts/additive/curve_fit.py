"""The fit of lines, curves and pairs: each kind joins where the residuals of the last fit say so.

The fit without a part of the rows goes the same way from its start, selection included, so what it
says of that part is no flattery.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vbmodels.core.algorithm import Algorithm, Evaluate, Phase, Show
from vbmodels.experts.additive.blocks import BlockFit, climbed
from vbmodels.experts.additive.curves import Terms
from vbmodels.experts.additive.newton import DesignSummary
from vbmodels.experts.additive.pairs import missing_pairs, most_pairs
from vbmodels.experts.additive.posterior import Part
from vbmodels.experts.additive.screen import Screen, refined
from vbmodels.experts.additive.states import AdditiveState, FitSums

ROUGH = 2e-4
"""Rise to come, in nats a row, that ends a fit which blocks may still join."""


def fit_curves(observed: DesignSummary, first: BlockFit, tolerance: float) -> Algorithm:
    """Return the `BlockFit` of lines and curves that begins with ``first``.

    ``tolerance`` is the rise to come, in nats, that ends it.
    """
    assert observed.curves is not None
    if not observed.curves.curved.size:
        return (yield Phase(climbed(first, observed, tolerance)))
    rough = ROUGH * observed.rows
    fit = yield Phase(climbed(first, observed, rough))
    assert fit.terms is not None
    residuals = yield Evaluate(
        Screen(fit.coefficients, fit.terms, fit.fold, likelihood=fit.likelihood)
    )
    columns, variances = refined(observed.curves, residuals)
    if columns.size:
        fit = fit.with_terms(Terms(columns), variances, observed)
    else:
        fit = replace(fit, settled=True, done=False)
    return (yield Phase(climbed(fit, observed, tolerance)))


def fit_pairs(observed: DesignSummary, fit: BlockFit, tolerance: float) -> Algorithm:
    """Return a fit of lines and curves with the pairs that its residuals say it lacks.

    Half of the pairs that there may be join it first; it is fitted, and screened again for the
    rest. ``tolerance`` is the rise to come, in nats, that ends it.
    """
    curves = observed.curves
    assert curves is not None
    assert fit.terms is not None
    rough, most, terms = ROUGH * observed.rows, most_pairs(curves), fit.terms
    for last in (False, True):
        left = most - len(terms.pairs)
        room = left if last else (left + 1) // 2
        if room <= 0:
            continue
        screen = Screen(fit.coefficients, terms, fit.fold, True, fit.likelihood)
        sums = yield Evaluate(screen)
        pairs, variances = missing_pairs(curves, terms, sums.first, sums.second, room)
        if not len(pairs):
            break
        terms = replace(terms, pairs=np.concatenate([terms.pairs, pairs]))
        fit = fit.with_terms(terms, variances, observed)
        fit = yield Phase(climbed(fit, observed, rough))
    if not len(terms.pairs):
        return fit
    return (yield Phase(climbed(replace(fit, settled=True, done=False), observed, tolerance)))


def shown(algorithm: Algorithm, q: AdditiveState) -> Algorithm:
    """Run an algorithm of fits, and show each one's log-likelihood."""
    answer = None
    while True:
        try:
            request = algorithm.send(answer)
        except StopIteration as end:
            return end.value
        if isinstance(request, Phase):
            request = replace(request, algorithm=shown(request.algorithm, q))
        answer = yield request
        if isinstance(answer, FitSums):
            yield Show(q, answer.mean, by_trace=False)


def part_of(fit: BlockFit, observed: DesignSummary) -> Part:
    """Return what a fit found."""
    part = Part(fit.coefficients, 0.0, fit.fold, None, terms=fit.terms)
    return part.with_covariance(fit.hessian(observed)) if fit.fold < 0 else part
