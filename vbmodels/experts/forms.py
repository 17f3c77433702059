"""The forms of the mixture of experts behind one set of options."""

from __future__ import annotations

from math import sqrt

from vbmodels.experts.additive import AdditiveExperts
from vbmodels.experts.marginal import MarginalExperts
from vbmodels.experts.options import ExpertOptions, experts_of
from vbmodels.experts.published.cavi import BoundedExperts
from vbmodels.experts.published.mabn import AngularPrior
from vbmodels.experts.published.metropolis import SampledExperts
from vbmodels.experts.published.walk import WalkPrior
from vbmodels.experts.several import OneVersusRest

COUNTS = (1, 2, 3, 5, 10, 20, 50, 100)
"""Numbers of experts tried by ``select="cv"``, up to n_experts."""

MOST_ROWS, MOST_CELLS = 50_000, 20_000_000
"""Rows and cells up to which a Gaussian process is fitted: of more rows few landmarks say less than
experts do, and every evaluation would cost as much as all else."""
FEWEST_LANDMARKS, MOST_LANDMARKS, MOST_PRODUCTS = 200, 600, 2e9

AnyExperts = AdditiveExperts | MarginalExperts | BoundedExperts | SampledExperts


def landmarks_for(options: ExpertOptions, rows: int, columns: int, copies: float) -> int:
    """Return how many landmarks a Gaussian process of all columns is to have; 0 for no process.

    A quarter of the rows, copies of a whole table not counted, between `FEWEST_LANDMARKS` and
    `MOST_LANDMARKS`; fewer where rows x landmarks^2, which is what second moments cost, would be
    more than `MOST_PRODUCTS`.
    """
    asked = options.inference == "additive" and options.gaussian_process and experts_of(options) > 1
    if not asked or rows > MOST_ROWS or rows * columns > MOST_CELLS:
        return 0
    most = min(MOST_LANDMARKS, rows / copies / 4.0, sqrt(MOST_PRODUCTS / max(rows, 1)))
    return max(FEWEST_LANDMARKS, int(most))


def make_several(options: ExpertOptions, baseline_beside: bool = True) -> OneVersusRest:
    """Return the model to fit to labels of more than two classes; see `make`.

    Raises
    ------
    ValueError
        If the inference takes two labels alone.
    """
    model = make(options, baseline_beside)
    if not isinstance(model, AdditiveExperts | MarginalExperts):
        raise ValueError(
            f"Only binary classification is supported by inference {options.inference}: labels of "
            f"more than two classes go with inference additive or marginal, not {options.inference}"
        )
    return OneVersusRest(model)


def make(options: ExpertOptions, baseline_beside: bool = True) -> AnyExperts:
    """Return the model to fit.

    Parameters
    ----------
    options
        What was asked for.
    baseline_beside
        Whether "marginal" fits a logistic regression beside the mixture.
    """
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
            options.gate_bound,
            options.tau or 1.0,
            AngularPrior(options.kappa, options.alpha1, options.alpha2),
            options.omega,
        )
    counts = tuple(k for k in {*COUNTS, most} if k <= most)
    kappa = options.kappa if options.prior == "mabn2" else 0.0
    tried = tuple(sorted(counts)) if options.select == "cv" else ()
    kappas = (0.0, kappa) if kappa else (0.0,)
    omegas = (0.0, options.omega) if options.omega else (0.0,)
    if options.inference == "additive":
        return AdditiveExperts(
            most,
            tau=options.tau,
            counts=tried,
            kappas=kappas,
            omegas=omegas,
            n_restarts=options.restarts,
            tolerance=options.tol,
        )
    return MarginalExperts(
        most,
        tau=options.tau,
        shared=options.shared,
        counts=tried,
        kappas=kappas,
        omegas=omegas,
        n_restarts=options.restarts,
        tolerance=options.tol,
        baseline_beside=baseline_beside,
    )
