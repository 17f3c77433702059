"""What a score's report shows first: how its predictions spread, and some rows by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flows.experts.settings import ExpertSettings
from flows.report import plots
from flows.report.page import Grid, Section, Tile
from vbmodels.core.state import FloatArray, IntArray

MOST, FEW, ALL = 50, 5, 200
"""Rows of a list at most, and where fewer have what is listed; rows that are all in one list."""
UNSURE = 0.2, 0.8  # probabilities between which a row is worth a look
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
    likely, uncertain
        Rows with a label's probability above 0.5, of two labels; rows whose probability, of the
        predicted one, is within `UNSURE`.
    between
        Rows that are both.
    """

    counts: IntArray
    lists: Mapping[str, Picked]
    likely: int = 0
    uncertain: int = 0
    between: int = 0


@dataclass(frozen=True, kw_only=True)
class OfScore:
    """What a summary of a partition has of a score.

    Attributes
    ----------
    applied
        Whether an earlier fit was applied to these rows.
    predictions
        Those of the rows that it was applied to.
    """

    applied: bool = False
    predictions: Predictions | None = None


def predictions_of(rows: pa.Table) -> Predictions:
    """Pick rows of a partition's table: names, labels, then what is predicted."""
    columns = {name: rows[name].to_numpy() for name in rows.column_names[2:]}
    if "sd" in columns:
        return _of_numbers(rows, columns["predicted"], columns["sd"])
    if "predicted" in columns:
        return _of_classes(rows)
    name, probability = next(iter(columns.items()))
    orders = {
        f"Most probably {name.removeprefix(PROBABILITY)}": -probability,
        "Nearest to 0.5": np.abs(probability - 0.5),
    }
    text = [_chance(p) for p in probability.tolist()]
    unsure = (probability > UNSURE[0]) & (probability < UNSURE[1])
    return Predictions(
        _counts(probability), _lists(orders, rows, (text,)),
        int(np.sum(probability > 0.5)), int(np.sum(unsure)),
        int(np.sum(unsure & (probability > 0.5))),
    )  # fmt: skip


def _of_classes(rows: pa.Table) -> Predictions:
    chances = [name for name in rows.column_names if name.startswith(PROBABILITY)]
    most = np.max([rows[name].to_numpy() for name in chances], axis=0)
    columns = rows["predicted"].to_pylist(), [_chance(p) for p in most.tolist()]
    orders = {"Most certain": -most, "Least certain": most}
    lists = _lists(orders, rows, columns)
    return Predictions(_counts(most), lists, 0, int(np.sum(most < UNSURE[1])))


def _of_numbers(rows: pa.Table, predicted: FloatArray, sd: FloatArray) -> Predictions:
    columns = [[f"{v:.4g}" for v in values.tolist()] for values in (predicted, sd)]
    orders = {"Largest": -predicted, "Smallest": predicted}
    return Predictions(np.zeros(BINS, np.int64), _lists(orders, rows, columns))


def count_predictions(summaries: Sequence[Any], predicted: str = "") -> tuple[str, list[Tile]]:
    """Count a score's rows that probably have ``predicted``, of two labels, and uncertain ones."""
    parts = [one.predictions for one in summaries if one.predictions is not None]
    if not parts:
        return "", []
    rows, (low, high) = sum(one.rows for one in summaries), UNSURE
    likely, unsure = (sum(getattr(one, of) for one in parts) for of in ("likely", "uncertain"))
    between = f"probability {low} to {high}" if predicted else f"the predicted class below {high}"
    said = f"{unsure:,} {'is' if unsure == 1 else 'are'} uncertain ({between})"
    tiles = [Tile("uncertain", f"{unsure:,} of {rows:,}", f"{between}: look at these first")]
    tiles.append(Tile("all predictions", f"{rows:,} rows", "in {run}/rows"))
    if predicted:
        between = sum(one.between for one in parts)
        sure = likely - between
        said = (
            f"{sure:,} of {rows:,} rows probably have {predicted} (above {high}), "
            f"{rows - sure - unsure:,} do not (below {low}), {unsure:,} "
            f"{'is' if unsure == 1 else 'are'} uncertain"
        )
        note = f"{between:,} more of the uncertain {'is' if between == 1 else 'are'} above 0.5"
        tiles.insert(0, Tile(f"P({predicted}) above {high}", f"{sure:,} of {rows:,}", note))
    return said, tiles


def predictions_section(
    summaries: Sequence[Any], columns: Sequence[str], settings: ExpertSettings
) -> list[Section]:
    """Show the predictions of a score; there are none of a fit.

    ``columns`` are what is predicted; the last has a chart where it is a probability.
    """
    parts = [one.predictions for one in summaries if one.predictions is not None]
    if not parts:
        return []
    row_count = sum(one.rows for one in summaries)
    merged = {
        caption: [row for _, row in sorted(one for part in parts for one in part.lists[caption])]
        for caption in parts[0].lists
    }
    first, last = merged
    most = {first: sum(one.likely for one in parts), last: sum(one.uncertain for one in parts)}
    lists = {name: rows[: min(max(most[name], FEW), MOST)] for name, rows in merged.items()}
    known = any(row[1] for rows in lists.values() for row in rows)
    name, label = (settings.columns.get(own, own) for own in ("id", "label"))
    heads = (name, *([label] if known else []), *columns)
    grids, counts = [], np.sum([part.counts for part in parts], axis=0)
    if row_count <= FEW:
        lists = {first: lists[first]}
    elif row_count <= ALL and counts.any():
        lists = {"All rows": merged[first], last: lists[last]}
    # Of probabilities those to look at first are first.
    for caption, rows in list(lists.items())[:: -1 if counts.any() else 1]:
        shown = rows if known else [(row[0], *row[2:]) for row in rows]
        total, caption = max(most.get(caption, 0), len(rows)), f"{caption} ({len(rows):,})"
        grids.append(Grid(heads, shown, caption, total=total, where="the table rows"))
    charts = []
    if counts.any():
        what = columns[-1]
        charts.append(plots.split_histogram([("rows", counts)], what, "rows", f"Rows by {what}"))
    text = (
        f"All {row_count:,} rows are in the table rows: vbflows show {{run}} rows; its files are "
    )
    return [Section("Predictions", f"{text}in {{run}}/rows.", charts, grids)]


IN_RANGE = "no number is outside its column's range in the fit"
"""What a score says where it has no warnings: those outside would be one."""


def _lists(
    orders: Mapping[str, FloatArray], rows: pa.Table, columns: Sequence[Sequence[str]]
) -> dict[str, Picked]:
    """Return the first rows by each order: name, label, and what is predicted."""
    names, labels = rows["id"].to_pylist(), map(_text, rows["label"].to_pylist())
    every = list(zip(names, labels, *columns, strict=True))
    return {
        caption: tuple((float(by[i]), every[i]) for i in np.argsort(by, kind="stable")[:ALL])
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
