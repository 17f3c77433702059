"""The models of the bags pipeline behind one face: made, applied to bags, put into words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from flows.bags.settings import GIB, BagSettings
from vbmodels.bags.bags import UNLABELLED, Bags
from vbmodels.bags.embedding.model import Embedding, EmbeddingModel
from vbmodels.bags.embedding.number import NumberModel
from vbmodels.bags.embedding.predict import contributions, feature_weights, predict_bags
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.gibbs import Chains as GPChains
from vbmodels.bags.mil_gp.gibbs import GibbsGP, predict_from_draws
from vbmodels.bags.mil_gp.model import DirectGP
from vbmodels.bags.mil_gp.predict import predict as predict_gp
from vbmodels.bags.multilabel import MultiLabelBags
from vbmodels.bags.stack.modalities import parted
from vbmodels.bags.stack.model import MEMBERS, POOLED, AutoModel, present
from vbmodels.bags.stack.model import Auto as AutoState
from vbmodels.bags.stack.predict import left_out as left_out_of
from vbmodels.bags.stack.predict import predict_auto
from vbmodels.bags.vmmic.gibbs import Chains, GibbsVMMIC
from vbmodels.bags.vmmic.mean_field import MeanFieldVMMIC
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import predict
from vbmodels.bags.vmmic.priors import Priors
from vbmodels.core.draws import diagnose
from vbmodels.core.state import FloatArray

STACKED = ("auto", "embedding")
Stacked = AutoModel | EmbeddingModel
LEAST_WEIGHT = 0.1
"""Weight of a member from which what it says of instances is worth showing."""


@dataclass(frozen=True)
class Scores:
    """What a model says of bags: P(y = 1) [B]; of their instances, [N_k] for each modality.

    ``probability`` is None where a model gives only the contributions of instances. ``without`` is
    P(y = 1) of fitted bags, predicted without them, NaN for others, [B].
    """

    bags: FloatArray
    probability: tuple[FloatArray, ...] | None
    score: tuple[FloatArray, ...]
    contribution: tuple[FloatArray, ...] | None
    without: FloatArray | None = None


@dataclass(frozen=True)
class Coefficients:
    """The posterior of one block of coefficients on scaled features.

    ``modality`` is its number, None for the bags' own features; ``of_class`` that of the class,
    where there are several.
    """

    name: str
    modality: int | None
    mean: FloatArray
    sd: FloatArray
    of_class: int | None = None


def _without(model: Stacked, q: Any, data: Bags, local: Any) -> FloatArray:
    """Return P(y = 1) of the fitted bags, predicted without them, NaN for others, [B]."""
    out = np.full(data.n_bags, np.nan)
    known = np.flatnonzero(data.label != UNLABELLED)
    if isinstance(model, AutoModel):
        out[known] = left_out_of(q, data, local)
    else:
        chance = np.exp(model.left_out(q, data, local))
        out[known] = np.where(data.label[known] == 1, chance, 1.0 - chance)
    return out


def _scores_of(model: Stacked, q: Any, data: Bags) -> Scores:
    embedding: Embedding = _embedding(q)
    adds = contributions(embedding, data)
    if isinstance(model, EmbeddingModel):
        return Scores(predict_bags(embedding, data).probability, None, adds, adds)
    predicted = predict_auto(model, q, data)
    pooled = Scores(predicted.probability, None, adds, adds)
    if predicted.vmmic is not None and predicted.by_vmmic:
        vmmic = predicted.vmmic
        return replace(
            pooled,
            probability=vmmic.instances,
            score=vmmic.instances,
            contribution=vmmic.contributions,
        )
    if predicted.witness is None:
        return pooled
    return replace(
        pooled,
        probability=parted(data, predicted.witness.probability),
        score=parted(data, predicted.witness.score),
        contribution=adds if pooled_counts(q) else None,
    )


def _stacked_coefficients(model: Stacked | NumberModel, q: Any) -> list[Coefficients]:
    """Return the members' weights and the blocks' prior variances."""
    embedding = _embedding(q)
    blocks = []
    for m, name in enumerate(embedding.map.names()):
        variances = embedding.block_variance[embedding.map.block == m]
        value = variances[:1] if variances.size else np.zeros(1)
        blocks.append(Coefficients(f"prior variance of {name}", None, value, np.zeros(1)))
    if isinstance(model, AutoModel):
        blocks += [
            Coefficients(f"weight of {name}", None, np.array([value]), np.zeros(1))
            for name, value in weights_of(q).items()
        ]
    return blocks


def pooled_counts(q: Any) -> bool:
    """Whether pooled features weigh enough for what they add to matter."""
    return weights_of(q).get(POOLED, 1.0) >= LEAST_WEIGHT


def weights_of(q: Any) -> dict[str, float]:
    """Return the members' weights by name; none where there is one model only."""
    if not isinstance(q, AutoState):
        return {}
    named = zip(MEMBERS, q.weights.tolist(), strict=True)
    there = present(q)
    return {name: w for k, (name, w) in enumerate(named) if k in there}


def memory_needed(q: Any, settings: BagSettings) -> float | None:
    """Return what the process of instances would keep in memory, where it is left out for that."""
    if not isinstance(q, AutoState) or q.witness is not None or not settings.witness_memory:
        return None
    return float(q.needed)


def markers_of(q: Any) -> list[dict[str, FloatArray]]:
    """Return what an sd of each pooled feature adds, by pool and modality; none without them."""
    return feature_weights(_embedding(q)) if isinstance(q, AutoState | Embedding) else []


def _embedding(q: Any) -> Embedding:
    return q if isinstance(q, Embedding) else q.embedding


GPModel = DirectGP | GibbsGP
ONE_VALUE: dict[str, Any] = {"length_scales": (1.0,), "amplitudes": (3.0,)}
"""The kernel value of the sampler: length scale 1 in scaled features, the grid's middle."""


def make(settings: BagSettings) -> Any:
    """Return the model of the settings."""
    if settings.numeric:
        return NumberModel(sample_seed=settings.seed)
    if settings.model in STACKED:
        embedding = EmbeddingModel(sample_seed=settings.seed)
        if settings.model == "embedding":
            return embedding
        memory = int(settings.witness_memory * GIB)
        return AutoModel(embedding, DirectGP(_options(settings)), witness_memory=memory)
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
    if isinstance(model, Stacked):
        without = None if local is None else _without(model, q, data, local)
        return [replace(_scores_of(model, q, data), without=without)]
    if isinstance(model, GPModel):
        return _apply_gp(model, q, data)
    posterior = model.posterior(q)
    predicted = predict(posterior.draws(), posterior.scaling, data)
    return [
        Scores(predicted.bag, predicted.instances, predicted.instances, predicted.contributions)
    ]


def coefficients(model: Any, q: Any) -> list[Coefficients]:
    """Return the posterior of every global parameter, in blocks."""
    if isinstance(model, Stacked | NumberModel):
        return _stacked_coefficients(model, q)
    if isinstance(model, GPModel):
        return _gp_coefficients(model, q)
    posterior = model.posterior(q)
    layout = posterior.scaling.layout.plain
    mean, sd = posterior.moments()
    blocks: list[tuple[str, int | None, Any]] = [("bag intercept", None, slice(0, 1))]
    if layout.own:
        blocks.append(("bag feature", None, layout.own_slopes))
    for k in range(len(layout.features)):
        gate = layout.gates[k]
        blocks += [
            ("contribution", k, layout.slopes[k]),
            ("primary intercept", k, slice(gate.start, gate.start + 1)),
            ("primary", k, layout.gate_slopes[k]),
        ]
    return [Coefficients(name, k, mean[where], sd[where]) for name, k, where in blocks]


def trust(q: Any) -> dict[str, float]:
    """Return a sampler's diagnostics; nothing for the other forms."""
    if isinstance(q, Chains):
        draws = q.kept
    elif isinstance(q, GPChains):
        draws = q.draws.reshape(*q.draws.shape[:2], -1)
    else:
        return {}
    if draws.shape[1] < 4:
        return {}
    seen = diagnose(draws)
    return {
        "largest_r_hat": seen.largest_r_hat,
        "smallest_effective_draws": float(np.min(seen.ess_bulk)),
    }


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
        return DirectGP(_options(settings))
    return GibbsGP(
        replace(_options(settings), **ONE_VALUE),
        chains=settings.chains,
        warmup=settings.warmup,
        draws=settings.draws,
        thin=settings.thin,
    )


def _apply_gp(model: GPModel, q: Any, data: Bags | MultiLabelBags) -> list[Scores]:
    if isinstance(model, GibbsGP):
        predictions = predict_from_draws(q, data)
    else:
        predictions = predict_gp(model.posterior(q), data)
    return [Scores(p.bag_probability, (p.probability,), (p.score,), None) for p in predictions]


def _gp_coefficients(model: GPModel, q: Any) -> list[Coefficients]:
    """Return what the posterior of each class says; see `_class_coefficients`."""
    n_classes = q.w.shape[1] if isinstance(model, GibbsGP) else len(model.posterior(q).mean)
    by_class = [_class_coefficients(model, q, c) for c in range(n_classes)]
    if n_classes == 1:
        return by_class[0]
    return [replace(block, of_class=c) for c, blocks in enumerate(by_class) for block in blocks]


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
