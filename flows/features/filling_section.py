"""How missing cells were filled: which models did, by what weights, and how well."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.report.page import Grid, Section
from vbmodels.features.completion.searched import CompletedGlobal, CompletedIBP
from vbmodels.features.completion.states import MEMBERS
from vbmodels.features.forms import completion

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
            name: {"weight": float(weight), "log_probability": float(told)}
            for name, weight, told in zip(MEMBERS, at.weights, at.told, strict=True)
        },
        "mixture": float(at.mixture),
    }
    rows = [
        (name, f"{weight:.0%}", f"{told:.4f}", f"{np.exp(told):.3f}")
        for name, weight, told in zip(MEMBERS, at.weights, at.told, strict=True)
    ]
    rows.append((_MIXTURE, "", f"{at.mixture:.4f}", f"{np.exp(at.mixture):.3f}"))
    beside, warnings = _beside(results)
    return [
        Section(
            "How missing cells are filled",
            f"Several models learned the table while {int(at.hidden):,} known cells were hidden "
            "from them; the weights climbed to where their mixture gives these cells about the "
            "highest probability, and then all learned from these cells, too. The last line is the "
            "mixture on the same cells, from which it has its weights: on others it may be a "
            "little lower.",
            (),
            (
                Grid(
                    ("model", "weight", "mean log probability", "geometric mean probability"), rows
                ),
                *beside,
            ),
        )
    ], warnings


RIVALS = {
    "logistic": ("one logistic regression a column", "One logistic regression for each column"),
    "classes": ("latent classes", "Latent class analysis"),
    "shares": ("the columns' shares", "The columns' shares"),
}
"""By name in run.json: as in the table, and as a sentence begins with it."""


def _beside(results: dict[str, Any]) -> tuple[list[Grid], list[str]]:
    """Say how simple rivals do on the same cells; warn of the best one that is better."""
    told = {name: results.get(f"filling_beside_{name}") for name in RIVALS}
    found = {name: one for name, one in told.items() if one is not None}
    if not found:
        return [], []
    rows = [
        (
            RIVALS[name][0] + (f" ({one['classes']} by the BIC)" if one["classes"] else ""),
            f"{one['cells']:,}",
            f"{one['rows']:,}",
            f"{one['rival']:.4f}",
            f"{one['mixture']:.4f}",
            f"{one['difference']:+.4f} \u00b1 {one['error']:.4f}",
        )
        for name, one in found.items()
    ]
    note = (
        "Simple rivals on some of these cells, which they never saw: how many cells, the rows that "
        "the rival learned from, mean log probabilities, and the mixture's less the rival's with "
        "its standard error. The mixture has its weights from these cells, which flatters it a "
        "little where they are few. Latent classes are fitted by EM; the BIC chooses their number."
    )
    heads = ("rival", "cells", "rows", "log probability", "the mixture's", "difference")
    better = {n: one for n, one in found.items() if one["difference"] < -2.0 * one["error"]}
    if not better:
        return [Grid(heads, rows, note)], []
    name = max(better, key=lambda n: -better[n]["difference"])
    one = better[name]
    verb = "fill" if name == "shares" else "fills"
    return [Grid(heads, rows, note)], [
        f"{RIVALS[name][1]} {verb} cells better here (mean log probability {one['rival']:.4f} "
        f"against {one['mixture']:.4f} on the same hidden cells): use that where it is missing "
        "cells that you are after."
    ]
