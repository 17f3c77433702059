"""What the stack says of bags and instances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.predict import BagScores, predict_bags
from vbmodels.bags.mil_gp.predict import Predictions, feature_effects, predict
from vbmodels.bags.stack.modalities import as_witnessed, parted, table_rows
from vbmodels.bags.stack.model import MEMBERS, Auto, AutoModel, LeftOut, present, with_base
from vbmodels.bags.stack.primary import DRAWS
from vbmodels.bags.vmmic.posterior import Prediction
from vbmodels.bags.vmmic.posterior import predict as predict_primary
from vbmodels.core.state import FloatArray, IntArray


@dataclass(frozen=True)
class AutoScores:
    """What is said of bags.

    Attributes
    ----------
    probability
        P(y = 1) of the mixture, [B].
    members
        P(y = 1) of each of `MEMBERS`, [B, 4]; NaN where one is left out.
    embedding
        What the embedding says.
    witness
        What the witness says of bags and instances; those of several modalities are united. None
        where it was left out.
    vmmic
        What vMMIC says; None where it was left out.
    by_vmmic
        Whether instances have the probabilities of vMMIC rather than the witness's.
    """

    probability: FloatArray
    members: FloatArray
    embedding: BagScores
    witness: Predictions | None
    vmmic: Prediction | None
    by_vmmic: bool

    def instances(self, data: Bags) -> tuple[FloatArray, ...] | None:
        """Return P of every instance, [N_k] by modality; None where both members are left out."""
        if self.vmmic is not None and self.by_vmmic:
            return self.vmmic.instances
        return None if self.witness is None else parted(data, self.witness.probability)


def predict_auto(model: AutoModel, q: Auto, data: Bags) -> AutoScores:
    """Return what is said of bags and instances; labels are not read."""
    embedding = predict_bags(q.embedding, data)
    members = np.full((data.n_bags, len(MEMBERS)), np.nan)
    members[:, 0], members[:, 3] = embedding.probability, q.base
    witness = vmmic = None
    if q.witness is not None:
        seen = as_witnessed(q.embedding.map.modalities, data)
        (witness,) = predict(model.witness.posterior(q.witness), seen)
        members[:, 1] = witness.bag_probability
    if q.vmmic is not None:
        vmmic = predict_primary(q.vmmic.draws(DRAWS), q.vmmic.scaling, data)
        members[:, 2] = vmmic.bag
    there = present(q)
    chance = members[:, there] @ q.weights[there]
    return AutoScores(chance, members, embedding, witness, vmmic, by_vmmic(q))


def instance_effects(
    model: AutoModel, q: Auto, data: Bags, rows: Sequence[IntArray]
) -> list[FloatArray]:
    """Return what each feature adds to the score of some instances of each modality, [n_k, D_k].

    By the witness, to its latent mean, or where vMMIC has the larger weight to the probit score of
    being primary; both against the average instance.
    """
    maps, out = q.embedding.map.modalities, []
    if q.vmmic is not None and by_vmmic(q):
        mean, _ = q.vmmic.moments()
        scaling = q.vmmic.scaling
        for k, (one, own) in enumerate(zip(data.modalities, rows, strict=True)):
            z = (one.features[own] - scaling.means[k]) / scaling.scales[k]
            out.append(z * mean[scaling.layout.plain.gate_slopes[k]])
        return out
    if q.witness is None:
        raise ValueError("expected a member of instances, found none")
    posterior = model.witness.posterior(q.witness)
    starts = np.cumsum([0, *(of.mean.size for of in maps)])
    for k, (one, own) in enumerate(zip(data.modalities, rows, strict=True)):
        chosen = np.asarray(one.features[own], np.float64)
        if len(maps) == 1:
            out.append(feature_effects(posterior, chosen))
            continue
        effects = feature_effects(posterior, table_rows(maps, k, chosen))
        out.append(effects[:, starts[k] : starts[k + 1]])
    return out


def by_vmmic(q: Auto) -> bool:
    """Whether instances have vMMIC's probabilities: it has the larger weight of two members."""
    return q.vmmic is not None and bool(q.weights[2] > q.weights[1])


def left_out(q: Auto, data: Bags, local: LeftOut) -> FloatArray:
    """Return P(y = 1) of each labelled bag, predicted without it or its group, [n].

    The base rate is that of all: without the bag it would rank labels, the wrong way round.
    """
    label = data.labelled().label.astype(float)
    members = np.exp(with_base(local.members, label, q.base))
    own = members @ q.weights[present(q)]
    return np.where(label == 1.0, own, 1.0 - own)
