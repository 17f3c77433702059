"""Bags whose label is a number, or a level of an order: what is predicted of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flows import storage
from flows.bags.input.form import form_url, read_about, read_form
from flows.bags.models.markers import explainer, marker_table
from flows.bags.models.tables import Scores, group_column, instance_table, reasons_table
from flows.bags.rows import Kind
from flows.bags.schema import number_bags
from flows.bags.settings import BagSettings
from flows.bags.summary import Summary, Tables, summarise
from flows.records.runs import RunPaths
from vbmodels.bags.bags import UNLABELLED, Bags
from vbmodels.bags.embedding.contributions import contributions
from vbmodels.bags.embedding.number import (
    NumberEmbedding,
    NumberModel,
    Numbers,
    numbers_of,
    predict_numbers,
)


def score(
    model: NumberModel, q: NumberEmbedding, batch: Bags, local: Any, index: int, *,
    settings: BagSettings, paths: RunPaths, new: bool,
) -> Summary:  # fmt: skip
    """Write the number that is predicted of every bag, and what instances add to it."""
    form, about = read_form(form_url(paths)), read_about(paths, index)
    rows = storage.read_table(paths.part("bag_rows", index))
    instance_rows = storage.read_table(paths.part("instance_rows", index))
    found = predict_numbers(q, batch)
    without = _without(model, q, batch, None if new else local)
    adds = tuple(q.scale * one for one in contributions(q, batch))
    names = (*q.map.names(), "mean and constant")
    shares = found.shares.copy()
    shares[:, -1] += q.centre
    scores = Scores(found.mean, None, adds, adds, reasons=shares, reason_names=names)
    held = pa.array(np.zeros(len(rows), bool)) if new else rows["held_out"]
    order, label = settings.label_order, rows["number"].fill_null(np.nan).to_numpy()
    levels: list[Any] = []
    if order:
        chances = found.level_chances(len(order))
        names_of = pa.array(order, pa.string())
        place = pa.array(label - 1.0, from_pandas=True).cast(pa.int64())
        levels = [names_of.take(place), names_of.take(pa.array(chances.argmax(axis=1)))]
        levels += [*chances.T, *without.level_chances(len(order)).T]
    bags = pa.table(
        [
            rows["bag_id"], rows["number"], *map(pa.array, (found.mean, found.sd)),
            *map(pa.array, (found.low, found.high)), held,
            *(pa.array(one, from_pandas=True) for one in (without.mean, without.low, without.high)),
            group_column(batch), *(pa.array(one, from_pandas=True) for one in levels),
        ],
        schema=number_bags(order).arrow,
    )  # fmt: skip
    instances = instance_table(scores, instance_rows, rows["bag_id"], about, form, None)
    reasons = reasons_table(scores, rows["bag_id"], form["modalities"])
    explain = explainer(model, q, batch)
    assert explain is not None
    assert reasons is not None
    markers = marker_table(instances, batch, form, explain)
    for name, table in (
        ("bags", bags), ("instances", instances), ("reasons", reasons), ("markers", markers),
    ):  # fmt: skip
        storage.write_table(paths.table(name, index), table)
    tables = Tables(bags, instances, markers, instance_rows)
    kind: Kind = "levels" if order else "number"
    return summarise(kind, [tables], new, settings.show_bags, order)


def _without(model: NumberModel, q: NumberEmbedding, batch: Bags, local: Any) -> Numbers:
    """Return what is predicted of the fitted bags without them, NaN for others."""
    none = np.full(batch.n_bags, np.nan)
    if local is None:
        return Numbers(none, none, none, none, 1.0, none)
    known = np.flatnonzero(batch.label != UNLABELLED)
    found = numbers_of(q, model.left_out(q, batch, local), none)
    out = {name: none.copy() for name in ("mean", "sd", "low", "high")}
    for name, one in out.items():
        one[known] = getattr(found, name)
    return Numbers(**out, freedom=found.freedom, shares=none)
