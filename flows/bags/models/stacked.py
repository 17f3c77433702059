"""The models auto and embedding of the bags pipeline: made, applied to bags, put into words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from flows.bags.models.tables import Coefficients, Scores
from flows.bags.settings import GIB, BagSettings
from vbmodels.bags.bags import UNLABELLED, Bags
from vbmodels.bags.embedding.contributions import contributions, feature_weights
from vbmodels.bags.embedding.model import Embedding, EmbeddingModel
from vbmodels.bags.embedding.number import NumberModel
from vbmodels.bags.embedding.predict import predict_bags
from vbmodels.bags.mil_gp.fit import DirectGP
from vbmodels.bags.stack.modalities import parted
from vbmodels.bags.stack.model import MEMBERS, POOLED, AutoModel, present
from vbmodels.bags.stack.model import Auto as AutoState
from vbmodels.bags.stack.predict import left_out as left_out_of
from vbmodels.bags.stack.predict import predict_auto
from vbmodels.core.state import FloatArray

MODELS = ("auto", "embedding")
Stacked = AutoModel | EmbeddingModel
LEAST = 0.1
"""Weight of a member from which what it says of instances is worth showing."""


def make(settings: BagSettings, witness: DirectGP) -> Stacked:
    """Return the model of the settings."""
    embedding = EmbeddingModel(sample_seed=settings.seed)
    if settings.model == "embedding":
        return embedding
    return AutoModel(embedding, witness, witness_memory=int(settings.witness_memory * GIB))


def apply(model: Stacked, q: Any, data: Bags, local: Any = None) -> Scores:
    """Predict bags and instances, and say what adds to the bags' scores.

    Names of blocks begin with the number of their modality where there are several.

    Parameters
    ----------
    model, q, data
        The model, its posterior, the bags.
    local
        What the fit left of these bags; None for new ones.
    """
    without = None if local is None else _without(model, q, data, local)
    return replace(_applied(model, q, data), without=without)


def _without(model: Stacked, q: Any, data: Bags, local: Any) -> FloatArray:
    """Return P(y = 1) of the fitted bags, predicted without them, NaN for others, [B]."""
    out = np.full(data.n_bags, np.nan)
    known = np.flatnonzero(data.label != UNLABELLED)
    if isinstance(model, AutoModel):
        out[known] = left_out_of(q, data, local)
    else:
        own = np.exp(model.left_out(q, data, local))
        out[known] = np.where(data.label[known] == 1, own, 1.0 - own)
    return out


def _applied(model: Stacked, q: Any, data: Bags) -> Scores:
    embedding: Embedding = _embedding(q)
    names = (*embedding.map.names(), "constant")
    adds = contributions(embedding, data)
    if isinstance(model, EmbeddingModel):
        said = predict_bags(embedding, data)
        return Scores(said.probability, None, adds, adds, reasons=said.shares, reason_names=names)
    found = predict_auto(model, q, data)
    of, shares, own = found.witness, found.embedding.shares, found.vmmic
    if own is not None and found.by_vmmic:
        return Scores(
            found.probability, own.instances, own.instances, own.contributions,
            reasons=shares, reason_names=names,
        )  # fmt: skip
    if of is None:
        return Scores(found.probability, None, adds, adds, reasons=shares, reason_names=names)
    own_adds = adds if pooled_counts(q) else None
    return Scores(
        found.probability, parted(data, of.probability), parted(data, of.score), own_adds,
        parted(data, of.bald), reasons=shares, reason_names=names,
    )  # fmt: skip


def coefficients(model: Stacked | NumberModel, q: Any) -> list[Coefficients]:
    """Return the members' weights and the blocks' prior variances."""
    embedding = _embedding(q)
    names = embedding.map.names()
    variances = prior_variances(embedding)
    found = [
        Coefficients(f"prior variance of {name}", None, np.array([value]), np.zeros(1))
        for name, value in zip(names, variances, strict=True)
    ]
    if isinstance(model, AutoModel):
        found += [
            Coefficients(f"weight of {name}", None, np.array([value]), np.zeros(1))
            for name, value in weights_of(q).items()
        ]
    return found


def pooled_counts(q: Any) -> bool:
    """Whether pooled features weigh enough for what they add to matter."""
    return weights_of(q).get(POOLED, 1.0) >= LEAST


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


def prior_variances(q: Embedding) -> list[float]:
    """Return the prior variance that each block gives the score."""
    block = q.map.block
    count = len(q.map.bases)
    return [float(q.block_variance[block == m][0]) if (block == m).any() else 0.0
            for m in range(count)]  # fmt: skip


def _embedding(q: Any) -> Embedding:
    return q if isinstance(q, Embedding) else q.embedding
