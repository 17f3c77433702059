"""What the experts report says of labels of more than two classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.experts.effect_report import effect_charts
from flows.experts.report import baseline_sections, few_rows, log_losses, table_sections
from flows.experts.several import ClassSummary
from flows.experts.summary import BINS
from flows.experts.tiles import NEXT_STEPS, tiles_of
from flows.report import plots
from flows.report.page import Findings, Grid, Section
from vbmodels.core.state import FloatArray

_HOW = {False: "each class is fitted against the rest", True: "the order of the classes is used"}


_SHARED = {
    False: "Each class has a fit against the rest, with lines, curves or experts as held-out rows "
    "need; in a row the classes share in proportion to what their fits say.",
    True: "Being above each class has a fit of its own, with lines, curves or experts as held-out "
    "rows need; the probability of a class is what is between two of them.",
}


def class_report(summaries: Sequence[ClassSummary]) -> Findings:
    """Say what was found in all partitions."""
    first = next(s for s in summaries if s.encoding is not None)
    assert first.encoding is not None
    labels = first.encoding.labels
    rows = sum(s.rows for s in summaries)
    held_out = np.sum([s.held_out for s in summaries], axis=0)
    results: dict[str, Any] = {"classes": len(labels)}
    compared, better = baseline_sections(summaries, results)
    splits = first.encoding.splits
    sections = _curves(first, splits)
    sections += [*_quality(summaries, held_out, labels, results), *compared]
    sections.append(_forms(first, splits, results))
    sections += table_sections([first.encoding], results)
    predicted = np.sum([s.predicted for s in summaries], axis=0)
    top = [
        {"label": label, "most probable in rows": int(n)}
        for label, n in zip(labels, predicted, strict=True)
    ]
    headline = f"{len(labels)} classes on {rows:,} rows; {_HOW[first.encoding.ordered]}"
    if held_out[0]:
        headline = (
            f"Accuracy {results['accuracy']:.3f}, log loss {results['log_loss']:.4f} of "
            f"{len(labels)} classes on {results['test_rows']:,} held-out rows"
            f"{log_losses(results)}; {_HOW[first.encoding.ordered]}"
        )
    return Findings(
        headline, sections, results, better, top, tiles_of(results), NEXT_STEPS
    )  # fmt: skip


def _quality(
    summaries: Sequence[ClassSummary], held_out: FloatArray, labels: Sequence[str],
    results: dict[str, Any],
) -> list[Section]:  # fmt: skip
    n = held_out[0]
    if not n:
        return []
    confusion = np.sum([s.confusion for s in summaries], axis=0)
    calibration = np.sum([s.calibration for s in summaries], axis=0)
    right = float(np.trace(confusion) / n)
    results.update(test_rows=int(n), accuracy=right, log_loss=float(held_out[1] / n))
    models = [("this fit", f"{held_out[1] / n:.4f}")]
    if np.isfinite(held_out[2]):
        results["logistic_log_loss"] = float(held_out[2] / n)
        models.append(("logistic regressions, put together alike", f"{held_out[2] / n:.4f}"))
    results["confusion"] = confusion.astype(int).tolist()
    crossed = [
        (label, *(int(v) for v in row)) for label, row in zip(labels, confusion, strict=True)
    ]
    by_class = [
        (label, int(found.sum()), f"{found.sum() / n:.3f}", f"{sums.sum() / n:.3f}",
         f"{_gap(counts, sums, found):.3f}")
        for label, (counts, sums, found) in zip(labels, calibration, strict=True)
    ]  # fmt: skip
    some = calibration.sum(0)
    filled = some[0] > 0
    at, share = some[1, filled] / some[0, filled], some[2, filled] / some[0, filled]
    picture = plots.calibration(
        at.tolist(), share.tolist(), some[0, filled].tolist(), "Calibration over all classes"
    )
    return [
        Section(
            "How good it is",
            f"On {n:,.0f} labelled rows held out of the fit: accuracy {right:.3f}."
            f"{few_rows(n)}",
            (picture,),
            (
                Grid(("model", "log loss"), models),
                Grid(
                    ("label", *(f"said {label}" for label in labels)), crossed,
                    "Rows by their label and by their most probable one.",
                ),
                Grid(
                    ("label", "rows", "share", "mean probability", "calibration error"), by_class,
                    f"Calibration by class: the error is the mean gap between probability and "
                    f"share over {BINS} bins of probability.",
                ),
            ),
        )
    ]  # fmt: skip


def _gap(counts: FloatArray, sums: FloatArray, found: FloatArray) -> float:
    return float(np.abs(sums - found).sum() / max(counts.sum(), 1.0))


def _forms(first: ClassSummary, labels: Sequence[str], results: dict[str, Any]) -> Section:
    results["forms"] = {
        label: {"form": form, "experts": experts, "tau": tau}
        for label, (form, experts, tau) in zip(labels, first.forms, strict=True)
    }
    rows = [
        (label, form, experts, f"{tau:g}" if tau else "of each block")
        for label, (form, experts, tau) in zip(labels, first.forms, strict=True)
    ]
    return Section(
        "What each class needed",
        _SHARED[first.encoding is not None and first.encoding.ordered],
        (),
        (Grid(("label", "form", "experts", "tau"), rows),),
    )


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
            "What the columns say",
            "What a column adds to the log odds of what each fit is of, with 95 % "
            "bands, less its mean over rows; the columns that move each class most, on one scale "
            "for each class.",
            pictures,
            (),
        )
    ]
