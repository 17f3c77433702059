"""What the features report says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from flows.features.check import Column
from flows.features.fit_sections import fit_section
from flows.features.naming import NAMED, ColumnContrast, Meaning, MeaningSums, meanings
from flows.features.sections import column_section, occurrence_sections, profile_sections
from flows.features.settings import FeatureSettings
from flows.report import plots
from flows.report.page import Findings, Grid, Section
from vbmodels.core.state import IntArray, tree_sum
from vbmodels.features.forms import Reported, Stability, stability
from vbmodels.features.imputation.predict import HiddenCells, together
from vbmodels.features.patterns import Patterns, Selection, merge_patterns, occurrence, profile

MOST_COLUMNS = 12  # of the input, in the table of a feature
MOST_CATEGORIES = 60  # in the heat map


def feature_name(meaning: Meaning, columns: Sequence[Any]) -> str:
    """Return a feature's name: its strongest columns, each with the category it changes most.

    A column with less than a tenth of the information of the first one is not in the name.
    """
    top = meaning.contrasts[:NAMED]
    strong = [c for c in top if c.sure_nats > 0.1 * top[0].sure_nats]
    return " & ".join(_said(c, columns) for c in strong or top[:1])


def _said(contrast: ColumnContrast, columns: Sequence[Any]) -> str:
    column = columns[contrast.column]
    text = f"{column.name} = {column.levels[contrast.category]}"
    return text if contrast.with_it >= contrast.without_it else f"not {text}"


def meaning_results(
    found: Sequence[Meaning], columns: Sequence[Any], stable: Stability
) -> list[dict[str, Any]]:
    """Return what the features are, for run.json."""
    found_by = stable.found_by
    return [
        {
            "feature": k + 1,
            "name": feature_name(meaning, columns),
            "prevalence": meaning.prevalence,
            "prevalence_sd": meaning.prevalence_sd,
            "sure_rows": meaning.sure,
            "covariance": meaning.covariance,
            "other_starts": stable.of if found_by is not None else None,
            "found_by": int(found_by[k]) if found_by is not None else None,
            "columns": [
                {
                    "column": columns[c.column].name,
                    "category": columns[c.column].levels[c.category],
                    "with": c.with_it,
                    "without": c.without_it,
                    "sd": c.sd,
                    "nats": c.nats,
                }
                for c in meaning.contrasts[:MOST_COLUMNS]
            ],
            "pairs": [
                {
                    "first": _cell(p.first, columns),
                    "second": _cell(p.second, columns),
                    "covariance": p.observed,
                    "explained": p.explained,
                }
                for p in meaning.pairs
            ],
        }
        for k, meaning in enumerate(found)
    ]


def _cell(place: tuple[int, int], columns: Sequence[Any]) -> str:
    column = columns[place[0]]
    return f"{column.name} = {column.levels[place[1]]}"


def meaning_sections(
    found: Sequence[Meaning], columns: Sequence[Any], stable: Stability
) -> list[Section]:
    """The features in words and as a heat map, then the contrasts of each."""
    if not found:
        return []
    found_by = stable.found_by if stable.of else None
    text = "\n".join(
        _sentence(k, meaning, columns) + ("" if found_by is None else _found_by(int(found_by[k])))
        for k, meaning in enumerate(found)
    )
    rows = [
        (
            k + 1,
            feature_name(meaning, columns),
            f"{meaning.prevalence:.1%} \u00b1 {meaning.prevalence_sd:.1%}",
            f"{meaning.sure:.0%}",
            "" if meaning.covariance is None else f"{meaning.covariance:.0%}",
            "" if found_by is None else f"{found_by[k]} of {stable.of}",
        )
        for k, meaning in enumerate(found)
    ]
    heads = ("feature", "name", "rows", "sure rows", "of the covariance", "other starts with it")
    note = (
        "A name has the columns that the feature changes most, doubt counted against them. Rows: "
        "share with the feature, and what the doubt about rows adds to it; sure rows: "
        "a probability below .1 or above .9; covariance: share of the squared covariances "
        "between columns that goes with the feature."
    )
    sections = [
        Section(
            "What the features are", text, (_heat_map(found, columns),), (Grid(heads, rows, note),)
        )
    ]
    return sections + [_one(k, meaning, columns) for k, meaning in enumerate(found)]


def _found_by(found: int) -> str:
    """Say so where a feature is not in every chain, or in no other start."""
    return "" if found else " Not reproduced by other starts: treat with caution."


def _sentence(k: int, meaning: Meaning, columns: Sequence[Any]) -> str:
    first = meaning.contrasts[0]
    cell = _cell((first.column, first.category), columns)
    return (
        f"Feature {k + 1} ({feature_name(meaning, columns)}) is in {meaning.prevalence:.0%} of the "
        f"rows: of those with it {first.with_it:.0%} have {cell}, of those without "
        f"{first.without_it:.0%}, other features equal."
    )


def _heat_map(found: Sequence[Meaning], columns: Sequence[Any]) -> plots.Spec:
    """Draw p1 - p0 of every feature in every column, at the category that it changes most."""
    best: dict[int, ColumnContrast] = {}
    for meaning in found:
        for c in meaning.contrasts:
            if c.column not in best or c.sure_nats > best[c.column].sure_nats:
                best[c.column] = c
    kept = sorted(best, key=lambda d: -best[d].sure_nats)[:MOST_CATEGORIES]
    values = []
    for meaning in found:
        own = {c.column: c for c in meaning.contrasts}
        values.append([own[d].with_it - own[d].without_it if d in own else np.nan for d in kept])
    names = [columns[d].name for d in kept]
    lines = [f"feature {k + 1}" for k in range(len(found))]
    title = "What each feature adds to the probability of the category that it changes most"
    return plots.heat_map(lines, names, values, title)


def _one(k: int, meaning: Meaning, columns: Sequence[Any]) -> Section:
    rows = [
        (
            columns[c.column].name,
            columns[c.column].levels[c.category],
            f"{c.with_it:.3f}",
            f"{c.without_it:.3f}",
            f"{c.with_it - c.without_it:+.3f} \u00b1 {c.sd:.3f}",
            f"{c.nats:.4f}",
        )
        for c in meaning.contrasts[:MOST_COLUMNS]
    ]
    pairs = [
        (_cell(p.first, columns), _cell(p.second, columns), f"{p.observed:+.4f}",
         f"{p.explained:+.4f}")
        for p in meaning.pairs
    ]  # fmt: skip
    grids = [
        Grid(
            ("column", "category", "with it", "without it", "difference", "nats a row"),
            rows,
            "Mean probability of the category over the rows, were they all with the feature or all "
            "without it, their other features as they are.",
        )
    ]
    if pairs:
        grids.append(
            Grid(
                ("category", "and", "covariance", "by the feature"),
                pairs,
                "The pairs of columns that the feature ties most.",
            )
        )
    title = f"Feature {k + 1}: {feature_name(meaning, columns)}"
    return Section(title, "", (), tuple(grids))


MOST_PATTERNS = 20


@dataclass(frozen=True)
class FeatureSummary:
    """What one partition adds to the report; the first one brings the columns too."""

    rows: int
    distinct: int
    patterns: Patterns
    imputed: int
    meaning: MeaningSums
    hidden: HiddenCells | None = None
    columns: tuple[Any, ...] = ()
    weights: dict[str, list[Any]] | None = None


def weight_table(fit: Reported, columns: Sequence[Column]) -> dict[str, list[Any]]:
    """Return the table of weights, column by column of the schema."""
    levels = _levels(columns)
    sd = np.sqrt(np.diagonal(fit.covariance, axis1=1, axis2=2))
    table: dict[str, list[Any]] = {
        name: [] for name in ("column", "category", "feature", "mean", "sd", "probability", "ratio")
    }
    for k in range(fit.mean.shape[1]):
        profiles = profile(fit.mean, fit.covariance, levels, [k - 1] if k else [])
        unit = 0
        for column, p in zip(columns, profiles, strict=True):
            shares = np.array(column.weights) / max(sum(column.weights), 1e-300)
            for r, category in enumerate(column.levels):
                known = None if r == 0 else unit + r - 1
                row = (
                    column.name,
                    category,
                    k,
                    None if known is None else float(fit.mean[known, k]),
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
    weights = next(s.weights for s in summaries if s.weights is not None)
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
    warnings = _flip_warnings(fit.chosen, flips, settings)
    if n == 0:
        warnings.append(_none_kept(rows, settings))
    warnings += few_rows(n, rows)
    described = meanings(tree_sum(s.meaning for s in summaries), _levels(columns))
    stable = stability(model, q, settings)
    results["meaning"] = meaning_results(described, columns, stable)
    sections = [
        *meaning_sections(described, columns, stable),
        *occurrence_sections(found, fit.chosen),
        *profile_sections(weights, n),
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
    fitted, more = fit_section(model, q, results)
    sections += [*fitted, column_section(columns)]
    warnings += more
    width = f"{len(columns)} column{'' if len(columns) == 1 else 's'}"
    height = f"{rows:,} row{'' if rows == 1 else 's'}"
    headline = f"{n} feature{'' if n == 1 else 's'} in {height} and {width}" + (
        f"; {imputed:,} missing cell{'' if imputed == 1 else 's'} filled" if imputed else ""
    )
    top = [
        {"feature": k + 1, "share": f"{one.prevalence:.1%}", "is": feature_name(one, columns)}
        for k, one in enumerate(described)
    ]
    return Findings(headline, sections, results, tuple(warnings), top)


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


def _none_kept(rows: int, settings: FeatureSettings) -> str:
    """Say what a fit without features means, and what to try where rows are few."""
    text = f"No feature is kept: no answers that go together were found in these {rows:,} rows."
    if settings.inference != "variational":
        return text
    return (
        f"{text} That is what the search found, not a proof that there is none: it can miss "
        f"features that the same bound would prefer. Try another n_features than "
        f"{settings.n_features} or another seed."
    )


def _flip_warnings(chosen: Selection, flips: Sequence[int], settings: FeatureSettings) -> list[str]:
    warnings = []
    if flips:
        named = ", ".join(str(k) for k in flips)
        warnings.append(
            f"Features reported as their complements, as more than {settings.flip_above:.0%} of "
            f"the rows have them: {named}."
        )
    if len(chosen.absorbed):
        warnings.append(
            f"{len(chosen.absorbed)} fitted features that nearly every row has were added to the "
            "biases."
        )
    return warnings
