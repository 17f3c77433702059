"""The models of the bags pipeline behind one face: made, applied to bags, put into words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from flows.bags.models import stacked
from flows.bags.models.tables import Coefficients, Scores
from flows.bags.settings import BagSettings
from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.number import NumberModel
from vbmodels.bags.mil_gp.fit import DirectGP
from vbmodels.bags.mil_gp.gibbs import Chains as GPChains
from vbmodels.bags.mil_gp.gibbs import GibbsGP, predict_from_draws
from vbmodels.bags.mil_gp.kernel import KernelOptions
from vbmodels.bags.mil_gp.predict import predict as predict_gp
from vbmodels.bags.multilabel import MultiLabelBags
from vbmodels.bags.vmmic.gibbs import Chains, GibbsVMMIC
from vbmodels.bags.vmmic.mean_field import MeanFieldVMMIC
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import predict
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.chains import diagnose
from vbmodels.core.state import FloatArray

GPModel = DirectGP | GibbsGP
ONE_VALUE: dict[str, Any] = {"length_scales": (1.0,), "amplitudes": (3.0,)}
"""The kernel value of the sampler: length scale 1 in scaled features, the grid's middle."""


def make(settings: BagSettings) -> Any:
    """Return the model of the settings."""
    if settings.numeric:
        return NumberModel(sample_seed=settings.seed)
    if settings.model in stacked.MODELS:
        return stacked.make(settings, make_witness(settings))
    if settings.model != "vmmic":
        return _make_gp(settings)
    form, standardise = settings.form, settings.standardise is not False
    priors = Priors(learn=form == "collapsed")
    if form == "collapsed":
        return CollapsedVMMIC(priors, standardise)
    if form == "mean_field":
        return MeanFieldVMMIC(priors, standardise)
    return GibbsVMMIC(
        priors,
        standardise,
        chains=settings.chains,
        warmup=settings.warmup,
        draws=settings.draws,
        thin=settings.thin,
    )


def apply(model: Any, q: Any, data: Any, local: Any = None) -> list[Scores]:
    """Predict bags and instances with the uncertainty of the parameters, class by class.

    ``local`` is what the fit left of these bags, None for new ones.
    """
    if isinstance(model, stacked.Stacked):
        return [stacked.apply(model, q, data, local)]
    if isinstance(model, GPModel):
        return _apply_gp(model, q, data)
    posterior = model.posterior(q)
    found = predict(posterior.draws(), posterior.scaling, data)
    return [Scores(found.bag, found.instances, found.instances, found.contributions)]


def coefficients(model: Any, q: Any) -> list[Coefficients]:
    """Return the posterior of every global parameter, in blocks."""
    if isinstance(model, stacked.Stacked | NumberModel):
        return stacked.coefficients(model, q)
    if isinstance(model, GPModel):
        return _gp_coefficients(model, q)
    posterior = model.posterior(q)
    layout = posterior.scaling.layout.plain
    mean, sd = posterior.moments()
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


def trust(q: Any) -> dict[str, float]:
    """Return a sampler's diagnostics; nothing for the other forms."""
    kept = _kept_draws(q)
    if kept is None or kept.shape[1] < 4:
        return {}
    seen = diagnose(kept)
    return {
        "largest_r_hat": seen.largest_r_hat,
        "smallest_effective_draws": float(np.min(seen.ess_bulk)),
    }


def _kept_draws(q: Any) -> FloatArray | None:
    """Return a sampler's draws [chain, draw, K]; None for the other forms."""
    if isinstance(q, Chains):
        return q.kept
    if isinstance(q, GPChains):
        return q.draws.reshape(*q.draws.shape[:2], -1)
    return None


def make_witness(settings: BagSettings) -> DirectGP:
    """Return the Gaussian process of instances in its direct form."""
    return DirectGP(_options(settings))


def _options(settings: BagSettings) -> KernelOptions:
    return KernelOptions(
        kernel=settings.kernel,
        n_inducing=settings.n_inducing,
        standardise=settings.standardise,
        sample_seed=settings.seed,
        leak=settings.leak,
    )


def _make_gp(settings: BagSettings) -> GPModel:
    if settings.form == "direct":
        return make_witness(settings)
    return GibbsGP(
        replace(_options(settings), **ONE_VALUE),
        chains=settings.chains,
        warmup=settings.warmup,
        draws=settings.draws,
        thin=settings.thin,
    )


def _apply_gp(model: GPModel, q: Any, data: Bags | MultiLabelBags) -> list[Scores]:
    if isinstance(model, GibbsGP):
        found = predict_from_draws(q, data)
    else:
        found = predict_gp(model.posterior(q), data)
    return [
        Scores(p.bag_probability, (p.probability,), (p.score,), None, (p.bald,), p.bag_bald)
        for p in found
    ]


def _gp_coefficients(model: GPModel, q: Any) -> list[Coefficients]:
    """Return what the posterior of each class says; see `_class_coefficients`."""
    n_classes = q.w.shape[1] if isinstance(model, GibbsGP) else len(model.posterior(q).mean)
    found = [_class_coefficients(model, q, c) for c in range(n_classes)]
    if n_classes == 1:
        return found[0]
    return [replace(block, of_class=c) for c, blocks in enumerate(found) for block in blocks]


def _class_coefficients(model: GPModel, q: Any, c: int) -> list[Coefficients]:
    """Return the constant c0 + sqrt(v_c) w, linear weights, and the kernel value in use."""
    features, kernel = q.features, 0
    if isinstance(model, GibbsGP):
        draws = q.draws[:, :, c].reshape(-1, q.draws.shape[-1])
        mean, half = draws.mean(axis=0), (draws - draws.mean(axis=0)) / np.sqrt(len(draws))
    else:
        post = model.posterior(q)
        kernel = int(post.kernel[c])
        mean, half = post.mean[c], np.linalg.inv(post.factor[c])
    weights = features.weights[kernel]
    mean, half = mean * weights, half * weights
    sd = np.sqrt((half**2).sum(axis=0))
    blocks = [Coefficients("constant", None, features.offset + mean[-1:], sd[-1:])]
    if features.linear:
        blocks.append(Coefficients("linear", 0, *features.linear_weights(kernel, mean, half)))
    if features.rbf:
        for name, value in (
            ("length scale", features.lengths[features.which[kernel]]),
            ("amplitude", features.amplitude[kernel]),
        ):
            blocks.append(Coefficients(name, None, np.array([value]), np.zeros(1)))
    return blocks
