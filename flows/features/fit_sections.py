"""How the fit of the features went: the search, and the filling of cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flows.report.page import Grid, Section
from vbmodels.features.forms import completion
from vbmodels.features.imputation.model import CompletedGlobal, CompletedIBP
from vbmodels.features.imputation.states import MEMBERS
from vbmodels.features.laplace_gibbs import LaplaceIBP
from vbmodels.features.search.states import SearchGlobal

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
