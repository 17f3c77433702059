"""What the bags report says where the label is a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.bags import stacked
from flows.bags.levels import with_levels
from flows.bags.model_report import feature_section
from flows.bags.numbers import SHOWN, NumberBaseline, NumberExample, NumberSummary
from flows.bags.settings import BagSettings
from flows.bags.tested import PREDICT, Which, in_words, size_tile, which_bags
from flows.report import plots
from flows.report.baselines import DRAWS, against, rival_in_words
from flows.report.labels import label
from flows.report.page import Findings, Grid, NextStep, Section, Tile
from vbmodels.bags.embedding.number import NumberEmbedding
from vbmodels.core.state import BoolArray, FloatArray, IntArray

BINS = 10
"""Bins of the predictions in the chart."""


@dataclass(frozen=True)
class TestedNumbers:
    """Bags whose number the fit did not see when it predicted them.

    ``base`` is the mean of the fitted bags, without the bag where it was fitted; ``tested`` and
    ``every`` say which of all bags these are, and the groups of all, [B]; ``grouped``: whether bags
    have any.
    """

    which: Which
    label: FloatArray
    predicted: FloatArray
    inside: FloatArray
    base: FloatArray
    group: IntArray
    tested: BoolArray
    every: IntArray
    grouped: bool

    @classmethod
    def of(cls, summaries: Sequence[NumberSummary]) -> TestedNumbers:
        """Choose new bags, else those held out, else the fitted ones, each without itself."""
        label, predicted, low, high, held = (
            np.concatenate([getattr(s, name) for s in summaries])
            for name in ("label", "predicted", "low", "high", "held_out")
        )
        group = np.concatenate([s.group for s in summaries])
        grouped = len(group) == len(label)
        group = group if grouped else np.arange(len(label))
        known, mean = ~np.isnan(label), summaries[0].mean
        base = np.full(label.size, mean)
        which = which_bags(summaries[0].new, bool(held.any()))
        tested = known & held if which == "held out" else known
        if which != "new" and np.unique(group).size == 1:
            tested = np.zeros(label.size, bool)
        if which == "without":
            n = int(known.sum())
            base = mean + (mean - label) / max(n - 1, 1)
        inside = ((label >= low) & (label <= high)).astype(float)
        return cls(
            which=which,
            label=label[tested],
            predicted=predicted[tested],
            inside=inside[tested],
            base=base[tested],
            group=group[tested],
            tested=tested,
            every=group,
            grouped=grouped,
        )

    @property
    def where(self) -> str:
        """Say on which bags."""
        return f"on {in_words(self.which, self.label.size, self.grouped)}"

    @property
    def drawn(self) -> str:
        """Say what the bootstrap draws."""
        return "groups of bags" if self.grouped else "bags"

    def figures(self, seed: int) -> dict[str, Any]:
        """Return RMSE and R2 with intervals by the bootstrap over groups, and the mean's."""
        if self.label.size < 2:
            return {}
        own, base = (self.label - self.predicted) ** 2, (self.label - self.base) ** 2
        _, of = np.unique(self.group, return_inverse=True)
        sums = np.array([np.bincount(of, v) for v in (own, base, np.ones(own.size))])
        drawn = np.random.default_rng(seed).integers(len(sums[0]), size=(DRAWS, len(sums[0])))
        errors, totals, counts = (one[drawn].sum(axis=1) for one in sums)
        ends = [0.025, 0.975]
        return {
            "tested": int(self.label.size),
            "rmse": float(np.sqrt(own.mean())),
            "rmse_interval": np.quantile(np.sqrt(errors / counts), ends).tolist(),
            "r2": 1.0 - float(own.sum()) / max(float(base.sum()), 1e-300),
            "r2_interval": np.quantile(1.0 - errors / np.maximum(totals, 1e-300), ends).tolist(),
            "mean_rmse": float(np.sqrt(base.mean())),
            "within_interval": float(self.inside.mean()),
        }


def number_report(
    summaries: Sequence[NumberSummary], q: NumberEmbedding, warnings: tuple[str, ...], name: str,
    settings: BagSettings,
) -> Findings:  # fmt: skip
    """Say what was found in all partitions; ``name`` is the column of the label."""
    if settings.label_order:
        name = f"{name} (1 to {len(settings.label_order)})"
    test = TestedNumbers.of(summaries)
    results = test.figures(settings.seed)
    examples = [e for s in summaries for e in s.examples]
    label = np.concatenate([s.label for s in summaries])
    baselines = [one for s in summaries for one in s.baselines]
    sections = _quality(test, results, name)
    compared, worse = _baselines(baselines, test, results)
    sections += compared
    places = _decimals(results.get("rmse", noise_sd(q)))
    sections += _bags(examples, settings.show_bags, name, places)
    modalities, features = summaries[0].modalities, summaries[0].features
    markers = [{pool: q.scale * one for pool, one in of.items()} for of in stacked.markers_of(q)]
    sections += feature_section(markers, modalities, features, name, places + 1)
    results.update(
        bags=int(label.size), labelled=int(np.sum(~np.isnan(label))),
        held_out=int(sum(s.held_out.sum() for s in summaries)),
        instances=sum(s.instances for s in summaries), noise_sd=noise_sd(q),
    )  # fmt: skip
    short = _in_short(test, results, examples, name)
    sections.insert(0, Section("In short", short, measures=True))
    headline = found = f"{label.size:,} bags have a predicted {name}"
    if "rmse" in results:
        low, high = results["r2_interval"]
        headline = (
            f"R2 {results['r2']:.3f} ({low:.3f} to {high:.3f}), RMSE {results['rmse']:.4g} "
            f"(of the mean {results['mean_rmse']:.4g}) {test.where}"
        )
        if not results["beats_mean"]:
            headline = (
                f"No better than the mean {test.where}: {headline.replace(f' {test.where}', '')}"
            )
    ordered = sorted(examples, key=lambda e: -e.predicted)
    top = [
        {
            "bag_id": e.bag_id,
            "predicted": float(f"{e.predicted:.5g}"),
            "instances": _listed(e, places),
        }
        for e in ordered[:20]
    ]
    findings = Findings(
        headline, sections, results, (*warnings, *worse), top, _tiles(results, test), _NEXT,
        predicted=found,
    )  # fmt: skip
    if not settings.label_order:
        return findings
    return with_levels(
        findings, summaries, settings.label_order, test.where, test.tested, test.every
    )


def noise_sd(q: NumberEmbedding) -> float:
    """Return the standard deviation of the noise, in the label's units."""
    return float(q.scale * np.sqrt(q.noise.rate / q.noise.shape))


_NEXT = (
    NextStep("See what instances add to their bags:", "vbflows show {run} instances --sort score"),
    PREDICT,
)


def _tiles(results: dict[str, Any], test: TestedNumbers) -> list[Tile]:
    tiles = []
    if "rmse" in results:
        first, last = (f"{end:.3f}" for end in results["r2_interval"])
        note = f"{first} to {last}; {in_words(test.which, test.label.size, test.grouped)}"
        tiles.append(Tile(label("r2"), f"{results['r2']:.3f}", note))
        low, high = results["rmse_interval"]
        note = f"{low:.4g} to {high:.4g}; {results['mean_rmse']:.4g} for the mean"
        tiles.append(Tile(label("rmse"), f"{results['rmse']:.4g}", note))
    if "baselines" in results:
        name, best = min(results["baselines"].items(), key=lambda one: one[1]["rmse"])
        tiles.append(against(name, "R2, model minus baseline", best["more"], *best["interval"]))
    return [*tiles, size_tile(results)]


def _in_short(
    test: TestedNumbers, results: dict[str, Any], examples: Sequence[NumberExample], name: str
) -> str:
    if "rmse" not in results:
        return "How well bags are predicted is not known."
    gain = 1.0 - results["rmse"] / results["mean_rmse"] if results["mean_rmse"] else 0.0
    line = (
        f"A new bag's {name} is predicted to within {results['rmse']:.4g} (root mean square), "
        f"{100.0 * gain:.0f} % less than by the mean ({results['mean_rmse']:.4g})."
    )
    if not results["beats_mean"]:
        line = (
            "Do not act on these predictions: they are no better than the mean. Label more bags, "
            f"or measure other features. {line}"
        )
    lines = [line]
    lines.append(
        f"{100.0 * results['within_interval']:.0f} % of {test.label.size:,} bags have their {name} "
        "within the predicted 95 % interval."
    )
    if test.which == "without":
        lines.append(
            "Predictions on this page are the column without_it of the table bags; its column "
            "predicted is by the fit that knows all labels."
        )
    wrong = [e for e in examples if e.label is not None and not e.low <= e.label <= e.high]
    wrong.sort(key=lambda e: (-abs((e.label or 0.0) - e.predicted), e.bag_id))
    if wrong:
        named = ", ".join(e.bag_id for e in wrong[:SHOWN])
        lines.append(f"Check by eye the bags that are farthest from their prediction: {named}.")
    return "\n".join(lines)


def _quality(test: TestedNumbers, results: dict[str, Any], name: str) -> list[Section]:
    if "rmse" not in results:
        return []
    results["beats_mean"] = results["r2_interval"][0] > 0.0
    text = (
        "R2 is the share of the mean's squared error that the model saves: 0 "
        f"is no better than the mean. Intervals are by the bootstrap over {test.drawn}."
    )
    rmse, r2 = results["rmse_interval"], results["r2_interval"]
    rows = [
        ("the model", f"{results['rmse']:.4g}", f"{rmse[0]:.4g} to {rmse[1]:.4g}",
         f"{results['r2']:.3f}", f"{r2[0]:.3f} to {r2[1]:.3f}"),
        ("the mean", f"{results['mean_rmse']:.4g}", "", "0", ""),
    ]  # fmt: skip
    columns = ("prediction", "RMSE", "RMSE, 95 % interval", "R2", "R2, 95 % interval")
    charts = (_agreement(test, name),)
    grids = (Grid(columns, rows),)
    return [Section("How well the numbers are predicted", text, charts, grids, measures=True)]


def _agreement(test: TestedNumbers, name: str) -> plots.Spec:
    """Plot means of the labels against those of the predictions, by bins of the latter."""
    edges = np.quantile(test.predicted, np.linspace(0.0, 1.0, BINS + 1)[1:-1])
    place = np.searchsorted(edges, test.predicted)
    weights = (np.ones(place.size), test.predicted, test.label, test.label**2)
    sums = np.array([np.bincount(place, w, BINS) for w in weights])
    count, at, mean, square = sums[:, sums[0] > 0]
    at, mean = at / count, mean / count
    error = np.sqrt(np.maximum(square / count - mean**2, 0.0) / count)
    return plots.agreement(
        at,
        mean,
        error,
        count,
        f"predicted {name}",
        f"mean {name}",
        f"True {name} against the predicted",
    )


def _baselines(
    baselines: Sequence[NumberBaseline], test: TestedNumbers, results: dict[str, Any]
) -> tuple[list[Section], tuple[str, ...]]:
    if not baselines:
        return [], ()
    results["baselines"] = {
        one.name: {"rmse": one.rmse, "more": one.more, "interval": [one.low, one.high]}
        for one in baselines
    }
    rows = [
        (one.name, f"{one.rmse:.4g}", f"{one.more:+.3f} ({one.low:+.3f} to {one.high:+.3f})")
        for one in baselines
    ]  # fmt: skip
    how = (
        "fitted without each of five folds of them"
        if test.which == "without"
        else "fitted to the same bags"
    )
    text = (
        f"{rival_in_words(baselines, 'R2')} On each bag's mean, maximum, minimum and spread of "
        f"every feature, {how}; compared on the same bags. The interval of the difference is by "
        f"the bootstrap over {test.drawn}."
    )
    columns = ("baseline", "RMSE", "R2, model minus baseline (95 %)")
    better = sorted((one for one in baselines if one.high < 0.0), key=lambda one: one.rmse)
    warnings = tuple(
        f"{one.name.capitalize()} on pooled features predicts these bags better: its RMSE is "
        f"{one.rmse:.4g}, the model's {results['rmse']:.4g}; for predictions alone use that one."
        for one in better[:1]
    )
    return [Section("Against simpler models", text, (), (Grid(columns, rows),))], warnings


def _bags(
    examples: Sequence[NumberExample], show: Sequence[str], name: str, places: int
) -> list[Section]:
    """Show the bags at the ends, the largest errors, and those requested; each opens."""
    ordered = sorted(examples, key=lambda e: (-e.predicted, e.bag_id))
    known = [e for e in examples if e.label is not None]
    wrong = sorted(known, key=lambda e: (-abs((e.label or 0.0) - e.predicted), e.bag_id))
    sorts = [
        ("Requested bags", [e for bag in show for e in examples if e.bag_id == bag]),
        (f"Largest predicted {name}", ordered[:SHOWN]),
        (f"Smallest predicted {name}", ordered[::-1][:SHOWN]),
        ("Farthest from their prediction", wrong[:SHOWN]),
    ]
    columns = ("bag", f"predicted {name}", "95 % interval", f"true {name}",
               "foremost instances and what they add")  # fmt: skip
    grids = [
        Grid(columns, [_row(e, places) for e in some], title, [_opened(e, places) for e in some])
        for title, some in sorts
        if some
    ]
    return [Section("Bags and their instances", "", (), grids, how="A bag opens to its instances.")]


def _decimals(rmse: float) -> int:
    """Return the decimals of predictions: two figures of their error.

    >>> _decimals(0.0571), _decimals(3.2), _decimals(480.0)
    (3, 1, 0)
    """
    return int(np.clip(1 - np.floor(np.log10(max(rmse, 1e-300))), 0, 12))


def _row(example: NumberExample, places: int) -> tuple[str, ...]:
    label = "not known" if example.label is None else f"{example.label:.6g}"
    low, high, predicted = (
        f"{value:,.{places}f}" for value in (example.low, example.high, example.predicted)
    )
    return example.bag_id, predicted, f"{low} to {high}", label, _listed(example, places)


def _listed(example: NumberExample, places: int) -> str:
    return ", ".join(
        f"{modality} {name} ({adds or 0.0:+,.{places}f})".strip()
        for name, modality, _, adds, _ in example.instances[:3]
    )


def _opened(example: NumberExample, places: int) -> Section:
    """Return what opens below a bag: its instances."""
    with_modality = any(one[1] for one in example.instances)
    columns = [
        "instance",
        *["modality"] * with_modality,
        "adds",
        "features that add most",
    ]
    rows = []
    for name, modality, _, adds, _ in example.instances:
        markers = ", ".join(
            f"{feature} {more:+,.{places + 1}f} ({value:.3g})"
            for feature, value, more in example.markers.get((name, modality), ())
        )
        added = f"{adds or 0.0:+,.{places}f}"
        rows.append([name, *[modality] * with_modality, added, markers])
    grid = Grid(columns, rows, f"{example.bag_id}: its instances")
    return Section("", "", (), (grid,))
