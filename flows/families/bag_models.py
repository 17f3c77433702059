"""The models of the bags pipeline behind one face: made, applied to bags, put into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.settings import BagSettings
from vbmodels.diagnostics import diagnose
from vbmodels.mil.batch import Bags
from vbmodels.mil.collapsed import CollapsedVMMIC
from vbmodels.mil.gibbs import Chains, GibbsVMMIC
from vbmodels.mil.posterior import predict
from vbmodels.mil.printed import PrintedVMMIC
from vbmodels.mil.priors import Priors
from vbmodels.mil.vmmic import MeanFieldVMMIC
from vbmodels.state import FloatArray


@dataclass(frozen=True)
class Scores:
    """What a model says of bags: P(y = 1) [B]; of their instances, [N_k] for each modality."""

    bags: FloatArray
    probability: tuple[FloatArray, ...]
    score: tuple[FloatArray, ...]
    contribution: tuple[FloatArray, ...] | None


@dataclass(frozen=True)
class Coefficients:
    """The posterior of one block of coefficients on scaled features.

    ``modality`` is its number, None for the bags' own features.
    """

    name: str
    modality: int | None
    mean: FloatArray
    sd: FloatArray


def make(settings: BagSettings) -> Any:
    """Return the model that the settings ask for."""
    learn = settings.inference == "collapsed" and settings.learn_slopes
    priors = Priors(
        intercept_mean=settings.intercept_mean,
        intercept_variance=settings.intercept_variance,
        slope_mean=settings.slope_mean,
        slope_variance=settings.slope_variance,
        learn=learn,
        rate=settings.slope_length,
    )
    if settings.inference == "collapsed":
        return CollapsedVMMIC(priors, settings.standardise)
    if settings.inference == "mean_field":
        return MeanFieldVMMIC(priors, settings.standardise)
    if settings.inference == "as_printed":
        return PrintedVMMIC(priors, settings.standardise)
    return GibbsVMMIC(
        priors,
        settings.standardise,
        chains=settings.chains,
        burn_in=settings.burn_in,
        kept=settings.draws,
        thin=settings.thin,
    )


def apply(model: Any, q: Any, data: Bags) -> Scores:
    """Predict bags and instances with the uncertainty of the parameters."""
    found = predict(model.posterior(q).draws(), q.scaling, data)
    return Scores(found.bag, found.instances, found.instances, found.contributions)


def coefficients(model: Any, q: Any) -> list[Coefficients]:
    """Return the posterior of every global parameter, in blocks."""
    layout = q.scaling.layout
    mean, sd = model.posterior(q).moments()
    blocks: list[tuple[str, int | None, Any]] = [("bag intercept", None, slice(0, 1))]
    if layout.own:
        blocks.append(("bag feature", None, layout.own_slopes))
    for k in range(len(layout.features)):
        gate = layout.gate(k)
        blocks += [
            ("contribution", k, layout.slopes(k)),
            ("primary intercept", k, slice(gate.start, gate.start + 1)),
            ("primary", k, layout.gate_slopes(k)),
        ]
    return [Coefficients(name, k, mean[where], sd[where]) for name, k, where in blocks]


def trust(q: Any) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return a sampler's diagnostics and what they warn of; nothing for the other forms."""
    if not isinstance(q, Chains) or q.kept.shape[1] < 4:
        return {}, ()
    seen = diagnose(q.kept)
    numbers = {
        "largest_r_hat": float(np.max(seen.r_hat)),
        "smallest_effective_draws": float(np.min(seen.ess_bulk)),
    }
    if numbers["largest_r_hat"] <= 1.05:
        return numbers, ()
    return numbers, (
        f"The chains have not mixed: R-hat is {numbers['largest_r_hat']:.2f} and a parameter has "
        f"{numbers['smallest_effective_draws']:.0f} effective draws; draw more, or thin.",
    )
