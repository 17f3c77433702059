"""The weights of a fit by name: what each of them weighs, its mean and its standard deviation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from vbmodels.experts.additive.knots import Basis
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.additive.step_rows import FEW_COLUMNS, steps_of
from vbmodels.experts.posterior import DrawnPosterior, Posterior

AnyPosterior = Posterior | DrawnPosterior | AdditivePosterior


@dataclass(frozen=True)
class Names:
    """Names of the coefficients of the additive part, and of gates and experts."""

    additive: tuple[str, ...]
    mixture: tuple[str, ...]


class Weight(NamedTuple):
    """One weight: of the additive part (expert 0), or of an expert or its gate."""

    expert: int
    role: str
    column: str
    mean: float
    sd: float


def names_of(posterior: AnyPosterior, columns: Iterable[str], basis: Basis | None) -> Names:
    """Name every coefficient, the intercepts last."""
    lines = [str(c) for c in columns]
    if basis is None or not isinstance(posterior, AdditivePosterior):
        return Names((), (*lines, "intercept"))
    column, number = steps_of(basis.steps)
    steps = [f"{lines[c]} > {basis.knots[c, k]:.6g}" for c, k in zip(column, number, strict=True)]
    mixture = (*lines, *steps, "intercept")
    mixture = mixture if len(lines) <= FEW_COLUMNS else (*lines, "intercept")
    return Names((*lines, *_functions(posterior, lines, basis), "intercept"), mixture)


def _functions(posterior: AdditivePosterior, lines: list[str], basis: Basis) -> list[str]:
    """Name the functions of the curves, the smoothest of a column first."""
    terms, curves, found = posterior.part.terms, basis.curves, Counter[int]()
    names: list[str] = []
    if terms is None or curves is None:
        return names
    for s, table in curves.tables(terms):
        for _ in range(table.shape[1]):
            found[s] += 1
            names.append(f"{lines[curves.lines[s][0]]} (curve {found[s]})")
    return names


def weights_of(posterior: AnyPosterior, names: Names) -> list[Weight]:
    """Return the weights of the additive part, then those of the experts of the best start."""
    found: list[Weight] = []
    if isinstance(posterior, AdditivePosterior):
        part = posterior.part
        rows = zip(names.additive, part.coefficients, part.sd, strict=True)
        found += [Weight(0, "additive", name, float(mean), float(sd)) for name, mean, sd in rows]
        if not posterior.mixtures:
            return found
    one = posterior.components[0]
    return found + [
        Weight(k + 1, role, name, float(one.mean[r, k, d]), float(one.sd[r, k, d]))
        for k in range(one.mean.shape[1])
        for r, role in ((1, "expert"), (0, "gate"))
        for d, name in enumerate(names.mixture)
    ]
