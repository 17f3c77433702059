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
    share = sum((s.share for s in summaries), np.zeros(len(shown)))
    by_draw = sum((s.drawn for s in summaries), np.zeros_like(summaries[0].drawn))
    unsure = bool(by_draw.std(0).max() >= UNSURE * rows)
    text = _how_to_read(drawn, adds, len(posterior.components) > 1, unsure)
    charts = tuple(_weights(one, summaries[0].columns, shown))
    responsible = sum((s.responsible for s in summaries), np.zeros(len(shown)))
    grids = (_who(responsible, share, rows), *_angles(one, shown, results))
    return Section("The experts", text, charts, grids, needs_fit=True)


def _who(responsible: FloatArray, share: FloatArray, rows: int) -> Grid:
    order = np.argsort(-responsible)
    table = [(k + 1, int(responsible[k]), f"{100.0 * share[k] / rows:.1f} %") for k in order]
    caption = "Who is responsible: rows of which an expert has the largest share; mean share"
    return Grid(("expert", "rows", "mean share"), table, caption)


def largest_weights(one: Component, expert: int) -> list[int]:
    """Return an expert's columns of the largest weights, the largest first."""
    return [int(d) for d in np.argsort(-np.abs(one.mean[1, expert, :-1]))[:MOST_WEIGHTS]]


def chain_sections(chains: Diagnosis | None, results: dict[str, Any]) -> list[Section]:
    """Say how far a sampler's chains agree."""
    if chains is None:
        return []
    names = QUANTITIES if len(chains.mean) == len(QUANTITIES) else (QUANTITIES[0], QUANTITIES[2])
    results.update(
        largest_r_hat=chains.largest_r_hat,
        smallest_effective_draws=float(chains.ess_bulk.min()),
    )
    rows = [
        (name, float(chains.mean[i]), float(chains.sd[i]), f"{chains.r_hat[i]:.3f}",
         f"{chains.ess_bulk[i]:,.0f}", f"{chains.ess_tail[i]:,.0f}")
        for i, name in enumerate(names)
    ]  # fmt: skip
    return [
        Section(
            "How far the chains can be trusted",
            "Numbers that do not depend on the order of the experts. R-hat near 1 says that the "
            "chains agree; effective draws count what is independent, for means and for tails.",
            (),
            (Grid(("quantity", "mean", "sd", "R-hat", "effective draws", "in the tails"), rows),),
            needs_fit=True,
        )
    ]


def _how_to_read(drawn: bool, adds: bool, several: bool, unsure: bool) -> str:
    """Say what experts are, and how far they can be trusted."""
    said = "Each expert is a regression; its share of a row is the probability that it predicts it."
    said += " Its weights add to the curves above." if adds else ""
    said += " Several fits are averaged; these are the experts of the best one." if several else ""
    if not drawn:
        said += " Intervals of weights are somewhat too short."
    if unsure:
        said += " The shares are hardly determined: do not interpret single experts."
    return said


def _weights(one: Component, columns: Sequence[str], responsible: FloatArray) -> list[plots.Spec]:
    """Return a chart of the largest weights of each expert of enough rows."""
    pictures = []
    used = [k for k in np.argsort(-responsible) if responsible[k] > 0]
    for k in used[:MOST_EXPERTS]:
        chosen = largest_weights(one, int(k))
        pictures.append(
            plots.intervals(
                [columns[d] for d in chosen],
                [float(one.mean[1, k, d]) for d in chosen],
                [float(one.sd[1, k, d]) for d in chosen],
                "weight (log odds per standard deviation of the column)",
                f"Expert {k + 1}: its largest weights ({responsible[k]:,.0f} rows)",
            )
        )
    return pictures


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
    caption = (
        f"How different the experts are: the angle between their weights (90 degrees: unrelated), "
        f"and the share of their {most} largest weights that are the same columns"
    )
    names = ("experts", "angle (degrees)", "same columns (share)")
    return [Grid(names, rows[:45], caption, folded=True)]
