"""What the experts report says of a label that is a number."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from flows.experts.effect_report import (
    MOST_EFFECTS,
    MOST_PAIRS,
    effect_charts,
    pair_charts,
    strongest,
)
from flows.experts.encoding import Encoding
from flows.experts.numbers import NumberBaseline, NumberSummary
from flows.experts.report import table_sections
from flows.experts.settings import ExpertSettings
from flows.report import plots
from flows.report.page import Findings, Grid, Section
from vbmodels.core.state import FloatArray

_FORMS = {
    "intercept": "No column predicts",
    "lines": "A line for each column predicts",
    "curves": "A curve for each column predicts",
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
    sections = _quality(held_out, summaries, encoding, results)
    baselines = [one for s in summaries for one in s.baselines]
    sections += _baselines(baselines, summaries, encoding.target.sd, results)
    sections += _effects(first, label, results)
    sections += table_sections([encoding], results)
    headline = f"{_FORMS[chosen.form]} {label} on {rows:,} rows"
    if first.pairs:
        pairs = f"{len(first.pairs)} pair{'s' if len(first.pairs) > 1 else ''}"
        headline = (
            f"A curve for each column and {pairs} of columns predict {label} on {rows:,} rows"
        )
    if "rmse" in results:
        low, high = results["r2_interval"]
        headline += (
            f"; R2 {results['r2']:.3f} ({low:.3f} to {high:.3f}), RMSE {results['rmse']:.4g} (of "
            f"the mean {results['mean_rmse']:.4g}) on {results['test_rows']:,} held-out rows"
        )
    better = [one for one in baselines if one.high < 0.0]
    warnings = tuple(
        f"On the rows held out {one.name} predict better: their RMSE is "
        f"{one.rmse * encoding.target.sd:.4g}. For predictions alone use that one."
        for one in sorted(better, key=lambda one: one.rmse)[:1]
    )
    if better:
        best = min(better, key=lambda one: one.rmse)
        headline += f"; {best.name} do better here ({best.rmse * encoding.target.sd:.4g})"
    top = [{"column": one.column, "sd of its effect": one.spread} for one in first.effects[:10]]
    return Findings(headline, sections, results, warnings, top)


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
    baselines: Sequence[NumberBaseline], summaries: Sequence[NumberSummary], sd: float,
    results: dict[str, Any],
) -> list[Section]:  # fmt: skip
    if not baselines:
        return []
    seconds = sum(s.baseline_seconds for s in summaries)
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
        "R2",
        "R2, model minus baseline",
        "95 % interval",
        "beats the model?",
    )
    text = (
        "Fitted to the same rows and compared on the same held-out rows; the interval of the "
        f"difference is by the bootstrap over rows. They took {seconds:.2g} s; baselines=false "
        "goes without."
    )
    return [Section("Simple baselines", text, (), (Grid(columns, rows),))]


def _effects(first: NumberSummary, label: str, results: dict[str, Any]) -> list[Section]:
    results["effects"] = {one.column: one.spread for one in first.effects}
    shown = f"The {MOST_EFFECTS} of {len(first.effects)} columns that move it most come first"
    if len(first.effects) <= MOST_EFFECTS:
        shown = "Those that move it most come first"
    text = (
        f"What each column adds to {label}, less its mean over rows, with 95 % bands. {shown}, all "
        "on one scale; ticks below a curve are quantiles of the column."
    )
    charts = tuple(effect_charts(first.effects[:MOST_EFFECTS], f"added {label}"))
    sections = [Section("What each column says", text, charts)]
    pairs = first.pairs[:MOST_PAIRS]
    if pairs:
        more = (
            f"A cell is what two columns add to {label} beyond their curves, blue above 0 and "
            f"orange below; the strongest colour is {strongest(pairs):.3g}. The pairs that "
            f"move it most come first ({len(pairs)} of {len(first.pairs)})."
        )
        sections.append(Section("What pairs of columns say", more, tuple(pair_charts(pairs))))
    return sections
