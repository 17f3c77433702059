"""Results of one partition of bags: the published tables of its rows, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows import storage
from flows.bags.answer import kind_of
from flows.bags.input import labels as bag_classes
from flows.bags.input.form import AboutBags, BagForm, read_about, read_form
from flows.bags.models import Scores, apply
from flows.bags.rows import MOST_INSTANCES, floats, rank_of
from flows.bags.schema import BAGS, INSTANCES, MARKERS, number_bags
from flows.bags.settings import BagSettings
from flows.bags.summary import Sampled, Summary, Tables, summarise
from flows.records.runs import RunPaths
from vbmodels.bags.bags import UNLABELLED, Bags
from vbmodels.bags.embedding.model import Embedding
from vbmodels.bags.embedding.number import (
    NumberEmbedding,
    NumberModel,
    Numbers,
    numbers_of,
    predict_numbers,
)
from vbmodels.bags.embedding.predict import contributions, marker_contributions
from vbmodels.bags.multilabel import MultiLabelBags, bags_of
from vbmodels.bags.stack.model import Auto, AutoModel
from vbmodels.bags.stack.predict import instance_effects
from vbmodels.core.state import FloatArray, IntArray

MOST_MARKERS = 3
"""Features of an instance that are written and shown."""
PICTURED = 100
"""Likely instances of a partition, and others, that a picture may show."""

Effects = tuple[IntArray, FloatArray]  # features of instances, and what each adds; two of [n, R]
Explain = Callable[[Sequence[IntArray]], Sequence[Effects]]


@dataclass(frozen=True)
class Part:
    """What ingest left of a partition, and the form of all partitions.

    ``rows`` and ``instance_rows`` are as in `flows.bags.input.instances.Read`.
    """

    rows: pa.Table
    instance_rows: pa.Table
    about: AboutBags
    form: BagForm

    @classmethod
    def read(cls, paths: RunPaths, index: int) -> Part:
        """Read those of a partition."""
        rows = storage.read_table(paths.part("bag_rows", index))
        instance_rows = storage.read_table(paths.part("instance_rows", index))
        return cls(rows, instance_rows, read_about(paths, index), read_form(paths))


def score(
    model: Any,
    q: Any,
    batch: Bags | MultiLabelBags,
    local: Any,
    index: int,
    settings: BagSettings,
    paths: RunPaths,
    is_new: bool,
) -> Summary:
    """Write what is predicted of a partition's bags and instances; return what it adds up to.

    ``is_new``: the posterior is of other bags, so that it has seen none of the labels.
    """
    part, data = Part.read(paths, index), bags_of(batch)
    held_out = pa.array(np.zeros(len(part.rows), bool)) if is_new else part.rows["held_out"]
    local, explain = None if is_new else local, explainer(model, q, data)
    sums = sample = None
    levels = settings.label_order if settings.numeric else part.form.classes
    if isinstance(model, NumberModel):
        tables = [_number_tables(model, q, data, local, part, held_out, explain, settings)]
    else:
        scores = apply(model, q, batch, local)
        tables = list(_class_tables(scores, part, held_out, data, explain))
        if explain is not None:
            sums = feature_sums(tables[0].instances, data, part.form)
            sample = sample_of(tables[0].instances, data)
    for name in ("bags", "instances", "markers"):
        of_classes = [getattr(table, name) for table in tables]
        if of_classes[0] is not None:
            storage.write_table(paths.table(name, index), pa.concat_tables(of_classes))
    kind = kind_of(settings, part.form)
    return summarise(kind, tables, is_new, settings.show_bags, levels, sums, sample)


def _number_tables(
    model: NumberModel,
    q: NumberEmbedding,
    data: Bags,
    local: Any,
    part: Part,
    held_out: Any,
    explain: Explain | None,
    settings: BagSettings,
) -> Tables:
    """Return the tables of a label that is a number, or a level of an order."""
    rows, order = part.rows, settings.label_order
    predicted, without = predict_numbers(q, data), _predict_without(model, q, data, local)
    adds = tuple(q.scale * of_modality for of_modality in contributions(q, data))
    scores = Scores(predicted.mean, None, adds, adds)
    levels: list[Any] = []
    if order:
        chances = predicted.level_chances(len(order))
        names_of = pa.array(order, pa.string())
        level = pa.array(floats(rows["number"]) - 1.0, from_pandas=True).cast(pa.int64())
        levels = [names_of.take(level), names_of.take(pa.array(chances.argmax(axis=1)))]
        levels += [*chances.T, *without.level_chances(len(order)).T]
    numbers = [predicted.mean, predicted.sd, predicted.low, predicted.high]
    unseen = [without.mean, without.low, without.high]
    columns = [rows["bag_id"], rows["number"], *map(pa.array, numbers), held_out]
    columns += [pa.array(values, from_pandas=True) for values in unseen]
    columns += [group_column(data), *(pa.array(values, from_pandas=True) for values in levels)]
    bags = pa.table(columns, schema=number_bags(order).arrow)
    return _tables(scores, part, bags, data, explain, is_number=True)


def _class_tables(
    by_class: Sequence[Scores], part: Part, held_out: Any, data: Bags, explain: Explain | None
) -> Iterator[Tables]:
    """Yield the tables of every class, or of the one problem that there is.

    Parameters
    ----------
    by_class
        What the model says, class by class.
    part
        The partition.
    held_out
        Whether each bag's label was kept from the fit.
    data, explain
        The bags, and what gives the features that add to instances' scores, if the model can.
    """
    rows, size, classes = part.rows, part.rows.num_rows, part.form.classes
    labels = bag_classes.matrix(rows["labels"].to_pylist(), classes)
    predicted = pa.nulls(size, pa.string())
    if part.form.exclusive:
        by_class, best = normalised(by_class)
        predicted = pa.array(classes, pa.string()).take(pa.array(best))
    for c, scores in enumerate(by_class):
        name, label = "", rows["label"]
        if classes:
            name = classes[c]
            label = pa.array(labels[:, c], pa.int8(), mask=labels[:, c] < 0)
        columns = [rows["bag_id"], label, pa.array(scores.bags), held_out]
        names = pa.array([name or None] * size, pa.string())
        without = np.full(size, np.nan) if scores.without is None else scores.without
        columns += [pa.array(without, from_pandas=True), names, predicted, rows["given"]]
        bags = pa.table([*columns, group_column(data)], schema=BAGS.arrow)
        yield _tables(scores, part, bags, data, explain, name)


def _tables(
    scores: Scores,
    part: Part,
    bags: pa.Table,
    data: Bags,
    explain: Explain | None,
    of_class: str = "",
    is_number: bool = False,
) -> Tables:
    """Return the tables of a class, of which that of bags is made."""
    instances = instance_table(scores, part, of_class or None)
    markers = None
    if explain is not None:
        markers = marker_table(instances, data, part.form, explain, is_number)
    return Tables(bags, instances, markers, part.instance_rows, of_class)


def group_column(data: Bags) -> pa.Array:
    """Return the number of each bag's group, null where no bags belong together."""
    return pa.array(data.group) if data.group.size else pa.nulls(data.n_bags, pa.int64())


def normalised(by_class: Sequence[Scores]) -> tuple[list[Scores], IntArray]:
    """Return scores whose bags' probabilities sum to one over classes, and the largest of each."""
    chance = np.column_stack([scores.bags for scores in by_class])
    chance = np.maximum(chance, np.finfo(float).tiny)
    chance = chance / chance.sum(axis=1, keepdims=True)
    parts = [replace(scores, bags=p) for scores, p in zip(by_class, chance.T, strict=True)]
    return parts, chance.argmax(axis=1)


def instance_table(scores: Scores, part: Part, name: str | None) -> pa.Table:
    """Put the modalities' instances back into one table, bag by bag."""
    every, rows = part.form.modalities, part.instance_rows
    places = {modality: k for k, modality in enumerate(every)}
    kind = np.array([places.get(m, -1) for m in part.about.sums])
    kind = kind[rows["modality"].to_numpy()]

    def gathered(columns: Sequence[np.ndarray]) -> pa.Array:
        values = np.empty(kind.size)
        for k, column in enumerate(columns):
            values[kind == k] = column
        return pa.array(values)

    names = pa.array([modality or None for modality in every], pa.string())
    probability, contribution = (
        pa.nulls(kind.size, pa.float64()) if columns is None else gathered(columns)
        for columns in (scores.probability, scores.contribution)
    )
    return pa.table(
        [
            part.rows["bag_id"].take(rows["bag"].combine_chunks()),
            rows["instance_id"],
            names.take(pa.array(kind)),
            probability,
            gathered(scores.score),
            contribution,
            pa.array([name] * kind.size, pa.string()),
        ],
        schema=INSTANCES.arrow,
    )


def _predict_without(model: NumberModel, q: NumberEmbedding, batch: Bags, local: Any) -> Numbers:
    """Return what is predicted of the fitted bags without them, NaN for others."""
    none = np.full(batch.n_bags, np.nan)
    if local is None:
        return Numbers(none, none, none, none, 1.0, none)
    known = np.flatnonzero(batch.label != UNLABELLED)
    left_out = numbers_of(q, model.left_out(q, batch, local), none)
    out = {name: none.copy() for name in ("mean", "sd", "low", "high")}
    for name, values in out.items():
        values[known] = getattr(left_out, name)
    return Numbers(**out, freedom=left_out.freedom, shares=none)


def explainer(model: Any, q: Any, data: Bags) -> Explain | None:
    """Return what gives the features that add most to some instances' scores, if the model can."""
    if isinstance(q, Embedding):
        return partial(_by_pools, q, data)
    if not isinstance(q, Auto):
        return None
    if q.weights[0] >= q.weights[1:3].max():
        return partial(_by_pools, q.embedding, data)
    return partial(_by_instances, model, q, data)


def _by_pools(q: Embedding, data: Bags, rows: Sequence[IntArray]) -> list[Effects]:
    by_modality = marker_contributions(q, data, MOST_MARKERS)
    unit = q.scale if isinstance(q, NumberEmbedding) else 1.0
    return [
        (which[chosen], unit * adds[chosen])
        for (which, adds), chosen in zip(by_modality, rows, strict=True)
    ]


def _by_instances(model: AutoModel, q: Auto, data: Bags, rows: Sequence[IntArray]) -> list[Effects]:
    out = []
    for adds in instance_effects(model, q, data, rows):
        which = np.argsort(-np.abs(adds), axis=1, kind="stable")[:, :MOST_MARKERS]
        out.append((which, np.take_along_axis(adds, which, axis=1)))
    return out


def foremost(instances: pa.Table, is_number: bool) -> IntArray:
    """Return the rows of each bag's foremost instances, in order; see `rank_of`.

    Rows of a bag are neighbours.
    """
    bag = instances["bag_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((-rank_of(instances, is_number), bag))
    position = np.arange(len(order)) - np.searchsorted(bag, bag, side="left")
    return np.asarray(order[position < MOST_INSTANCES])


def marker_table(
    instances: pa.Table, data: Bags, form: BagForm, explain: Explain, is_number: bool = False
) -> pa.Table:
    """Return what features of the foremost instances of each bag add, the largest first."""
    kind = _modality_of(instances, form)
    position = np.zeros(len(kind), np.int64)
    for k in range(len(data.modalities)):
        position[kind == k] = np.arange(np.count_nonzero(kind == k))
    chosen = foremost(instances, is_number)
    rows = [chosen[kind[chosen] == k] for k in range(len(data.modalities))]
    explained = explain([position[of_modality] for of_modality in rows])
    tables = []
    for modality, of_modality, (which, adds) in zip(data.modalities, rows, explained, strict=True):
        labels = pa.array(
            form.names or [str(d + 1) for d in range(modality.n_features)], pa.string()
        )
        values = np.take_along_axis(
            modality.features[position[of_modality]].astype(float), which, axis=1
        )
        repeated = instances.take(pa.array(np.repeat(of_modality, which.shape[1])))
        columns = [
            *(repeated[name] for name in ("bag_id", "instance_id", "modality")),
            labels.take(pa.array(which.ravel())),
            pa.array(values.ravel()),
            pa.array(adds.ravel()),
        ]
        tables.append(pa.table(columns, schema=MARKERS.arrow))
    return pa.concat_tables(tables)


def feature_sums(instances: pa.Table, data: Bags, form: BagForm) -> dict[str, FloatArray] | None:
    """Sum each modality's features over its probably primary instances and the others, [2, D + 1].

    The last column has their numbers; None where instances have no probability.
    """
    if instances["probability"].null_count:
        return None
    kind, likely = _modality_of(instances, form), instances["probability"].to_numpy() > 0.5
    sums = {}
    for k, (name, modality) in enumerate(zip(form.modalities, data.modalities, strict=True)):
        sides = np.stack([likely[kind == k], ~likely[kind == k]]).astype(float)
        sums[name] = np.column_stack([sides @ modality.features, sides.sum(axis=1)])
    return sums


def sample_of(instances: pa.Table, data: Bags) -> Sampled | None:
    """Return as many likely instances as others, `PICTURED` at most; None where it is not known."""
    chance = instances["probability"].to_numpy()
    if len(data.modalities) > 1 or np.isnan(chance).any():
        return None
    sides = [np.flatnonzero((chance > 0.5) == side) for side in (True, False)]
    sampled = np.concatenate([side[:: len(side) // PICTURED + 1] for side in sides])
    shown = instances.take(pa.array(sampled))
    names = pc.binary_join_element_wise(shown["bag_id"], shown["instance_id"], ", ").to_numpy()
    return {
        "name": names,
        "features": data.modalities[0].features[sampled],
        "chance": chance[sampled],
    }


def _modality_of(instances: pa.Table, form: BagForm) -> IntArray:
    names = pa.array(form.modalities, pa.string())
    return np.asarray(pc.index_in(instances["modality"].fill_null(""), names).to_numpy())
