"""Sections of the features report: the text's tables 1 to 5, and how the fit went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.features.check import Column
from flows.features.description import chance_in_words
from flows.report.page import Grid, Section
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.forms import completion
from vbmodels.features.imputation.model import CompletedGlobal, CompletedIBP
from vbmodels.features.imputation.states import MEMBERS
from vbmodels.features.laplace_gibbs import LaplaceIBP
from vbmodels.features.patterns import Occurrence
from vbmodels.features.search.states import SearchGlobal

MOST_PAIRS = 12  # features in the tables of pairs
MOST_ANSWERED, MOST_ANSWERS = 6, 64
"""Columns (and features) and different rows of answers beyond which these are not shown."""


@dataclass(frozen=True)
class AnswerPatterns:
    """Different rows of answers.

    Attributes
    ----------
    codes
        [P, D] the categories, -1 where missing.
    rows, has
        [P] rows with these answers, and [P, F] how many of them have each feature.
    """

    codes: IntArray
    rows: FloatArray
    has: FloatArray


def answer_patterns(
    codes: IntArray, count: FloatArray, features: FloatArray
) -> AnswerPatterns | None:
    """Return the rows of answers of a partition [N, D] and who has them; None if they are many."""
    if codes.shape[1] > MOST_ANSWERED:
        return None
    return _together(codes, count, features * count[:, None])


def _together(codes: IntArray, rows: FloatArray, has: FloatArray) -> AnswerPatterns | None:
    found, at = np.unique(codes, axis=0, return_inverse=True)
    total = np.zeros((len(found), has.shape[1]))
    np.add.at(total, at, has)
    answers = AnswerPatterns(found, np.bincount(at, rows, len(found)).astype(float), total)
    return answers if len(found) <= MOST_ANSWERS else None


def answer_sections(
    parts: Sequence[AnswerPatterns | None], columns: Sequence[Column]
) -> list[Section]:
    """Show all rows of answers, the most frequent first, where a table has few."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or not known[0].has.shape[1]:
        return []
    columns_of = ("codes", "rows", "has")
    found = _together(*(np.concatenate([getattr(p, name) for p in known]) for name in columns_of))
    if found is None:
        return []
    order = np.argsort(-found.rows, kind="stable")[: np.count_nonzero(found.rows)]
    codes, count, has = found.codes[order], found.rows[order], found.has[order]
    heads = ["how many", *(c.shown for c in columns)]
    for k in range(has.shape[1]):
        heads += [f"P(feature {k + 1})", f"with feature {k + 1}"]
    rows = [
        [
            f"{n:,.0f} row{'' if n == 1 else 's'}",
            *(c.levels[r] if r >= 0 else "missing" for c, r in zip(columns, code, strict=True)),
            *(text for one in own for text in (chance_in_words(one / n), f"{one:,.1f}")),
        ]
        for code, n, own in zip(codes.tolist(), count.tolist(), has.tolist(), strict=True)
    ]
    text = (
        "One line is one combination of answers. P: the probability that a row with these answers "
        "has the feature; near 50 % the answers do not say. With a feature: how many of them are "
        "expected to have it."
    )
    above, total = count[has[:, 0] > 0.5 * count].sum(), has[:, 0].sum()
    if has.shape[1] == 1 and round(above) != round(total):
        unclear = "misses unclear ones who have it"
        if above > total:
            unclear = "adds unclear ones who do not have it"
        text += (
            f"\nTo estimate how many have it, add the probabilities ({total:,.0f}). Counting those "
            f"above 50 % instead ({above:,.0f}) {unclear}."
        )
    return [Section("Who has which answers", text, (), (Grid(heads, rows),), needs_fit=True)]


def occurrence_sections(found: Occurrence) -> list[Section]:
    """Tables 1 to 5: which features rows have together, and how often; none of a single feature."""
    n = len(found.total)
    if n < 2:
        return []
    frequent = [
        (", ".join(str(k + 1) for k in on) or "none", count) for on, count in found.frequent
    ]
    patterns = Grid(
        ("features", "rows"), frequent,
        "Most frequent patterns: the features that a row has, and no others.",
    )  # fmt: skip
    text = (
        "Here a row has a feature if its probability is above 50 %. A feature's share of the rows "
        "is the mean of all probabilities, so it can differ from these counts."
    )
    return [Section("Which features go together", text, (), (patterns, *_pair_grids(found)))]


def _pair_grids(found: Occurrence) -> tuple[Grid, Grid]:
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
    most = f" (of the {n} most common features)" if n < len(found.total) else ""
    return (
        Grid(
            ("", *names),
            joint,
            f"Share of rows with both features{most}: found (above the diagonal), and expected if "
            "features were independent (below).",
        ),
        Grid(
            ("given", *names), given,
            "Share of the rows with the feature at the left that have the one above.",
        ),
    )  # fmt: skip


def _percent(value: float) -> str:
    return "" if np.isnan(value) else f"{100 * value:.0f}\u00a0%"


_MIXTURE = "their mixture"


def filling_section(
    model: CompletedIBP, q: CompletedGlobal, results: dict[str, Any]
) -> tuple[list[Section], list[str]]:
    """Return the section on missing cells and its warnings; numbers go to ``results``."""
    if q.completion is None:
        return [], []
    at = completion(model, q)
    if at is None:
        return [], [
            f"max_iter ended the fit before the models that fill missing cells had learned, which "
            f"takes {model.members.sweeps()} sweeps: cells are filled by the features alone."
        ]
    results["filling"] = {
        "hidden_cells": int(at.hidden),
        "members": {
            name: {"weight": float(weight), "log_probability": float(log_p)}
            for name, weight, log_p in zip(MEMBERS, at.weights, at.log_p, strict=True)
        },
        "mixture": float(at.mixture),
    }
    rows = [
        (name, f"{100.0 * weight:.0f}\u00a0%", f"{log_p:.4f}")
        for name, weight, log_p in zip(MEMBERS, at.weights, at.log_p, strict=True)
    ]
    rows.append((_MIXTURE, "", f"{at.mixture:.4f}"))
    baselines, warnings = _baseline_grids(results)
    return [
        Section(
            "How missing cells are filled",
            f"Several models learned the table while {int(at.hidden):,} known cells were hidden "
            "from them. Their weights are those under which their mixture gives the hidden cells "
            "about the highest probability, so on other cells the mixture may be a little worse. "
            "Then all learned from the hidden cells, too.",
            (),
            (
                Grid(("model", "weight", "mean log probability of a hidden cell"), rows),
                *baselines,
            ),
        )
    ], warnings


BASELINES = {
    "logistic": ("one logistic regression a column", "One logistic regression for each column"),
    "classes": ("latent classes", "Latent class analysis"),
    "shares": ("the columns' shares", "The columns' shares"),
}
"""By name in run.json: as in the table, and as a sentence begins with it."""


def _baseline_grids(results: dict[str, Any]) -> tuple[list[Grid], list[str]]:
    """Say how simple baselines do on the same cells; warn of the best one that is better."""
    scores = {name: results.get(f"filling_baseline_{name}") for name in BASELINES}
    found = {name: one for name, one in scores.items() if one is not None}
    if not found:
        return [], []
    rows = [
        (
            BASELINES[name][0] + (f" ({one['classes']} by the BIC)" if one["classes"] else ""),
            f"{one['cells']:,}",
            f"{one['rows']:,}",
            f"{one['baseline']:.4f}",
            _difference(one),
        )
        for name, one in found.items()
    ]
    note = (
        "Simple baselines on some of these cells, which they never saw. A difference above 0 means "
        "that the mixture is better. Latent classes are fitted by EM; the BIC chooses their number."
    )
    heads = (
        "baseline", "hidden cells", "rows it learned from", "mean log probability of a hidden cell",
        "mixture minus baseline (95 % interval)",
    )  # fmt: skip
    better = {n: one for n, one in found.items() if one["difference"] < -2.0 * one["error"]}
    if not better:
        return [Grid(heads, rows, note)], []
    name = max(better, key=lambda n: -better[n]["difference"])
    one = better[name]
    verb = "fill" if name == "shares" else "fills"
    return [Grid(heads, rows, note)], [
        f"{BASELINES[name][1]} {verb} cells better here (mean log probability "
        f"{one['baseline']:.4f} against {one['mixture']:.4f} on the same hidden cells): use that "
        "to fill missing cells."
    ]


def _difference(one: Mapping[str, Any]) -> str:
    mean, half = one["difference"], 1.96 * one["error"]
    return f"{mean:+.4f} ({mean - half:+.4f} to {mean + half:+.4f})"


def fit_section(model: Any, q: Any, results: dict[str, Any]) -> tuple[list[Section], list[str]]:
    """Return the section on the fit and its warnings; numbers go to ``results``."""
    if isinstance(model, LaplaceIBP):
        return [], [
            "Features are those of the last draw of the collapsed sampler's one chain; their "
            f"probabilities are shares of its {model.draws} draws after {model.warmup}. The trace "
            "is log p(data, features), then the bound at these features."
        ]
    if isinstance(q, CompletedGlobal):
        cells, warnings = filling_section(model, q, results)
        results["search"] = _search(q.search)
        return cells, warnings
    return [], []


def _search(q: SearchGlobal) -> dict[str, Any]:
    """Return how the model was found, for run.json."""
    history = q.history
    return {
        "starts": q.starts.tolist(),
        "slots": q.slots,
        "rounds": q.round,
        "passes": q.sweep,
        "sampled": bool(q.widened),
        "measured": history.tried,
        "moves": [
            {"move": str(stage), "before": int(size[0]), "after": int(size[1]), "gain": float(gain)}
            for stage, size, gain in zip(history.stages, history.sizes, history.gains, strict=True)
        ],
    }
