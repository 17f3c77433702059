"""What the experts report says of a label that is a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from flows.experts.effect_report import (
    MOST_EFFECTS,
    MOST_PAIRS,
    effect_charts,
    moved_by,
    pair_charts,
    pairs_of,
    strength_charts,
    strongest,
)
from flows.experts.encoding import Encoding, Target
from flows.experts.numbers import NumberBaseline, NumberSummary
from flows.experts.report import table_sections
from flows.experts.settings import ExpertSettings
from flows.experts.tiles import NEXT_STEPS
from flows.report import plots
from flows.report.labels import AGAINST, label
from flows.report.page import Findings, Grid, Section, Tile
from vbmodels.core.state import FloatArray

_FORMS = {
    "intercept": "the mean",
    "lines": "a line for each column",
    "curves": "a curve for each column",
}


def number_report(summaries: Sequence[NumberSummary], settings: ExpertSettings) -> Findings:
    """Say what was found in all partitions."""
    first = next(s for s in summaries if s.encoding is not None)
    encoding, chosen = first.encoding, first.chosen
    assert encoding is not None
    assert encoding.target is not None
    assert chosen is not None
    label = settings.columns.get("label", "label")
    rows = sum(s.rows for s in summaries)
    held_out = np.sum([s.held_out for s in summaries], axis=0)
    results: dict[str, Any] = {
        "form": chosen.form, "pairs": len(first.pairs), "pairs_weight": chosen.pairs_weight,
        "mean": encoding.target.mean, "sd": encoding.target.sd,
    }  # fmt: skip
    quality = _quality(held_out, summaries, encoding, results)
    if encoding.target.count:
        quality = _deviance(np.sum([s.deviance for s in summaries], axis=0), results, quality)
    baselines = [one for s in summaries for one in s.baselines]
    compared = _baselines(baselines, summaries, encoding.target, results)
    sections = [*_effects(first, label, encoding.target, results), *quality, *compared]
    sections += table_sections([encoding], results)
    better = sorted((one for one in baselines if one.high < 0.0), key=lambda one: -one.r2)
    warnings = tuple(
        f"On the rows held out {one.name} {_verb(one)} better: {_named(results)} {one.r2:.3f}, "
        f"RMSE {one.rmse * encoding.target.sd:.4g}. For predictions alone use that one."
        for one in better[:1]
    )
    top = [{"column": one.column, "sd of its effect": one.spread} for one in first.effects[:10]]
    headline = _headline(first, label, rows, results)
    return Findings(
        headline, sections, results, warnings, top, _tiles(results, baselines), NEXT_STEPS
    )


def _headline(first: NumberSummary, label: str, rows: int, results: dict[str, Any]) -> str:
    """State how good the predictions are, against what, and what they are made of."""
    form = _FORMS[results["form"]]
    if first.pairs:
        form = f"a curve for each column and {pairs_of(len(first.pairs))}"
    if results["form"] == "intercept" and not first.pairs:
        form = "no column predicts it: every row gets the mean"
    if "r2" not in results:
        return f"{label} on {rows:,} rows, by {form}; no row was held out to say how well"
    value, (low, high) = _main(results)
    said = f"{_named(results)} {value:.3f} ({low:.3f} to {high:.3f}) for {label}"
    others = [
        f"{name} {one['r2']:.3f}"
        for name, one in results.get("baselines", {}).items()
        if name != "the mean"
    ]
    said += f" on {results['test_rows']:,} held-out rows"
    said += f" ({', '.join(others)})" if others else ""
    said += f"; {form}"
    return f"{said}. {moved_by(first.effects, first.pairs)}".rstrip()


def _main(results: dict[str, Any]) -> tuple[float, list[float]]:
    """Return the share that is explained, of a count's deviance or a number's variance."""
    if "deviance_explained" in results:
        return results["deviance_explained"], results["deviance_explained_interval"]
    return results["r2"], results["r2_interval"]


def _named(results: dict[str, Any]) -> str:
    return label("deviance_explained" if "deviance_explained" in results else "r2")


def _verb(one: NumberBaseline) -> str:
    return "predict" if one.name.endswith("trees") else "predicts"


def _tiles(results: dict[str, Any], baselines: Sequence[NumberBaseline]) -> list[Tile]:
    if "r2" not in results:
        return [Tile(label("r2"), "not known", "no row with a label was kept from the fit")]
    value, (low, high) = _main(results)
    tiles = [
        Tile(_named(results), f"{value:.3f}", f"{low:.3f} to {high:.3f}, rows not fitted"),
        Tile(label("rmse"), f"{results['rmse']:.4g}", f"{results['mean_rmse']:.4g} by the mean"),
    ]
    rest = [one for one in baselines if one.name != "the mean"]
    if rest:
        best = max(rest, key=lambda one: one.r2)
        note = f"its {_named(results)} on the same rows"
        tiles.append(Tile(f"{AGAINST}{best.name}", f"{best.r2:.3f}", note))
    return tiles


def _deviance(sums: FloatArray, results: dict[str, Any], quality: list[Section]) -> list[Section]:
    """Say how much of a count's deviance is explained, before what is said of a number."""
    if not quality:
        return []
    n = results["test_rows"]
    mean, base = sums[0] / n, max(sums[2] / n, 1e-300)
    half = 1.96 * sqrt(max(sums[1] / n - mean**2, 0.0) / n)
    results.update(
        deviance=mean, mean_deviance=base, deviance_explained=1.0 - mean / base,
        deviance_explained_interval=[1.0 - (mean + half) / base, 1.0 - (mean - half) / base],
    )  # fmt: skip
    low, high = results["deviance_explained_interval"]
    text = (
        f"The Poisson deviance of a row is {mean:.4g}, and {base:.4g} by the mean of the fit: "
        f"{1.0 - mean / base:.3f} of it is explained ({low:.3f} to {high:.3f}). "
        f"{quality[0].text}"
    )
    return [replace(quality[0], text=text), *quality[1:]]


def _quality(
    held_out: FloatArray, summaries: Sequence[NumberSummary], encoding: Encoding,
    results: dict[str, Any],
) -> list[Section]:  # fmt: skip
    n, total, square, error, fourth, inside = held_out.tolist()
    if n < 2:
        return []
    assert encoding.target is not None
    sd = encoding.target.sd
    variance, mse = max(square / n - (total / n) ** 2, 1e-300), error / n
    half = 1.96 * sqrt(max(fourth / n - mse**2, 0.0) / n)
    ends = mse + half, max(mse - half, 0.0)
    r2 = [1.0 - one / variance for one in (mse, *ends)]
    results.update(
        test_rows=int(n), r2=r2[0], r2_interval=r2[1:], rmse=sd * sqrt(mse),
        rmse_interval=[sd * sqrt(one) for one in ends[::-1]], mean_rmse=sd * sqrt(square / n),
        within_interval=inside / n,
    )  # fmt: skip
    low, high = results["rmse_interval"]
    base = 1.0 - square / n / variance
    rows = [
        ("this fit", f"{results['rmse']:.5g}", f"{low:.5g} to {high:.5g}", f"{r2[0]:.3f}",
         f"{r2[1]:.3f} to {r2[2]:.3f}"),
        ("the mean of the fit", f"{results['mean_rmse']:.5g}", "", f"{base:.3f}",
         ""),
    ]  # fmt: skip
    text = (
        f"On {n:,.0f} rows held out of the fit. {100.0 * inside / n:.0f} % of them are within "
        "their predicted 95 % interval. The chart has the mean of the numbers against the mean "
        "prediction, by bin of the prediction; they should agree."
    )
    columns = ("model", "RMSE", "95 % interval", "R2", "95 % interval")
    return [
        Section("How good it is", text, (_agreement(summaries, encoding),), (Grid(columns, rows),))
    ]


def _agreement(summaries: Sequence[NumberSummary], encoding: Encoding) -> plots.Spec:
    assert encoding.target is not None
    mean, sd = encoding.target.mean, encoding.target.sd
    counts, at, y, square = np.sum([s.bins for s in summaries], axis=0)
    some = counts > 0
    counts, at, y, square = counts[some], at[some], y[some], square[some]
    centre = y / counts
    error = np.sqrt(np.maximum(square / counts - centre**2, 0.0) / counts)
    return plots.agreement(
        mean + sd * at / counts, mean + sd * centre, sd * error, counts, "predicted",
        "observed mean", "Observed against predicted",
    )  # fmt: skip


def _baselines(
    baselines: Sequence[NumberBaseline], summaries: Sequence[NumberSummary], target: Target,
    results: dict[str, Any],
) -> list[Section]:  # fmt: skip
    if not baselines:
        return []
    seconds, sd = sum(s.baseline_seconds for s in summaries), target.sd
    share = "deviance explained" if target.count else "R2"
    results["baseline_seconds"] = round(seconds, 3)
    results["baselines"] = {
        one.name: {
            "rmse": sd * one.rmse, "r2": one.r2, "more": one.more, "interval": [one.low, one.high],
        }
        for one in baselines
    }  # fmt: skip
    rows = [
        (one.name, f"{sd * one.rmse:.5g}", f"{one.r2:.3f}", f"{one.more:+.3f}",
         f"{one.low:+.3f} to {one.high:+.3f}",
         "yes: use it" if one.high < 0.0 else "no" if one.low > 0.0 else "no clear difference")
        for one in baselines
    ]  # fmt: skip
    columns = (
        "baseline",
        "RMSE",
        share,
        f"{share}, model minus baseline",
        "95 % interval",
        "beats the model?",
    )
    text = (
        "Fitted to the same rows and compared on the same held-out rows; the interval of the "
        f"difference is by the bootstrap over rows. They took {seconds:.2g} s; baselines=false "
        "goes without."
    )
    return [Section("Simple baselines", text, (), (Grid(columns, rows),))]


def _effects(
    first: NumberSummary, label: str, target: Target, results: dict[str, Any]
) -> list[Section]:
    results["effects"] = {one.column: one.spread for one in first.effects}
    of = f"the logarithm of the mean of {label}" if target.count else label
    unit = f"added to log {label}" if target.count else f"added to {label}"
    shown = f"The {MOST_EFFECTS} of {len(first.effects)} columns that move it most come first"
    if len(first.effects) <= MOST_EFFECTS:
        shown = "Those that move it most come first"
    factor = " (.1 more is a mean higher by a tenth)" if target.count else ""
    text = (
        f"What each column adds to {of}, less its mean over rows{factor}, with 95 % bands. "
        f"{shown}, all on one scale; ticks below a curve are quantiles of the column."
    )
    moved = f"log {label}" if target.count else label
    charts = strength_charts(first.effects, first.pairs, moved)
    charts += effect_charts(first.effects[:MOST_EFFECTS], unit)
    sections = [Section("What each column says", text, tuple(charts))]
    pairs = first.pairs[:MOST_PAIRS]
    if pairs:
        more = (
            f"A cell is what two columns add to {of} beyond their curves, blue above 0 and "
            f"orange below; the strongest colour is {strongest(pairs):.3g}. The pairs that "
            f"move it most come first ({len(pairs)} of {len(first.pairs)})."
        )
        sections.append(Section("What pairs of columns say", more, tuple(pair_charts(pairs))))
    return sections
