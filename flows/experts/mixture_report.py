"""What the experts report says of a mixture's experts, and of a sampler's chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.experts.summary import ExpertSummary
from flows.report import plots
from flows.report.page import Grid, Section
from vbmodels.core.chains import Diagnosis
from vbmodels.core.state import FloatArray
from vbmodels.experts.bmem.metropolis import QUANTITIES
from vbmodels.experts.bmem.normals import angles
from vbmodels.experts.forms import AnyPosterior
from vbmodels.experts.posterior import Component

UNSURE = 0.1
"""Standard deviation of an expert's mean share from which on shares are hardly determined."""
MOST_WEIGHTS = 12  # of an expert, shown
MOST_EXPERTS = 10
TOP = 10  # weights whose overlap between experts is counted; of few columns, half


def expert_section(
    posterior: AnyPosterior, summaries: Sequence[ExpertSummary], shown: FloatArray,
    adds: bool, drawn: bool, results: dict[str, Any],
) -> Section:  # fmt: skip
    """Show the experts, of rows ``shown`` [K]; they ``adds`` to curves, or are ``drawn``."""
    one, rows = posterior.components[0], sum(s.rows for s in summaries)
    responsible, share = (
        sum((getattr(s, name) for s in summaries), np.zeros(len(shown)))
        for name in ("responsible", "share")
    )
    by_draw = sum((s.drawn for s in summaries), np.zeros_like(summaries[0].drawn))
    said = "Each expert is a regression; its share of a row is the probability that it predicts it."
    said += " Its weights add to the curves above." * adds
    if len(posterior.components) > 1:
        said += " Several fits are averaged; these are the experts of the best one."
    said += " Intervals of weights are somewhat too short." * (not drawn)
    if by_draw.std(0).max() >= UNSURE * rows:
        said += " The shares are hardly determined: do not interpret single experts."
    order = np.argsort(-responsible)
    table = [(k + 1, int(responsible[k]), f"{100.0 * share[k] / rows:.1f} %") for k in order]
    caption = "Who is responsible: rows of which an expert has the largest share; mean share"
    charts = []
    for k in [k for k in order[:MOST_EXPERTS] if shown[k] > 0]:
        most = largest_weights(one, int(k))
        charts.append(
            plots.intervals(
                [summaries[0].columns[d] for d in most], one.mean[1, k, most].tolist(),
                one.sd[1, k, most].tolist(),
                "weight (log odds per standard deviation of the column)",
                f"Expert {k + 1}: its largest weights ({shown[k]:,.0f} rows)",
            )
        )  # fmt: skip
    grids = Grid(("expert", "rows", "mean share"), table, caption), *_angles(one, shown, results)
    return Section("The experts", said, charts, grids, needs_fit=True)


def largest_weights(one: Component, expert: int) -> list[int]:
    """Return an expert's columns of the largest weights, the largest first."""
    return [int(d) for d in np.argsort(-np.abs(one.mean[1, expert, :-1]))[:MOST_WEIGHTS]]


def chain_sections(chains: Diagnosis | None, results: dict[str, Any]) -> list[Section]:
    """Say how far a sampler's chains agree."""
    if chains is None:
        return []
    names = QUANTITIES if len(chains.mean) == len(QUANTITIES) else (QUANTITIES[0], QUANTITIES[2])
    least = float(chains.ess_bulk.min())
    results.update(largest_r_hat=chains.largest_r_hat, smallest_effective_draws=least)
    rows = [
        (name, float(chains.mean[i]), float(chains.sd[i]), f"{chains.r_hat[i]:.3f}",
         f"{chains.ess_bulk[i]:,.0f}", f"{chains.ess_tail[i]:,.0f}")
        for i, name in enumerate(names)
    ]  # fmt: skip
    text = "Numbers that do not depend on the order of the experts. R-hat near 1 says that the "
    text += "chains agree; effective draws count what is independent, for means and for tails."
    grid = Grid(("quantity", "mean", "sd", "R-hat", "effective draws", "in the tails"), rows)
    return [Section("How far the chains can be trusted", text, (), (grid,), needs_fit=True)]


def _angles(one: Component, responsible: FloatArray, results: dict[str, Any]) -> list[Grid]:
    used = np.flatnonzero(responsible > 0)
    if len(used) < 2:
        return []
    vectors = one.mean[1][used][:, :-1]
    found = np.degrees(angles(vectors))
    most = min(TOP, max(1, vectors.shape[1] // 2))
    tops = [set(np.argsort(-np.abs(v))[:most].tolist()) for v in vectors]
    i, j = np.triu_indices(len(used), 1)
    overlap = [len(tops[a] & tops[b]) / len(tops[a] | tops[b]) for a, b in zip(i, j, strict=True)]
    results.update(mean_angle=float(found.mean()), mean_overlap=float(np.mean(overlap)))
    rows = [
        (f"{used[a] + 1} and {used[b] + 1}", f"{angle:.1f}", f"{o:.2f}")
        for angle, a, b, o in sorted(zip(found, i, j, overlap, strict=True))
    ]
    caption = "How different the experts are: the angle between their weights (90 degrees: "
    caption += (
        f"unrelated), and the share of their {most} largest weights that are the same columns"
    )
    names = ("experts", "angle (degrees)", "same columns (share)")
    return [Grid(names, rows[:45], caption, folded=True)]
