"""The forms of the mixture of experts behind one set of options, and their weights by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.one_vs_rest import OneVersusRest
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.bmem.metropolis import SampledExperts, WalkPrior
from vbmodels.experts.bmem.model import BoundedExperts
from vbmodels.experts.bmem.mutual_angular import AngularPrior
from vbmodels.experts.options import ExpertOptions, ExpertTuning, experts_of
from vbmodels.experts.posterior import DrawnPosterior, Posterior
from vbmodels.experts.terms.knots import Basis
from vbmodels.experts.terms.pairs import pair_tables
from vbmodels.experts.terms.step_rows import FEW_COLUMNS, steps_of

MOST_ROWS, MOST_CELLS = 50_000, 20_000_000
"""Rows and cells up to which a Gaussian process is fitted: of more rows few landmarks say less than
experts do, and every evaluation would cost as much as all else."""
FEWEST_LANDMARKS, MOST_LANDMARKS, MOST_PRODUCTS = 200, 600, 2e9
MOST_OF_NUMBER, MOST_PRODUCTS_OF_NUMBER = 1000, 1e10
"""The same of a number, which needs second moments once where labels need them at every step."""

AnyExperts = AdditiveExperts | BoundedExperts | SampledExperts


def has_process(options: ExpertOptions) -> bool:
    """Say whether a Gaussian process of all columns may be a part of the model."""
    return options.inference == "additive" and options.gaussian_process and experts_of(options) > 1


def landmarks_for(wanted: bool, number: bool, rows: int, columns: int, copies: float) -> int:
    """Return how many landmarks a Gaussian process of all columns is to have; 0 for no process.

    A quarter of the rows, copies of a whole table not counted, between `FEWEST_LANDMARKS` and
    `MOST_LANDMARKS`; fewer where rows x landmarks^2, which is what second moments cost, would be
    more than `MOST_PRODUCTS`. Of a ``number`` all rows, up to `MOST_OF_NUMBER`.
    """
    if not wanted or rows > MOST_ROWS or rows * columns > MOST_CELLS:
        return 0
    if number:
        return int(min(MOST_OF_NUMBER, sqrt(MOST_PRODUCTS_OF_NUMBER / max(rows, 1))))
    most = min(MOST_LANDMARKS, rows / copies / 4.0, sqrt(MOST_PRODUCTS / max(rows, 1)))
    return max(FEWEST_LANDMARKS, int(most))


def make_several(options: ExpertTuning) -> OneVersusRest:
    """Return the model to fit to labels of more than two classes; see `make`.

    Raises
    ------
    ValueError
        If the inference takes two labels alone.
    """
    model = make(options)
    if not isinstance(model, AdditiveExperts):
        raise ValueError(
            f"Only binary classification is supported by inference {options.inference}: labels of "
            "more than two classes go with inference additive"
        )
    return OneVersusRest(model)


def make(options: ExpertTuning) -> AnyExperts:
    """Return the model to fit."""
    most = experts_of(options)
    if options.inference == "mh":
        return SampledExperts(
            most,
            WalkPrior(options.prior, options.tau or 1.0, options.kappa),
            options.alpha1,
            options.alpha2,
            learn=options.learn_lengths,
            chains=options.chains,
            warmup=options.warmup,
            draws=options.draws,
            thin=options.thin,
        )
    if options.inference == "cavi":
        return BoundedExperts(
            most,
            "mabn2" if options.prior == "mabn2" else "gaussian",
            options.tau or 1.0,
            AngularPrior(options.kappa, options.alpha1, options.alpha2),
            options.omega,
        )
    return AdditiveExperts(
        most, tau=options.tau, n_restarts=options.restarts, tolerance=options.tol
    )


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
    """Name the functions of the curves, the smoothest of a column first, then of pairs."""
    terms, curves, found = posterior.part.terms, basis.curves, Counter[int]()
    names: list[str] = []
    if terms is None or curves is None:
        return names
    for s, table in curves.tables(terms):
        for _ in range(table.shape[1]):
            found[s] += 1
            names.append(f"{lines[curves.lines[s][0]]} (curve {found[s]})")
    for (d, e), table, _ in pair_tables(curves, terms):
        pair = f"{lines[curves.lines[d][0]]} and {lines[curves.lines[e][0]]}"
        names += [f"{pair} (surface {k + 1})" for k in range(table.shape[1])]
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
