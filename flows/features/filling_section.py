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
    text, warnings = _beside(results.get("filling_beside_logistic"))
    return [
        Section(
            "How missing cells are filled",
            f"Several models learned the table while {int(at.hidden):,} known cells were hidden "
            "from them; the weights climbed to where their mixture gives these cells about the "
            "highest probability, and then all learned from these cells, too. The last line is the "
            "mixture on the same cells, from which it has its weights: on others it may be a "
            "little lower."
            f"{text}",
            (),
            (
                Grid(
                    ("model", "weight", "mean log probability", "geometric mean probability"), rows
                ),
            ),
        )
    ], warnings


def _beside(rival: dict[str, Any] | None) -> tuple[str, list[str]]:
    """Say how one logistic regression a column does on the same cells; warn where it is better."""
    if rival is None:
        return "", []
    text = (
        f" On {rival['cells']:,} of them one logistic regression for each column, learned from "
        f"{rival['rows']:,} of the rows, has a mean log probability of {rival['rival']:.4f}, the "
        f"mixture {rival['mixture']:.4f} (difference {rival['difference']:+.4f}, standard error "
        f"{rival['error']:.4f}). The regressions never saw these cells, the mixture has its "
        "weights from them, which flatters it a little where they are few."
    )
    if rival["difference"] > -2.0 * rival["error"]:
        return text, []
    return text, [
        "One logistic regression for each column fills cells better here (mean log probability "
        f"{rival['rival']:.4f} against {rival['mixture']:.4f} on the same hidden cells): use that "
        "where it is missing cells that you are after."
    ]
