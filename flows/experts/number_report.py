"""What the experts report says of a label that is a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np

from flows.experts.effect_report import effect_sections, effects_text, pair_sections, ranked
from flows.experts.encoding import Encoding, Target
from flows.experts.numbers import NumberBaseline, NumberSummary
from flows.experts.predictions import IN_RANGE, predictions_section
from flows.experts.settings import ExpertSettings
from flows.experts.tiles import (
    next_steps,
    of_tested_rows,
    steps_after_score,
    tested_rows,
    with_rivals,
)
from flows.report import plots
from flows.report.baselines import against, rival_in_words
from flows.report.labels import UNKNOWN, label
from flows.report.page import Findings, Grid, Section, Tile
from vbmodels.core.state import FloatArray


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
    if encoding.repeated and not first.applied:
        results["one_label_per"] = encoding.repeated
    quality = _quality(held_out, summaries, encoding, results)
    if encoding.target.count:
        sums = np.sum([s.deviance for s in summaries], axis=0)
        quality = _deviance(sums, encoding.design_effect, results, quality)
    baselines = [one for s in summaries for one in s.baselines]
    quality = _baselines(baselines, summaries, encoding.target, results, quality)
    sections = predictions_section(summaries, (f"predicted {label}", "sd"), settings)
    sections += [*_effects(first, label, encoding.target, results), *quality]
    results.update(labels=[], left_out=sorted(encoding.left_out))
    strongest = ranked(first.effects, first.pairs)[:10]
    top = [{"column": name, "effect_sd": spread} for name, spread in strongest]
    headline = _headline(first, label, rows, results)
    return Findings(
        headline, sections, results, (), top, _tiles(first, results, baselines),
        steps_after_score()
        if first.applied
        else next_steps("predicted", results.get("test_rows", 0)),
        predicted=f"{rows:,} {'row has' if rows == 1 else 'rows have'} a predicted {label}",
        limits=IN_RANGE * first.applied,
    )  # fmt: skip


def _headline(first: NumberSummary, label: str, rows: int, results: dict[str, Any]) -> str:
    """State how good the predictions are, and against what."""
    if "r2" not in results:
        return (
            f"{label} in {rows:,} rows; no row with a label was kept from the fit, so how good "
            "these predictions are is not known here"
        )
    value, (low, high) = _main(results)
    figures = f"{_named(results)} {value:.3f} ({low:.3f} to {high:.3f})"
    on = f"{results['test_rows']:,} {tested_rows(first.applied)}"
    said = with_rivals(f"{label}: {figures} on {on}", results)
    if results["form"] == "intercept" and not first.pairs:
        said += " No column predicts it: every row gets the mean."
    return said


def _main(results: dict[str, Any]) -> tuple[float, list[float]]:
    """Return the share that is explained, of a count's deviance or a number's variance."""
    if "deviance_explained" in results:
        return results["deviance_explained"], results["deviance_explained_interval"]
    return results["r2"], results["r2_interval"]


def _named(results: dict[str, Any]) -> str:
    return label("deviance_explained" if "deviance_explained" in results else "r2")


def _tiles(
    first: NumberSummary, results: dict[str, Any], baselines: Sequence[NumberBaseline]
) -> list[Tile]:
    if "r2" not in results:
        return [Tile(label("r2"), UNKNOWN, "no row with a label was held out")]
    value, (low, high) = _main(results)
    share, (near, far) = _named(results), results["rmse_interval"]
    tested = f"{results['test_rows']:,} {tested_rows(first.applied)}"
    tiles = [
        Tile(share, f"{value:.3f}",
             f"{low:.3f} to {high:.3f} (95\u00a0%); {tested}; higher is better"),
        Tile(label("rmse"), f"{results['rmse']:.4g}",
             f"{near:.4g} to {far:.4g} (95\u00a0%); {results['mean_rmse']:.4g} by the mean"),
    ]  # fmt: skip
    rest = [one for one in baselines if one.name != "the mean"]
    if rest:
        best = max(rest, key=lambda one: one.r2)
        what = f"{share}, model minus baseline"
        tiles.append(against(best.name, what, best.more, best.low, best.high))
    return tiles


def _deviance(
    sums: FloatArray, effect: float, results: dict[str, Any], quality: list[Section]
) -> list[Section]:
    """Say how much of a count's deviance is explained, before what is said of a number."""
    if not quality:
        return []
    n = results["test_rows"]
    mean, base = sums[0] / n, max(sums[2] / n, 1e-300)
    half = 1.96 * sqrt(effect * max(sums[1] / n - mean**2, 0.0) / n)
    results.update(
        deviance=mean, mean_deviance=base, deviance_explained=1.0 - mean / base,
        deviance_explained_interval=[1.0 - (mean + half) / base, 1.0 - (mean - half) / base],
    )  # fmt: skip
    low, high = results["deviance_explained_interval"]
    text = (
        f"{1.0 - mean / base:.3f} of the deviance is explained ({low:.3f} to {high:.3f}): the "
        f"Poisson deviance of a row is {mean:.4g}, and {base:.4g} if every row gets the mean. "
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
    half = 1.96 * sqrt(encoding.design_effect * max(fourth / n - mse**2, 0.0) / n)
    ends = mse + half, max(mse - half, 0.0)
    r2 = [1.0 - one / variance for one in (mse, *ends)]
    results.update(
        test_rows=int(n), r2=r2[0], r2_interval=r2[1:], rmse=sd * sqrt(mse),
        rmse_interval=[sd * sqrt(one) for one in ends[::-1]], mean_rmse=sd * sqrt(square / n),
        within_interval=inside / n,
    )  # fmt: skip
    text = (
        f"{of_tested_rows(n, summaries[0].applied)} "
        f"{100.0 * inside / n:.0f} % of them are within their predicted 95 % interval."
    )
    return [Section("How good it is", text, (_agreement(summaries, encoding),), measures=True)]


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
    results: dict[str, Any], quality: list[Section],
) -> list[Section]:  # fmt: skip
    if not baselines or not quality:
        return quality
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
        (one.name, f"{sd * one.rmse:.4g}", f"{round(one.r2, 3) + 0.0:.3f}",
         f"{one.more:+.3f} ({one.low:+.3f} to {one.high:+.3f})")
        for one in sorted(baselines, key=lambda one: -one.r2)
    ]  # fmt: skip
    low, high = results["rmse_interval"]
    value, ends = _main(results)
    own = ("this model", f"{results['rmse']:.4g} ({low:.4g} to {high:.4g})",
           f"{value:.3f} ({ends[0]:.3f} to {ends[1]:.3f})", "")  # fmt: skip
    difference = f"{share}, model minus baseline (95 %)"
    columns = ("model", "RMSE (95 %)", f"{share} (95 %)", difference)
    how = "Each model was fitted to the same rows and measured on the same held-out rows; intervals"
    how = f"{rival_in_words(baselines, share)} {how} are by the bootstrap over rows."
    return [replace(quality[0], grids=(Grid(columns, [own, *rows], how),))]


def _effects(
    first: NumberSummary, label: str, target: Target, results: dict[str, Any]
) -> list[Section]:
    results["effects"] = {one.column: one.spread for one in first.effects}
    of, unit = label, f"added to {label}"
    if target.count or target.logged:
        of, unit = f"the logarithm of the mean of {label}", f"added to log {label}"
    text = effects_text(of)
    if target.count or target.logged:
        text += " 0.1 more is a mean that is a tenth higher."
    sections = effect_sections(first.effects, label, unit, text)
    return sections + pair_sections(first.pairs, of)
