"""What the features report says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from flows.data.row_weights import WEIGHT
from flows.features.check import Column
from flows.features.copies import find_copies, on_copies
from flows.features.description import (
    again_in_words,
    meaning_results,
    meaning_sections,
    share_in_words,
    short_name,
    strongest,
    summary_of,
)
from flows.features.naming import MeaningSums, meanings
from flows.features.sections import (
    AnswerPatterns,
    answer_sections,
    fit_section,
    occurrence_sections,
)
from flows.features.settings import FeatureSettings
from flows.features.simpler_models import (
    RowSample,
    compare_models,
    difference_in_words,
    groups_in_words,
    model_results,
    model_section,
    no_feature_in_words,
)
from flows.features.tiles import next_steps, tiles_of
from flows.report.page import Findings
from vbmodels.core.state import IntArray, tree_sum
from vbmodels.features.forms import Reported, stability
from vbmodels.features.imputation.predict import HiddenCells, together
from vbmodels.features.patterns import Patterns, Selection, merge_patterns, occurrence, profile

MOST_PATTERNS = 20


@dataclass(frozen=True)
class FeatureSummary:
    """What one partition adds to the report; the first one brings the columns too."""

    rows: int
    distinct: int
    patterns: Patterns
    imputed: int
    meaning: MeaningSums
    answers: AnswerPatterns | None = None
    hidden: HiddenCells | None = None
    sample: RowSample | None = None
    columns: tuple[Any, ...] = ()


def weight_table(fit: Reported, columns: Sequence[Column]) -> dict[str, list[Any]]:
    """Return the table of weights, column by column of the schema."""
    levels = _levels(columns)
    mean, sd = fit.weights.mean(axis=0), fit.weights.std(axis=0)
    table: dict[str, list[Any]] = {
        name: [] for name in ("column", "category", "feature", "mean", "sd", "probability", "ratio")
    }
    for k in range(mean.shape[1]):
        profiles = profile(fit.weights, levels, [k - 1] if k else [])
        unit = 0
        for column, p in zip(columns, profiles, strict=True):
            shares = np.array(column.weights) / max(sum(column.weights), 1e-300)
            for r, category in enumerate(column.levels):
                known = None if r == 0 else unit + r - 1
                row = (
                    column.name,
                    category,
                    k,
                    None if known is None else float(mean[known, k]),
                    None if known is None else float(sd[known, k]),
                    float(p[r]),
                    float(p[r] / shares[r]) if shares[r] > 0.0 else math.nan,
                )
                for values, value in zip(table.values(), row, strict=True):
                    values.append(value)
            unit += len(column.levels) - 1
    return table


def _levels(columns: Sequence[Column]) -> IntArray:
    return np.array([len(c.levels) for c in columns])


def report(
    model: Any,
    q: Any,
    fit: Reported,
    summaries: Sequence[FeatureSummary],
    settings: FeatureSettings,
) -> Findings:
    """Say what was found in all partitions."""
    found = occurrence(merge_patterns([s.patterns for s in summaries]), MOST_PATTERNS)
    columns = next(s.columns for s in summaries if s.columns)
    rows = sum(s.rows for s in summaries)
    imputed = sum(s.imputed for s in summaries)
    n = len(fit.chosen.index)
    flips = [k + 1 for k, flipped in enumerate(fit.chosen.flipped) if flipped]
    results: dict[str, Any] = {
        "rows": rows,
        "distinct_rows": sum(s.distinct for s in summaries),
        "features": n,
        "flipped": flips,
        "absorbed": fit.chosen.absorbed.tolist(),
        "unused": fit.chosen.unused.tolist(),
        "alpha": fit.alpha,
        "sigma2": fit.sigma2,
        "imputed_cells": imputed,
        "prevalence": found.total.tolist(),
        "single": found.single.tolist(),
        "none": found.none,
        "joint": found.joint.tolist(),
        "patterns": [
            {"features": [k + 1 for k in on], "rows": count} for on, count in found.frequent
        ],
        "columns": [_dictionary(c) for c in columns],
    }
    warnings = _absorbed(fit.chosen)
    warnings += few_rows(n, rows)
    described = meanings(
        tree_sum(s.meaning for s in summaries), _levels(columns), [c.points for c in columns],
        fit.whole,
    )  # fmt: skip
    stable = stability(model, q, settings)
    results["meaning"] = meaning_results(described, columns, stable)
    sampled = [s.sample for s in summaries if s.sample is not None]
    warnings += on_copies(find_copies(sampled)) if sampled else []
    models = compare_models(sampled, columns, q, fit.n_rows, n) if sampled else None
    meaning = meaning_sections(described, columns, stable)
    sections = [
        *meaning[:1],
        *answer_sections([s.answers for s in summaries], columns),
        *([] if models is None else [model_section(models, n)]),
        *meaning[1:],
        *occurrence_sections(found),
    ]
    if cells := [s.hidden for s in summaries if s.hidden is not None]:
        from flows.features import cell_baselines as baselines  # scikit-learn loads slowly

        hidden, levels = together(cells), _levels(columns)
        for name, compare in (
            ("logistic", baselines.score_logistic),
            ("classes", baselines.score_classes),
            ("shares", baselines.score_shares),
        ):
            score = compare(hidden, levels)
            results[f"filling_baseline_{name}"] = None if score is None else asdict(score)
    if models is not None:
        results["simpler_models"] = model_results(models, n)
    fitted, more = fit_section(model, q, results)
    sections += fitted
    warnings += more
    undecided = models.undecided if models is not None and n == 1 else ""
    headline, number = f"No feature in {rows:,} row{'' if rows == 1 else 's'}", 0
    if described:
        k = strongest(described)
        one, words = described[k], summary_of(described[k], columns)
        share = share_in_words(one, "95 % interval ")
        headline = (
            f"The model describes the answers by {n} yes-or-no features, the clearest "
            f"(feature {k + 1}) in {share} of {rows:,} rows"
        )
        parts = [again_in_words(k, stable), difference_in_words(models, n)]
        if n == 1:
            headline = groups_in_words(models, rows)
            headline += (
                f". {'If two groups, one' if undecided else 'One group'} has {share} of the rows"
            )
            number = round((1.0 - one.sure) * rows)
            unclear = (
                f"for {number:,} row{'s' * (number != 1)} (probability 10 to 90\u00a0%) the group "
                "is unclear"
            )
            parts = [unclear, *(parts[:1] if undecided else parts)]
        said = "; ".join(filter(None, parts))
        headline += f": {words}" + (f". {said[0].upper()}{said[1:]}." if said else "")
    elif sampled:
        said, warning = no_feature_in_words(models, settings)
        headline += f": {said}"
        warnings.append(warning)
    top = [
        {
            "feature": k + 1,
            "prevalence": round(one.prevalence, 4),
            "name": short_name(one, columns),
        }
        for k, one in enumerate(described)
    ]
    return Findings(
        headline, sections, results, tuple(warnings), top,
        tiles_of(results, WEIGHT in settings.columns),
        next_steps(n, stable.of, number),
    )  # fmt: skip


def _dictionary(column: Any) -> dict[str, Any]:
    return {
        "name": column.name,
        "levels": dict(zip(column.levels, column.counts, strict=True)),
        "missing": column.missing,
    }


FEWEST_ROWS = 40
"""Rows a feature below which the number of features is a guess."""


def few_rows(features: int, rows: int) -> list[str]:
    """Say so where so few rows do not determine how many features there are.

    >>> few_rows(4, 200), len(few_rows(7, 200))
    ([], 1)
    """
    if features < 2 or rows >= FEWEST_ROWS * features:
        return []
    return [
        f"{features} features in {rows:,} rows are {rows // features} rows a feature: so few "
        "do not determine how many there are: their number is a guess. On simulated tables of "
        "200 rows with eight features it was right on 4 of 10, and all eight were found on 2; with "
        "50 rows a feature and no cell missing it was right on all."
    ]


def _absorbed(chosen: Selection) -> list[str]:
    if not len(chosen.absorbed):
        return []
    return [
        f"{len(chosen.absorbed)} fitted features that nearly every row has were added to the "
        "biases."
    ]
