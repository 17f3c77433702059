"""What the stack says of bags and instances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.predict import BagScores, predict_bags
from vbmodels.bags.mil_gp.predict import Predictions, predict
from vbmodels.bags.stack.instance_view import as_witnessed
from vbmodels.bags.stack.model import Auto, AutoModel, LeftOut, present, with_base
from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class AutoScores:
    """What is said of bags.

    Attributes
    ----------
    probability
        P(y = 1) of the mixture, [B].
    members
        P(y = 1) of each of `MEMBERS`, [B, 3].
    embedding
        What the embedding says.
    witness
        What the witness says of bags and instances; those of several modalities are united. None
        where it was left out: its column of ``members`` is NaN then.
    """

    probability: FloatArray
    members: FloatArray
    embedding: BagScores
    witness: Predictions | None


def predict_auto(model: AutoModel, q: Auto, data: Bags) -> AutoScores:
    """Return what is said of bags and instances; labels are not read."""
    embedding = predict_bags(q.embedding, data, model.embedding.eps)
    base = np.full(data.n_bags, q.base)
    if q.witness is None:
        members = np.column_stack([embedding.probability, np.full(data.n_bags, np.nan), base])
        return AutoScores(members[:, [0, 2]] @ q.weights[[0, 2]], members, embedding, None)
    seen = as_witnessed(q.embedding.map.modalities, data)
    (witness,) = predict(model.witness.posterior(q.witness), seen)
    members = np.column_stack([embedding.probability, witness.bag_probability, base])
    return AutoScores(members @ q.weights, members, embedding, witness)


def left_out(q: Auto, data: Bags, local: LeftOut) -> FloatArray:
    """Return P(y = 1) of each labelled bag, predicted without it or its group, [n].

    The base rate is that of all: without the bag it would rank labels, the wrong way round.
    """
    label = data.labelled().label.astype(float)
    members = np.exp(with_base(local.log_p, label, q.base))
    own = members @ q.weights[present(q)]
    return np.where(label == 1.0, own, 1.0 - own)
