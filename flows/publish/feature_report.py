"""What the features report says: the text's tables 1 to 5 and its figures 5, 7 and 8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from flows.publish import plots
from flows.publish.report import Findings, Grid, Section
from flows.settings import FeatureSettings
from vbmodels.features.gibbs import GibbsIBP
from vbmodels.features.patterns import (
    Occurrence,
    Patterns,
    Selection,
    merge_patterns,
    occurrence,
    profile,
)
from vbmodels.features.restarts import StartsGlobal
from vbmodels.state import FloatArray

MOST_COLUMNS = 12  # of the input, shown for each feature
MOST_PATTERNS = 20
MOST_PAIRS = 12  # features in the tables of pairs
_GOOD_R_HAT = 1.1


class Fit(Protocol):
    """What the report needs of a fit: the reported features and their weights."""

    chosen: Selection
    mean: FloatArray
    covariance: FloatArray
    alpha: float
    sigma2: float
    n_rows: float


class Categories(Protocol):
    """A column: its name, its categories, how often each occurs, and its missing cells."""

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    missing: int


@dataclass(frozen=True)
class FeatureSummary:
    """What one partition adds to the report; the first one brings the columns too."""

    rows: int
    distinct: int
    patterns: Patterns
    imputed: int
    columns: tuple[Any, ...] = ()
    weights: dict[str, list[Any]] | None = None


def weight_table(fit: Fit, columns: Sequence[Categories]) -> dict[str, list[Any]]:
    """Return the table of weights, column by column of the schema."""
    levels = np.array([len(c.levels) for c in columns])
    sd = np.sqrt(np.diagonal(fit.covariance, axis1=1, axis2=2))
    table: dict[str, list[Any]] = {
        name: [] for name in ("column", "category", "feature", "mean", "sd", "probability", "ratio")
    }
    for k in range(fit.mean.shape[1]):
        profiles = profile(fit.mean, fit.covariance, levels, [k - 1] if k else [])
        unit = 0
        for column, p in zip(columns, profiles, strict=True):
            shares = np.array(column.counts) / sum(column.counts)
            for r, category in enumerate(column.levels):
                known = None if r == 0 else unit + r - 1
                row = (
                    column.name,
                    category,
                    k,
                    None if known is None else float(fit.mean[known, k]),
                    None if known is None else float(sd[known, k]),
                    float(p[r]),
                    float(p[r] / shares[r]),
                )
                for values, value in zip(table.values(), row, strict=True):
                    values.append(value)
            unit += len(column.levels) - 1
    return table


def report(
    model: Any, q: Any, fit: Fit, summaries: Sequence[FeatureSummary], settings: FeatureSettings
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
    sections = [*_occurrence_sections(found, fit.chosen), *_profile_sections(weights, n)]
    if isinstance(model, GibbsIBP):
        section, told = _chains(model, q, results)
        sections.append(section)
        warnings += told
    elif isinstance(q, StartsGlobal) and len(q.bounds) > 1:
        sections.append(_starts(q, results))
    sections.append(_column_section(columns))
    headline = f"{n} features in {rows:,} rows and {len(columns)} columns" + (
        f"; {imputed:,} missing cells filled" if imputed else ""
    )
    top = [
        {"feature": k + 1, "share": f"{found.total[k]:.1%}", "raises": _raised(weights, k + 1)}
        for k in range(n)
    ]
    return Findings(headline, sections, results, tuple(warnings), top)


def _dictionary(column: Any) -> dict[str, Any]:
    return {
        "name": column.name,
        "levels": dict(zip(column.levels, column.counts, strict=True)),
        "missing": column.missing,
    }


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


def _names(n: int) -> list[str]:
    return [f"feature {k + 1}" for k in range(n)]


def _occurrence_sections(found: Occurrence, chosen: Selection) -> list[Section]:
    n = len(found.total)
    plot = plots.bars(_names(n), (100 * found.total).tolist(), "% of the rows", "Prevalence")
    marks = [" (complement)" if f else "" for f in chosen.flipped]
    rows = [
        (f"{name}{mark}", _percent(t), _percent(s))
        for name, mark, t, s in zip(_names(n), marks, found.total, found.single, strict=True)
    ]
    rows.append(("none", _percent(found.none), ""))
    sections = [
        Section(
            "How common the features are",
            "Share of the rows that have each feature with probability above one half, and of "
            "those that have no other.",
            (plot,) if n else (),
            (Grid(("feature", "total", "single"), rows),),
        )
    ]
    if n > 1:
        sections.append(_pair_section(found))
    frequent = [
        (", ".join(str(k + 1) for k in on) or "none", count) for on, count in found.frequent
    ]
    sections.append(
        Section(
            "Most frequent patterns",
            "Features that are active together, and no others.",
            (),
            (Grid(("features", "rows"), frequent),),
        )
    )
    return sections


def _pair_section(found: Occurrence) -> Section:
    n = min(len(found.total), MOST_PAIRS)
    names = [str(k + 1) for k in range(n)]
    joint = [
        (names[i], *(
            "" if i == j else _percent(found.joint[i, j] if j > i else found.product[i, j])
            for j in range(n)
        ))
        for i in range(n)
    ]  # fmt: skip
    given = [(names[i], *(_percent(v) for v in found.conditional[i, :n])) for i in range(n)]
    return Section(
        "Features together",
        f"The {n} most common features.",
        (),
        (
            Grid(
                ("", *names),
                joint,
                "Share of rows with both: found (above the diagonal), and expected were features "
                "independent (below).",
            ),
            Grid(
                ("given", *names), given, "Share of the rows with the first that have the second."
            ),
        ),
    )


def _profile_sections(weights: dict[str, list[Any]], n: int) -> list[Section]:
    """For none and each feature: the categories whose probability changes most."""
    rows = list(zip(*weights.values(), strict=True))
    sections = []
    for k in range(n + 1):
        mine = [row for row in rows if row[2] == k and (k == 0 or row[3] is not None)]
        mine.sort(key=lambda row: -abs(np.log(max(row[6], 1e-12))))
        shown = [
            (column, category, p, p / ratio if ratio else 0.0, ratio)
            for column, category, _, _, _, p, ratio in mine[:MOST_COLUMNS]
        ]
        labels = [f"{column} = {category}" for column, category, *_ in shown]
        title = "Rows without any feature" if k == 0 else f"Feature {k} alone"
        plot = plots.bars(
            labels, [float(row[4]) for row in shown], "probability over that of all rows", title
        )
        grid = Grid(("column", "category", "probability", "all rows", "ratio"), shown)
        text = "The categories whose probability differs most from the share of all rows."
        sections.append(Section(title, text, (plot,) if shown else (), (grid,)))
    return sections


def _raised(weights: dict[str, list[Any]], k: int) -> str:
    rows = [r for r in zip(*weights.values(), strict=True) if r[2] == k and r[3] is not None]
    rows.sort(key=lambda row: -row[3])
    return ", ".join(f"{row[0]} = {row[1]}" for row in rows[:4])


def _starts(q: Any, results: dict[str, Any]) -> Section:
    chosen = int(q.chosen) if q.chosen >= 0 else int(np.argmax(q.bounds))
    results["starts"] = {"bounds": q.bounds.tolist(), "chosen": chosen + 1}
    rows = [
        (i + 1, float(b), "went on" if i == chosen else "stopped") for i, b in enumerate(q.bounds)
    ]
    return Section(
        "Starts",
        "The bound of each start when it was last looked at: the best one went on alone.",
        (),
        (Grid(("start", "bound (nats)", ""), rows),),
    )


def _chains(model: GibbsIBP, q: Any, results: dict[str, Any]) -> tuple[Section, list[str]]:
    warnings: list[str] = []
    text = "Means over the draws that count."
    rows: list[tuple[Any, ...]] = []
    if model.chains > 1 and q.iteration > model.warmup + 3:
        names, seen = model.diagnose(q)
        results["diagnostics"] = {
            name: {key: float(value[i]) for key, value in asdict(seen).items()}
            for i, name in enumerate(names)
        }
        rows = [
            (name.replace("_", " "), float(seen.mean[i]), float(seen.sd[i]), float(seen.r_hat[i]),
             float(seen.ess_bulk[i]))
            for i, name in enumerate(names)
        ]  # fmt: skip
        if float(np.max(seen.r_hat)) > _GOOD_R_HAT:
            warnings.append(
                f"The chains do not agree (largest R-hat {np.max(seen.r_hat):.2f}): raise warmup "
                "and draws; averaged predictions still gain from several chains."
            )
    warnings.append(
        "Features and weights are those of the chain with the highest likelihood; probabilities "
        "of missing cells average all chains."
    )
    grid = Grid(("quantity", "mean", "sd", "R-hat", "effective draws"), rows)
    return Section("Chains", text, (), (grid,) if rows else ()), warnings


def _column_section(columns: Sequence[Any]) -> Section:
    rows = []
    for c in columns:
        common = list(zip(c.levels, c.counts, strict=True))[:6]
        listed = ", ".join(f"{text} ({n:,})" for text, n in common)
        rows.append((c.name, len(c.levels), listed, c.missing))
    return Section(
        "Columns",
        "Categories stand in the order of how often they occur.",
        (),
        (Grid(("column", "categories", "the most frequent", "missing"), rows),),
    )


def _percent(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:.2f} %"
