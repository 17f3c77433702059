"""What a score's report shows first: how its predictions spread, and some rows with reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.mixed import FLAG
from flows.data.mixed_rows import cells_of
from flows.experts.design import Design, rows_from
from flows.experts.encoding import Beyond, Encoding, count_beyond, outside
from flows.experts.ingest import ID, raw_of
from flows.experts.settings import ExpertSettings
from flows.experts.thresholds import SHOWN, called_by_thresholds, missed_at
from flows.experts.tiles import ALL, TOO_FEW
from flows.report import plots
from flows.report.labels import about_in_words
from flows.report.page import Findings, Grid, Section, Tile
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.experts.additive.knots import Basis
from vbmodels.experts.columns import Encoded
from vbmodels.experts.effects import ALIKE
from vbmodels.experts.moves import both_ways, log_odds, moves, without_each

MOST, FEW = 50, 5
"""Rows of a list at most, and where fewer have what is listed."""
UNSURE = 0.2, 0.8  # probabilities between which a row is worth a look
BORDER = 0.4  # from 0.5: these have reasons
NEAREST, UNCERTAIN, NOT_RELIABLE = "Nearest to 0.5", "uncertain", "not reliable"
REASONS, CALLED = "reasons", "What a threshold calls"
PROBABILITY = "probability_"
"""How the columns of probabilities begin."""
BINS = 40
"""Of the probabilities in the chart."""
NAMED, MOST_NAMED, LEAST, MOST_COLUMNS = 4, 8, 0.05, 300
"""Reasons of a row, and at most where the rest adds more than each; the least log odds of one; and
columns beyond which no row has any."""
HOW = (
    "Reasons: the values that move the row's log odds of {label} most, and by how much, compared "
    "with the column's mean or most frequent level, other columns equal, by the whole model. "
    "Start: a row with only such means and levels. A sum of 0 is a probability of 0.5, +1 of 0.73, "
    "+2 of 0.88."
)
BEYOND = "Numbers outside the fit's range"
OF_FIT = "thresholds", "test_rows", "fitted_share"
"""Results of a fit that the page of a score has."""
Picked = tuple[tuple[float, tuple[str, ...]], ...]
"""Rows with what they are sorted by, the smallest first."""


@dataclass(frozen=True)
class Reasons:
    """What explains rows of one partition.

    They are kept at ``url``; ``predict`` gives the probabilities of a batch, ``most`` is how many
    are explained.
    """

    url: str
    predict: Callable[[Any], FloatArray]
    encoding: Encoding
    design: Design
    basis: Basis | None
    most: int = 50

    @cached_property
    def table(self) -> pa.Table:
        """The rows, read once they are needed."""
        return storage.read_table(self.url)

    @cached_property
    def raw(self) -> FloatArray:
        """The rows' cells as the fit read them; [N, C]."""
        return raw_of(self.table, self.encoding.kinds)[0]

    def outside(self) -> list[bool]:
        """Say which rows have numbers outside the ranges of the fit; [N]."""
        far: list[list[bool]] = outside(self.raw, self.encoding).tolist()
        return [any(one) for one in far]

    def count(self, said: Sequence[str]) -> Beyond:
        """Count all rows with such numbers; ``said`` is what is predicted of each."""
        return count_beyond(self.raw, self.encoding, self.table[ID].to_pylist(), said)

    def why(self, picked: IntArray) -> list[str]:
        """Name the columns that move the log odds of rows [n] most; empty where nothing does."""
        columns = self.encoding.columns
        if not 0 < len(columns) <= len(self.design.columns) <= MOST_COLUMNS:
            return [""] * len(picked)
        rows = self.table.take(picked)
        raw, _ = raw_of(rows, self.encoding.kinds)
        usual = np.array([one.usual for one in columns])
        of = {name: k for k, group in enumerate(self.encoding.groups) for name in group}
        units: dict[int | str, list[int]] = {}
        for j, one in enumerate(columns):
            units.setdefault(of.get(one.name, one.name), []).append(j)
        every, found = list(units.values()), []
        for i, own in enumerate(raw):
            cells = np.vstack([without_each(own, usual, every), usual])
            p = self.predict(rows_from(cells, self.encoding, self.design, self.basis))
            moved, (odds, start) = moves(p[:-1]), log_odds(p[-2:]).round(1).tolist()
            for count in range(NAMED, MOST_NAMED + 1):
                most = both_ways(moved, count, LEAST)
                rest = odds - start - sum(moved[most].round(1))
                if abs(rest) <= 0.5 * max(abs(moved[most]), default=0.0):
                    break
            said = []
            for u in most:
                name, *more = (columns[j] for j in every[u])
                text = f"{name.name} {_cell(rows, name, i)}{f' and {len(more)} more' * bool(more)}"
                said.append(f"{text} ({moved[u]:+.1f})")
            others = len(every) - len(most)
            them = f"{others} other{'s together' * (others > 1)} {round(rest, 1) + 0.0:+.1f}, "
            start = round(start if others else start + rest, 1) + 0.0
            end = f"; {them * bool(others)}start {start:+.1f}: sum {odds + 0.0:+.1f}"
            found.append(", ".join(said) + end * bool(said))
        return found


def _cell(rows: pa.Table, one: Encoded, row: int) -> str:
    cell = cells_of(rows, one.name)[row].as_py()
    if one.kind == FLAG and isinstance(cell, float):
        return "yes" if cell else "no"
    return "missing" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)


@dataclass(frozen=True)
class Predictions:
    """What one partition of a score has.

    Attributes
    ----------
    counts
        Rows by probability; [BINS], all zero where a number is predicted.
    lists
        By caption, rows: name, what is predicted, label, reasons; empty without.
    likely, uncertain
        Rows with a label's probability above 0.5, of two labels; rows whose probability, of the
        predicted one, is within `UNSURE`.
    ends
        Rows above and below `UNSURE`; how many of those within the fit's ranges are otherwise by
        their probabilities; and how many are outside; [2, 3].
    called
        Rows of two labels whose probability is at least each of `thresholds.SHOWN`.
    fit
        Results of the fit, of `OF_FIT`; with the first partition.
    beyond
        Rows of two labels with numbers outside the fit's ranges.
    alike
        Columns that count as one in the reasons.
    """

    counts: IntArray
    lists: Mapping[str, Picked]
    likely: int = 0
    uncertain: int = 0
    ends: FloatArray | None = None
    called: IntArray | None = None
    fit: Mapping[str, Any] = field(default_factory=dict)
    beyond: Beyond | None = None
    alike: tuple[tuple[str, ...], ...] = ()


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


def predictions_of(rows: pa.Table, reasons: Reasons | None = None) -> Predictions:
    """Pick rows of a partition's table; ``reasons`` explain those of two labels."""
    columns = {name: rows[name].to_numpy() for name in rows.column_names[2:]}
    if "sd" in columns:
        return _of_numbers(rows, columns["predicted"], columns["sd"])
    if "predicted" in columns:
        return _of_classes(rows)
    assert reasons is not None
    name, probability = next(iter(columns.items()))
    other, label = reasons.encoding.labels[0], name.removeprefix(PROBABILITY)
    orders = {f"Most probably {label}": -probability, NEAREST: np.abs(probability - 0.5)}
    unsure = (probability > UNSURE[0]) & (probability < UNSURE[1])
    said = np.where(unsure, UNCERTAIN, np.where(probability > 0.5, label, other)).tolist()
    text = [chance(p) for p in probability.tolist()]
    far = np.array(reasons.outside(), bool)
    pairs = list(zip(said, text, far.tolist(), strict=True))
    marked = [NOT_RELIABLE if outside else one for one, _, outside in pairs]
    ends = (
        (1.0 - probability, probability >= UNSURE[1]), (probability, probability <= UNSURE[0])
    )  # fmt: skip
    return Predictions(
        _counts(probability), _lists(orders, rows, (text, marked), reasons),
        int(np.sum(probability > 0.5)), int(np.sum(unsure)),
        np.array([(own.sum(), wrong[own & ~far].sum(), far[own].sum()) for wrong, own in ends]),
        (probability[:, None] >= SHOWN).sum(0),
        beyond=reasons.count([f"{NOT_RELIABLE} (P {p})" for _, p, _ in pairs]),
        alike=tuple(tuple(group) for group in reasons.encoding.groups),
    )  # fmt: skip


def _of_classes(rows: pa.Table) -> Predictions:
    chances = [name for name in rows.column_names if name.startswith(PROBABILITY)]
    most = np.max([rows[name].to_numpy() for name in chances], axis=0)
    columns = rows["predicted"].to_pylist(), [chance(p) for p in most.tolist()]
    orders = {"Most certain": -most, "Least certain": most}
    lists = _lists(orders, rows, columns)
    return Predictions(_counts(most), lists, 0, int(np.sum(most < UNSURE[1])))


def _of_numbers(rows: pa.Table, predicted: FloatArray, sd: FloatArray) -> Predictions:
    columns = [[f"{v:.4g}" for v in values.tolist()] for values in (predicted, sd)]
    orders = {"Largest": -predicted, "Smallest": predicted}
    return Predictions(np.zeros(BINS, np.int64), _lists(orders, rows, columns))


def count_predictions(
    summaries: Sequence[Any], predicted: str = "", named: str = ""
) -> tuple[str, list[Tile]]:
    """Count a score's rows that "are probably" a label or "probably have" it, of two labels."""
    parts = [one.predictions for one in summaries if one.predictions is not None]
    if not parts:
        return "", []
    rows, (low, high) = sum(one.rows for one in summaries), UNSURE
    unsure = sum(one.uncertain for one in parts)
    between = f"probability {low} to {high}" if predicted else f"the predicted class below {high}"
    said = f"{unsure:,} {'is' if unsure == 1 else 'are'} uncertain ({between})"
    tiles = [Tile(UNCERTAIN, f"{unsure:,} of {rows:,}", f"{between}: decide these yourself")]
    if predicted:
        ends = np.sum([part.ends for part in parts], axis=0)
        (sure, far), (no, more) = ((int(own - out), int(out)) for own, _, out in ends)
        one, clear, far = sure == 1 and predicted.startswith("are "), sure + no, far + more
        said = (
            f"{sure:,} of {rows:,} rows {f'is{predicted[3:]}' if one else predicted} (above "
            f"{high}), {no:,} probably not (below {low})"
        )
        if clear:
            said += (
                f", {about_in_words(ends[:, 1].sum())} of these {clear:,} wrongly if the "
                "probabilities are right"
            )
        said += f"; {unsure:,} {'is' if unsure == 1 else 'are'} uncertain"
        if far:
            said += (
                f", {far:,} {'other is' if far == 1 else 'others are'} outside the fit's range "
                "and not to be relied on"
            )
        for k, (end, what) in enumerate(((f"above {high}", "1 - P"), (f"below {low}", "P"))):
            count, wrong, beyond = ends[k]
            note = (
                f"{about_in_words(wrong)} of them called wrong if the probabilities are right "
                f"(the sum of {what} is {wrong:.1f})"
            )
            if beyond:
                note += (
                    f"; {beyond:,.0f} more {'is' if beyond == 1 else 'are'} outside the fit's "
                    "range, not to be relied on"
                )
            value = f"{count - beyond:,.0f} of {rows:,}"
            within = ", within the fit's range" * bool(beyond)
            tiles.insert(2 * k, Tile(f"{named} {end}{within}", value, note))
    return said, tiles


def with_tested(found: Findings, fit: Mapping[str, Any]) -> Findings | None:
    """Say in a score that measures nothing that its fit was tested on few rows, if it was."""
    n = fit.get("test_rows", 0)
    if not 0 < n < TOO_FEW:
        return None
    text = f"No labels here; the fit was tested on {n:,} only, too few to check its probabilities"
    return replace(found, headline=f"{found.predicted}. {text}")


def rows_to_look_at(summaries: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Name the uncertain rows of a score that is shown, and those outside the fit's range."""
    parts = [one.predictions for one in summaries if one.predictions is not None]
    near = sorted(one for part in parts for one in part.lists.get(NEAREST, ()))
    far = [one for part in parts if part.beyond for one in part.beyond.some]
    unsure = [row[0] for _, row in near if row[2] == UNCERTAIN]
    return unsure, [*dict.fromkeys(row for row, *_ in far)]


def predictions_section(
    summaries: Sequence[Any], columns: Sequence[str], settings: ExpertSettings, predicted: str = ""
) -> list[Section]:
    """Show the predictions of a score; there are none of a fit.

    ``columns`` are what is predicted, ``predicted`` the likelier of two labels.
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
    if near := last == NEAREST and sum(v < BORDER for one in parts for v, _ in one.lists[last]):
        most[last] = max(most[last], near)
    lists = {name: rows[: min(max(most[name], FEW), MOST)] for name, rows in merged.items()}
    name, label = (settings.columns.get(own, own) for own in ("id", "label"))
    heads = (name, *columns, label, REASONS)
    counts = np.sum([part.counts for part in parts], axis=0)
    if row_count <= FEW:
        lists = {"All rows": merged[last if counts.any() else first]}
    elif row_count <= ALL and counts.any():
        lists = {"All rows": merged[first], last: lists[last]}
    sections: list[Section] = []
    # Of probabilities those to look at first are first.
    for title, rows in list(lists.items())[:: -1 if counts.any() else 1]:
        grid = with_content(heads, rows)
        how = HOW.format(label=predicted) if REASONS in grid.columns else ""
        if predicted and title == last:
            cut = f"A prediction is a label above {UNSURE[1]} or below {UNSURE[0]}; with another "
            how = f"{cut}threshold go by P. {how}"
        if how and parts[0].alike:
            groups = "; ".join(", ".join(group) for group in parts[0].alike)
            how += f" Columns that correlate above {ALIKE:g} count as one: {groups}."
        total = max(most.get(title, 0), len(rows))
        grid = replace(grid, total=total, where="the table rows")
        unsure = sum(one.uncertain for one in parts)
        heading = f"{title} ({len(rows):,})"
        if title == last == NEAREST and unsure:
            heading = f"Uncertain ({unsure:,})"
            heading += f", and the {near - unsure:,} next nearest to 0.5" * (near > unsure)
        sections.append(Section(heading, "", (), [grid], how=how))
    some = [one for part in parts if part.beyond for one in part.beyond.some]
    if some:
        grid = Grid((name, "column", "value", "range in the fit", "prediction"), some)
        sections.insert(1, Section(BEYOND, "", (), [grid]))
    if counts.any():
        what = next(one for one in columns if one.startswith("P("))
        far = sum(part.beyond.rows for part in parts if part.beyond)
        how = f"; the {far:,} outside the fit's range included" * (far > 0)
        chart = plots.split_histogram([("rows", counts)], what, "rows", f"Rows by {what}", how)
        sections[0] = replace(sections[0], plots=[chart])
    if predicted and parts[0].fit.get("thresholds"):
        called = np.sum([one.called for one in parts], axis=0)
        grid = called_by_thresholds(parts[0].fit["thresholds"], called, row_count, predicted)
        text = missed_at(parts[0].fit, UNSURE, predicted)
        sections.insert(1, Section(CALLED, text, (), [grid]))
    return sections


def with_content(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> Grid:
    """Return rows less the columns that say nothing, or of every row that it is uncertain."""
    cells = list(zip(*rows, strict=True))
    kept = [i for i, column in enumerate(cells) if {*column} - {"", UNCERTAIN}]
    return Grid([heads[i] for i in kept], [tuple(row[i] for i in kept) for row in rows])


IN_RANGE = "no number is outside its column's range in the fit"
"""What a score says where it has no warnings: those outside would be one."""


def _lists(
    orders: Mapping[str, FloatArray], rows: pa.Table, columns: Sequence[Sequence[str]],
    reasons: Reasons | None = None,
) -> dict[str, Picked]:  # fmt: skip
    """Return the first rows by each order; see `Predictions.lists`."""
    names, labels = rows["id"].to_pylist(), map(label_text, rows["label"].to_pylist())
    every = list(zip(names, *columns, labels, strict=True))
    found = {}
    for caption, by in orders.items():
        picked = np.argsort(by, kind="stable")[:ALL]
        why = [""] * len(picked)
        if reasons is not None:
            near = max(int(np.sum(by < BORDER)), FEW) if caption == NEAREST else 0
            some = picked[: min(near, reasons.most)]
            why = [*reasons.why(some), *why[len(some) :]]
        more = zip(picked.tolist(), why, strict=True)
        found[caption] = tuple((float(by[i]), (*every[i], own)) for i, own in more)
    return found


def label_text(label: Any) -> str:
    """Write a label, or nothing where there is none."""
    return "" if label is None else f"{label:.4g}" if isinstance(label, float) else str(label)


def _counts(probability: FloatArray) -> IntArray:
    return np.histogram(probability, BINS, (0.0, 1.0))[0]


def chance(p: float) -> str:
    """Write a probability."""
    ends = {"0.000": "< 0.001", "1.000": "> 0.999"}
    return ends.get(f"{p:.3f}", f"{p:.3f}")
