"""What the stack says of bags and instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.predict import BagScores, predict_bags
from vbmodels.bags.mil_gp.predict import Predictions, predict
from vbmodels.bags.stack.instance_view import as_witnessed
from vbmodels.bags.stack.modalities import parted
from vbmodels.bags.stack.model import MEMBERS, Auto, AutoModel, LeftOut, present, with_base
from vbmodels.bags.stack.primary import DRAWS
from vbmodels.bags.vmmic.posterior import Prediction
from vbmodels.bags.vmmic.posterior import predict as predict_primary
from vbmodels.core.state import FloatArray


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
    embedding = predict_bags(q.embedding, data, model.embedding.eps)
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
