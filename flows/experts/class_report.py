"""What the experts report says of labels of more than two classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.data.names import listed
from flows.experts.effect_report import effect_charts
from flows.experts.predictions import IN_RANGE, count_predictions, predictions_section
from flows.experts.report import (
    baseline_sections,
    calibration,
    few_rows,
    log_loss_of,
)
from flows.experts.settings import ExpertSettings
from flows.experts.several import ClassSummary
from flows.experts.tiles import (
    TOO_FEW,
    next_steps,
    of_tested_rows,
    percent,
    steps_after_score,
    tested_rows,
    tiles_of,
    with_rivals,
)
from flows.report.baselines import share_interval, with_model
from flows.report.page import Findings, Grid, Section
from vbmodels.core.state import FloatArray

MOST_NAMED = 6  # classes in the headline of a score


def class_report(summaries: Sequence[ClassSummary], settings: ExpertSettings) -> Findings:
    """Say what was found in all partitions."""
    first = next(s for s in summaries if s.encoding is not None)
    assert first.encoding is not None
    labels = first.encoding.labels
    repeated = first.encoding.repeated
    rows = sum(s.rows for s in summaries)
    held_out = np.sum([s.held_out for s in summaries], axis=0)
    results: dict[str, Any] = {"classes": len(labels)}
    if repeated and not first.applied:
        results["one_label_per"] = repeated
    compared, better = baseline_sections(summaries, results)
    splits = first.encoding.splits
    label = settings.columns.get("label", "label")
    quality = _quality(summaries, held_out, labels, results, compared)
    columns = f"predicted {label}", f"P(predicted {label})"
    sections = [*predictions_section(summaries, columns, settings), *_curves(first, splits)]
    sections += quality
    results.update(labels=list(labels), left_out=sorted(first.encoding.left_out))
    predicted = np.sum([s.predicted for s in summaries], axis=0)
    top = [
        {"label": label, "predicted_rows": int(n)}
        for label, n in zip(labels, predicted, strict=True)
    ]
    counts = [f"{predicted[k]:,.0f} {labels[k]}" for k in np.argsort(-predicted, kind="stable")]
    unsure, tiles = count_predictions(summaries)
    said = f"{rows:,} rows: {listed(counts, MOST_NAMED)}; {unsure}"
    headline = (
        f"{len(labels)} classes in {rows:,} rows; no row with a label was kept from the "
        "fit, so how good these predictions are is not known here"
    )
    if held_out[0]:
        low, high = results["accuracy_interval"]
        most = max(sum(row) for row in results["confusion"]) / held_out[0]
        figures = (
            f"accuracy {percent(results['accuracy'])} ({percent(low)} to {percent(high)}; "
            f"the most frequent class {percent(most)}), log loss {results['log_loss']:.3f}"
        )
        on = f"{results['test_rows']:,} {tested_rows(first.applied)}"
        headline = with_rivals(f"{label}, {len(labels)} classes: {figures} on {on}", results)
    return Findings(
        headline, sections, results, better, top,
        [*tiles_of(results, first.applied), *tiles],
        steps_after_score() if first.applied else next_steps("", results.get("test_rows", 0)),
        predicted=said,
        limits=IN_RANGE * first.applied,
    )  # fmt: skip


def _quality(
    summaries: Sequence[ClassSummary], held_out: FloatArray, labels: Sequence[str],
    results: dict[str, Any], compared: list[Grid],
) -> list[Section]:  # fmt: skip
    n = held_out[0]
    if not n:
        return []
    encoding = summaries[0].encoding
    effect = 1.0 if encoding is None else encoding.design_effect
    confusion = np.sum([s.confusion for s in summaries], axis=0)
    sums = np.sum([s.calibration for s in summaries], axis=0).sum(0)
    right = float(np.trace(confusion) / n)
    interval = share_interval(float(np.trace(confusion)) / effect, float(n) / effect)
    results.update(
        test_rows=int(n), accuracy=right, accuracy_interval=interval,
        **log_loss_of(n, held_out[1], held_out[2], effect),
    )  # fmt: skip
    results["confusion"] = confusion.astype(int).tolist()
    crossed = [
        (label, *(int(v) for v in row)) for label, row in zip(labels, confusion, strict=True)
    ]
    applied = summaries[0].applied
    title = f"Calibration over all classes, on {tested_rows(applied)}"
    charts = (calibration(sums[0], sums[1], sums[2], title),) if n >= TOO_FEW else ()
    own = ("this model", "", f"{results['log_loss']:.3f}", "")
    columns = ("label", *(f"predicted {label}" for label in labels))
    grids = (
        *(with_model(one, own) for one in compared),
        Grid(columns, crossed, "Rows by their label and by their most probable one."),
    )
    text = f"{of_tested_rows(n, applied)}{few_rows(n)}"
    return [Section("How good it is", text, charts, grids, measures=True)]


def _curves(first: ClassSummary, labels: Sequence[str]) -> list[Section]:
    pictures = [
        chart
        for label, effects in zip(labels, first.effects, strict=True)
        for chart in effect_charts(effects, f"log odds of {label}", f"{label}: ")
    ]
    if not pictures:
        return []
    return [
        Section(
            "What each column adds",
            "What a column adds to the log odds of a class, compared with its mean over rows: the "
            "columns that move each class most, on one scale for each class. What a mixture of "
            "experts adds is left out.",
            pictures,
            needs_fit=True,
        )
    ]
