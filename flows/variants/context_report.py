"""What is said of differences between case and control by the bases before and behind it."""

from __future__ import annotations

import numpy as np

from flows.report import plots
from flows.report.page import Grid, Section
from flows.variants.batch_report import LEAST_SHIFT
from vbmodels.core.state import IntArray
from vbmodels.variants.batch_null import BatchGlobal, names_of_types
from vbmodels.variants.contexts import names_of_contexts

MOST_TOLD, MOST_SHOWN = 3, 12
LEAST_Z = 5.0  # of 192, whose errors are given b_t and some 1.3 times too small


def marked(q: BatchGlobal) -> IntArray:
    """Return the contexts that surely differ from their substitution, the furthest first."""
    assert q.of_context is not None
    assert q.context_se is not None
    off = q.of_context - q.shift[:, None]
    sure = (np.abs(off) > LEAST_SHIFT) & (np.abs(off) > LEAST_Z * q.context_se)
    sure[:, -1] = False
    order = np.argsort(-np.abs(off), axis=None, kind="stable")
    return order[sure.ravel()[order]]


def context_warnings(q: BatchGlobal, case: str, control: str) -> list[str]:
    """Say in which contexts errors differ from those of their substitution elsewhere."""
    if q.of_context is None:
        return []
    names, found = names_of_contexts(), marked(q)
    if not len(found):
        return []
    some = ", ".join(
        f"{names[i]} x{np.exp(q.of_context.flat[i]):.1f}" for i in found[:MOST_TOLD].tolist()
    )
    more = f" and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
    return [
        f"Errors of {case} against {control} differ by the bases beside them ({some}{more}): this "
        "was taken as the null; oxidation or deamination is likely."
    ]


def context_section(q: BatchGlobal) -> Section:
    """Return the differences by substitution and context, as a picture and a table."""
    assert q.of_context is not None
    assert q.context_se is not None
    names = names_of_contexts()
    size = q.of_context.shape[1]
    picture = plots.heat_map(
        names_of_types(),
        [f"{name[0]}_{name[-1]}" for name in names[: size - 1]],
        (q.of_context[:, :-1] / np.log(2.0)).tolist(),
        "log2 of the factor, by substitution and the bases before and behind it",
    )
    off = np.abs(q.of_context - q.shift[:, None])
    off[:, -1] = 0.0
    order = np.argsort(-off, axis=None, kind="stable")[:MOST_SHOWN].tolist()
    rows = [
        (
            names[i], round(float(np.exp(q.of_context.flat[i])), 2),
            round(float(np.exp(q.shift[i // size])), 2), round(float(q.context_se.flat[i]), 3),
        )
        for i in order
    ]  # fmt: skip
    text = (
        "By how much the case's error rates are those of the control, by the bases beside a "
        "location: blue where it has more. A context that few locations have takes the factor of "
        "its substitution. "
        f"{len(marked(q))} of {off[:, :-1].size} surely differ from that. The table has the "
        "furthest."
    )
    header = ("context", "factor", "factor of the substitution", "standard error of its log")
    return Section(
        "Differences by context",
        text,
        (picture,),
        (Grid(header, rows),),
    )
