"""Which features of a bag's foremost instances add to its score, by the member that weighs most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.bags.schema import MARKERS
from vbmodels.bags.bags import Bags
from vbmodels.bags.embedding.contributions import marker_contributions
from vbmodels.bags.embedding.model import Embedding
from vbmodels.bags.embedding.number import NumberEmbedding
from vbmodels.bags.stack.model import INSTANCES, POOLED, PRIMARY, Auto, AutoModel
from vbmodels.bags.stack.predict import by_vmmic, instance_effects
from vbmodels.core.state import FloatArray, IntArray

MOST_INSTANCES = 8
"""Instances of a bag, the foremost, whose features are written and shown."""
MOST_MARKERS = 3
"""Features of an instance that are written and shown."""

Effects = tuple[IntArray, FloatArray]  # features of instances, and what each adds; two of [n, R]
Explain = Callable[[Sequence[IntArray]], Sequence[Effects]]


def explained_by(q: Any) -> str:
    """Return the member whose scores are explained, "" where the model is none of these."""
    if isinstance(q, Embedding):
        return POOLED
    if not isinstance(q, Auto):
        return ""
    if q.weights[0] >= q.weights[1:3].max():
        return POOLED
    return PRIMARY if by_vmmic(q) else INSTANCES


def explainer(model: Any, q: Any, data: Bags) -> Explain | None:
    """Return what gives the features that add most to some instances' scores, if the model can."""
    member = explained_by(q)
    if not member:
        return None
    if member == POOLED:
        return partial(_by_pools, q if isinstance(q, Embedding) else q.embedding, data)
    return partial(_by_instances, model, q, data)


def _by_pools(q: Embedding, data: Bags, rows: Sequence[IntArray]) -> list[Effects]:
    found = marker_contributions(q, data, MOST_MARKERS)
    unit = q.scale if isinstance(q, NumberEmbedding) else 1.0
    return [(which[own], unit * adds[own]) for (which, adds), own in zip(found, rows, strict=True)]


def _by_instances(model: AutoModel, q: Auto, data: Bags, rows: Sequence[IntArray]) -> list[Effects]:
    out = []
    for adds in instance_effects(model, q, data, rows):
        which = np.argsort(-np.abs(adds), axis=1, kind="stable")[:, :MOST_MARKERS]
        out.append((which, np.take_along_axis(adds, which, axis=1)))
    return out


def foremost(instances: pa.Table) -> IntArray:
    """Return the rows of each bag's most probable instances, or of those that add most, in order.

    Rows of a bag are neighbours.
    """
    bag = instances["bag_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    chance = instances["probability"].fill_null(np.nan).to_numpy()
    ranked = np.where(np.isnan(chance), instances["score"].to_numpy(), chance)
    order = np.lexsort((-ranked, bag))
    place = np.arange(len(order)) - np.searchsorted(bag, bag, side="left")
    chosen: IntArray = order[place < MOST_INSTANCES]
    return chosen


def marker_table(
    instances: pa.Table, data: Bags, form: dict[str, Any], explain: Explain
) -> pa.Table:
    """Return what features of the foremost instances of each bag add, the largest first."""
    kind = _modality_of(instances, form)
    place = np.zeros(len(kind), np.int64)
    for k in range(len(data.modalities)):
        place[kind == k] = np.arange(np.count_nonzero(kind == k))
    chosen = foremost(instances)
    rows = [chosen[kind[chosen] == k] for k in range(len(data.modalities))]
    found = explain([place[own] for own in rows])
    tables = []
    for one, own, (which, adds) in zip(data.modalities, rows, found, strict=True):
        labels = pa.array(form["names"] or [str(d + 1) for d in range(one.n_features)], pa.string())
        values = np.take_along_axis(one.features[place[own]].astype(float), which, axis=1)
        of = instances.take(pa.array(np.repeat(own, which.shape[1])))
        columns = [
            *(of[name] for name in ("bag_id", "instance_id", "modality")),
            labels.take(pa.array(which.ravel())),
            pa.array(values.ravel()),
            pa.array(adds.ravel()),
        ]
        tables.append(pa.table(columns, schema=MARKERS.arrow))
    return pa.concat_tables(tables)


def feature_sums(
    instances: pa.Table, data: Bags, form: dict[str, Any]
) -> dict[str, FloatArray] | None:
    """Sum each modality's features over its probably primary instances and the others, [2, D + 1].

    The last column has their numbers; None where instances have no probability.
    """
    if instances["probability"].null_count:
        return None
    kind, likely = _modality_of(instances, form), instances["probability"].to_numpy() > 0.5
    found = {}
    for k, (name, one) in enumerate(zip(form["modalities"], data.modalities, strict=True)):
        sides = np.stack([likely[kind == k], ~likely[kind == k]]).astype(float)
        found[name] = np.column_stack([sides @ one.features, sides.sum(axis=1)])
    return found


def _modality_of(instances: pa.Table, form: dict[str, Any]) -> IntArray:
    names = pa.array(form["modalities"], pa.string())
    kind: IntArray = pc.index_in(instances["modality"].fill_null(""), names).to_numpy()
    return kind
