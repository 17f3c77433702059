"""What is said of the difference between case and control that was taken as the null."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.report import plots
from flows.report.page import Grid, Section
from vbmodels.variants.batch_null import BatchGlobal, BatchNull, names_of_types
from vbmodels.variants.panel import PanelGlobal, PanelNull

LEAST_SHIFT, LEAST_Z = 0.4, 4.0
MOST_TAU, MOST_V = 0.5, 0.02
EXCHANGEABLE = "exchangeable: without a variant the samples differ at random only"


def null_of(model: Any, q: Any) -> str:
    """Return what no variant means, for the header of a VCF."""
    if not isinstance(model, BatchNull):
        return EXCHANGEABLE
    factors = ", ".join(
        f"{name} x{np.exp(b):.2f}" for name, b in zip(names_of_types(), q.shift, strict=True)
    )
    if q.of_context is not None:
        factors += "; by the bases beside it too, in the posterior's context_shift"
    against = "panel's" if isinstance(model, PanelNull) else "control's"
    return (
        f"batch: without a variant the case's error rates are the {against} times a factor by "
        f"substitution ({factors}), and sites differ by tau = {q.tau:.3f} in logit"
    )


def batch_results(q: BatchGlobal) -> dict[str, float]:
    """Return the largest factor between the samples, and how far sites differ."""
    largest = float(q.shift[np.abs(q.shift).argmax()])
    return {
        "largest_factor": round(float(np.exp(largest)), 3),
        "site_sd": round(q.tau, 4),
        "share_of_outlying_sites": round(q.v, 5),
    }


def batch_warnings(q: BatchGlobal, case: str, control: str) -> list[str]:
    """Say where the samples differ by more than chance, and what was made of it."""
    if abs(q.shift_mean) > LEAST_SHIFT and np.all(np.abs(q.shift) > 0.5 * LEAST_SHIFT):
        told = [
            f"Errors are {np.exp(q.shift_mean):.1f} times as frequent in {case} as in {control}: "
            "this was taken as the null; a different library preparation or another sequencing "
            "run is likely."
        ]
        seen = q.shift - q.shift_mean
    else:
        told, seen = [], q.shift
    marked = (np.abs(seen) > LEAST_SHIFT) & (np.abs(seen) > LEAST_Z * q.shift_se)
    told += [
        f"{name} errors are {np.exp(b):.1f} times as frequent in {case} as in {control}: this was "
        "taken as the null; a different library preparation or oxidation is likely."
        for name, b, mark in zip(names_of_types(), q.shift, marked, strict=True)
        if mark
    ]
    # What is usual between samples a panel shows, and tau has learned it.
    if (q.tau > MOST_TAU and not isinstance(q, PanelGlobal)) or q.v > MOST_V:
        told.append(
            f"Sites differ between {case} and {control} beyond replicates (tau = {q.tau:.2f}, "
            f"{q.v:.1%} of sites far off): a call of a small share rests on few replicates; look "
            "at a control of the same protocol."
        )
    return told


def batch_section(q: BatchGlobal, case: str, control: str) -> Section:
    """Return the difference by substitution, as a table and a picture."""
    names = names_of_types()
    factor = np.exp(q.shift)
    low, high = np.exp(q.shift - 1.96 * q.shift_se), np.exp(q.shift + 1.96 * q.shift_se)
    rows = [
        (name, round(float(b), 3), round(float(se), 3), round(float(f), 2), f"{lo:.2f} to {hi:.2f}")
        for name, b, se, f, lo, hi in zip(
            names, q.shift, q.shift_se, factor, low, high, strict=True
        )
    ]
    columns = ("substitution", "b", "standard error", "factor", "95 % interval")
    control_rate = q.a / (q.a + q.b)
    picture = plots.paired_intervals(
        names,
        [
            ("case", list(zip(control_rate * factor, control_rate * low, control_rate * high,
                              strict=True))),
            ("control", [(float(r), float(r), float(r)) for r in control_rate]),
        ],
        "error rate",
    )  # fmt: skip
    text = (
        f"Error rates of {case} (filled, with the 95 % interval of the factor) against those of "
        f"{control} (open), by substitution. What differs alike at all sites of a substitution "
        "is the null: the factor exp(b) is no evidence for variants. Sites differ by a standard "
        f"deviation of {q.tau:.3f} around it in logit; {q.v:.2%} of them differ far more."
    )
    return Section("Differences between the samples", text, (picture,), (Grid(columns, rows),))
