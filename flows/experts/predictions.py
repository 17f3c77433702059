"""What a score's report shows first: how its predictions spread, and some rows by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flows.experts.settings import ExpertSettings
from flows.experts.tiles import OfFit
from flows.report import plots
from flows.report.page import Grid, Section
from vbmodels.core.state import FloatArray, IntArray

MOST, FEW = 12, 5
"""Rows of the first list, and of every other."""
PROBABILITY = "probability_"
"""How the columns of probabilities begin."""
BINS = 40
"""Of the probabilities in the chart."""
Picked = tuple[tuple[float, tuple[str, ...]], ...]
"""Rows with what they are sorted by, the smallest first."""


@dataclass(frozen=True)
class Predictions:
    """What one partition of a score has.

    Attributes
    ----------
    counts
        Rows by probability; [BINS], all zero where a number is predicted.
    lists
        By caption, rows: name, label (empty without), and what is predicted.
    """

    counts: IntArray
    lists: Mapping[str, Picked]


@dataclass(frozen=True, kw_only=True)
class OfScore:
    """What a summary of a partition has of a score.

    Attributes
    ----------
    applied
        Whether an earlier fit was applied to these rows.
    fit
        How good that was on its own rows; with the first partition.
    predictions
        Those of the rows that it was applied to.
    """

    applied: bool = False
    fit: OfFit | None = None
    predictions: Predictions | None = None


def predictions_of(rows: pa.Table) -> Predictions:
    """Pick rows of a partition's table: names, labels, then what is predicted."""
    columns = {name: rows[name].to_numpy() for name in rows.column_names[2:]}
    if "sd" in columns:
        return _of_numbers(rows, columns["predicted"], columns["sd"])
    if "predicted" in columns:
        return _of_classes(rows)
    name, probability = next(iter(columns.items()))
    label = name.removeprefix(PROBABILITY)
    orders = {
        f"Most probably {label}": -probability,
        "Nearest to 0.5": np.abs(probability - 0.5),
        f"Least probably {label}": probability,
    }
    text = [_chance(p) for p in probability.tolist()]
    return Predictions(_counts(probability), _lists(orders, rows, (text,)))


def _of_classes(rows: pa.Table) -> Predictions:
    chances = [name for name in rows.column_names if name.startswith(PROBABILITY)]
    most = np.max([rows[name].to_numpy() for name in chances], axis=0)
    columns = rows["predicted"].to_pylist(), [_chance(p) for p in most.tolist()]
    orders = {"Most certain": -most, "Least certain": most}
    return Predictions(_counts(most), _lists(orders, rows, columns))


def _of_numbers(rows: pa.Table, predicted: FloatArray, sd: FloatArray) -> Predictions:
    columns = [[f"{v:.4g}" for v in values.tolist()] for values in (predicted, sd)]
    orders = {"Largest": -predicted, "Smallest": predicted}
    return Predictions(np.zeros(BINS, np.int64), _lists(orders, rows, columns))


def predictions_section(
    summaries: Sequence[Any], columns: Sequence[str], settings: ExpertSettings
) -> list[Section]:
    """Show the predictions of a score; there are none of a fit.

    Parameters
    ----------
    summaries
        Those of every partition.
    columns
        What is predicted; the last has a chart where it is a probability.
    settings
        The settings.
    """
    parts = [one.predictions for one in summaries if one.predictions is not None]
    if not parts:
        return []
    row_count = sum(one.rows for one in summaries)
    merged = {
        caption: sorted(one for part in parts for one in part.lists[caption])
        for caption in parts[0].lists
    }
    lists = {
        caption: [row for _, row in rows[: FEW if i else MOST]]
        for i, (caption, rows) in enumerate(merged.items())
    }
    known = any(row[1] for rows in lists.values() for row in rows)
    name, label = (settings.columns.get(own, own) for own in ("id", "label"))
    heads = (name, *([label] if known else []), *columns)
    if row_count <= MOST:
        lists = dict([next(iter(lists.items()))])
    grids = []
    for caption, rows in lists.items():
        shown = rows if known else [(row[0], *row[2:]) for row in rows]
        grids.append(Grid(heads, shown, f"{caption} ({len(rows)})"))
    counts = np.sum([part.counts for part in parts], axis=0)
    charts = []
    if counts.any():
        centres, what = (np.arange(BINS) + 0.5) / BINS, columns[-1]
        title = f"Rows by {what}"
        charts.append(plots.histogram(centres, what, "rows", title, BINS, counts))
    text = "" if row_count <= MOST else f"The table rows has all {row_count:,}."
    return [Section("Predictions", text, charts, grids)]


def _lists(
    orders: Mapping[str, FloatArray], rows: pa.Table, columns: Sequence[Sequence[str]]
) -> dict[str, Picked]:
    """Return the first rows by each order: name, label, and what is predicted."""
    names, labels = rows["id"].to_pylist(), map(_text, rows["label"].to_pylist())
    every = list(zip(names, labels, *columns, strict=True))
    return {
        caption: tuple((float(by[i]), every[i]) for i in np.argsort(by, kind="stable")[:MOST])
        for caption, by in orders.items()
    }


def _text(label: Any) -> str:
    if isinstance(label, float):
        return f"{label:.4g}"
    return "" if label is None else str(label)


def _counts(probability: FloatArray) -> IntArray:
    return np.histogram(probability, BINS, (0.0, 1.0))[0]


def _chance(p: float) -> str:
    ends = {"0.000": "< 0.001", "1.000": "> 0.999"}
    return ends.get(f"{p:.3f}", f"{p:.3f}")
