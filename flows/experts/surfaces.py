"""What pairs of columns add to the log odds, over few levels of each, as the report shows it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from flows.experts.design import Design
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.curves import Curves
from vbmodels.experts.additive.knots import Basis
from vbmodels.experts.additive.pairs import coarse_levels, pair_tables
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.forms import AnyPosterior

MOST_SURFACES = 6
"""Pairs that the report shows."""


@dataclass(frozen=True)
class Surface:
    """What a pair of columns adds to the log odds.

    ``rows`` and ``across`` name the levels of the first and the second column; ``values`` are means
    over the rows of a sample, ``spread`` the standard deviation over them.
    """

    name: str
    rows: tuple[str, ...]
    across: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    spread: float


def surfaces_of(
    posterior: AnyPosterior, design: Design, basis: Basis | None
) -> tuple[Surface, ...]:
    """Return what every pair adds, those that move most first."""
    if not isinstance(posterior, AdditivePosterior) or basis is None:
        return ()
    part, curves = posterior.pairs, basis.curves
    if part is None or part.terms is None or curves is None:
        return ()
    coarse, _ = coarse_levels(curves)
    tables = pair_tables(curves, part.terms)
    at = part.coefficients.size - 1 - sum(one.shape[1] for _, one, _ in tables)
    found = []
    for (d, e), one, other in tables:
        surface = (one * part.coefficients[at : at + one.shape[1]]) @ other.T
        at += one.shape[1]
        spread = float(np.sqrt(curves.share(d) @ surface**2 @ curves.share(e)))
        small = _means(curves.share(d), coarse[d]) @ surface @ _means(curves.share(e), coarse[e]).T
        (row, rows), (column, across) = (_named(s, coarse[s], curves, design) for s in (d, e))
        values = tuple(tuple(map(float, line)) for line in small)
        found.append(Surface(f"{row} and {column}", rows, across, values, spread))
    return tuple(sorted(found, key=lambda one: -one.spread))


def _means(share: FloatArray, coarse: IntArray) -> FloatArray:
    """Return what makes means over coarse levels of values at levels; [B, L]."""
    member = (coarse == np.arange(int(coarse.max()) + 1)[:, None]) * share
    return np.asarray(member / member.sum(1, keepdims=True))


def _named(s: int, coarse: IntArray, curves: Curves, design: Design) -> tuple[str, tuple[str, ...]]:
    """Return the name of a column of the table, and of its coarse levels."""
    own = curves.lines[s]
    lines = [str(design.columns[j]) for j in own]
    count = int(coarse.max()) + 1
    if curves.counts[s]:
        last = [np.flatnonzero(coarse == level)[-1] for level in range(count - 1)]
        tops = design.centre[own[0]] + design.scale[own[0]] * curves.knots_of(s)[last]
        return lines[0], (*(f"up to {top:.4g}" for top in tops), f"above {tops[-1]:.4g}")
    if len(own) == 1:
        levels, name = ["1", "0"], lines[0]
    else:
        name, _, _ = lines[0].rpartition(" = ")
        while name and not all(line.startswith(f"{name} = ") for line in lines):
            name, _, _ = name.rpartition(" = ")
        levels = [line.removeprefix(f"{name} = ") for line in lines] + ["other"]
    named = [[levels[at] for at in np.flatnonzero(coarse == level)] for level in range(count)]
    return name, tuple(some[0] if len(some) == 1 else "the rest" for some in named)
