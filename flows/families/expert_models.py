"""Which model the settings of the experts ask for."""

from __future__ import annotations

from flows.settings import ExpertSettings
from vbmodels.experts.cavi import BoundedExperts
from vbmodels.experts.mabn import AngularPrior
from vbmodels.experts.marginal import MarginalExperts
from vbmodels.experts.metropolis import SampledExperts
from vbmodels.experts.walk import WalkPrior

COUNTS = (1, 2, 3, 5, 10, 20, 50, 100)
"""Numbers of experts tried by ``select=cv``, up to n_experts."""


def make(settings: ExpertSettings) -> MarginalExperts | BoundedExperts | SampledExperts:
    """Return the model to fit."""
    if settings.inference == "mh":
        return SampledExperts(
            settings.n_experts,
            WalkPrior(settings.prior, settings.tau or 1.0, settings.kappa),
            settings.alpha1,
            settings.alpha2,
            learn=settings.learn_lengths,
            chains=settings.chains,
            warmup=settings.warmup,
            draws=settings.draws,
            thin=settings.thin,
        )
    if settings.inference == "cavi":
        return BoundedExperts(
            settings.n_experts,
            "mabn2" if settings.prior == "mabn2" else "gaussian",
            settings.gate_bound,
            settings.tau or 1.0,
            AngularPrior(settings.kappa, settings.alpha1, settings.alpha2),
            settings.omega,
        )
    counts = tuple(k for k in {*COUNTS, settings.n_experts} if k <= settings.n_experts)
    kappa = settings.kappa if settings.prior == "mabn2" else 0.0
    return MarginalExperts(
        settings.n_experts,
        tau=settings.tau,
        shared=settings.shared,
        counts=tuple(sorted(counts)) if settings.select == "cv" else (),
        kappas=(0.0, kappa) if kappa else (0.0,),
        omegas=(0.0, settings.omega) if settings.omega else (0.0,),
        n_restarts=settings.restarts,
        tolerance=settings.tol,
        rival_beside=True,
    )
