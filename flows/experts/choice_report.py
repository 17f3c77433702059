"""What the experts report says of the model: its parts and why, its experts, a sampler's chains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.data.names import listed
from flows.experts.effect_report import pairs_of
from flows.experts.summary import ExpertSummary
from flows.report import plots
from flows.report.page import Grid, Section
from vbmodels.core.chains import Diagnosis
from vbmodels.core.state import FloatArray
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.additive.prior_choice import Choice
from vbmodels.experts.additive.states import Additive
from vbmodels.experts.bmem.metropolis import QUANTITIES
from vbmodels.experts.forms import AnyPosterior
from vbmodels.experts.posterior import Component

NOTHING = 1e-9
"""A member's weight below which it has none."""
UNSURE = 0.1
"""Standard deviation of an expert's mean share from which on shares are hardly determined."""
MOST_WEIGHTS = 12  # of an expert, shown
MOST_EXPERTS = 10
_FORMS = {
    "intercept": "the base rate alone",
    "lines": "a line for each column (logistic regression)",
    "curves": "a curve for each column",
}


def members_in_words(posterior: AdditivePosterior, additive: Additive) -> str:
    """Name what predicts, the largest weight first."""
    own = _FORMS[additive.form]
    if posterior.mixtures:
        own += " and a mixture of experts"
    members = [(posterior.own_weight, own)]
    if posterior.pairs is not None and posterior.pairs.terms is not None:
        name = f"curves with {pairs_of(len(posterior.pairs.terms.pairs))}"
        members.append((posterior.pairs_weight, name))
    if posterior.process is not None:
        members.append((posterior.weight, "a Gaussian process of all columns"))
    kept = sorted((m for m in members if m[0] > NOTHING), key=lambda m: -m[0])
    if len(kept) > 1:
        return listed([f"{name} ({100.0 * weight:.0f} %)" for weight, name in kept])
    return kept[0][1]


def choice_sections(
    posterior: Any, additive: Additive | None, chosen: Choice | None, results: dict[str, Any]
) -> list[Section]:
    """Say what predicts and why."""
    if additive is None:
        return []
    results["additive"] = {
        "form": additive.form, "gain": additive.gain, "gain_se": additive.error,
        "intercept_log_loss": -additive.intercept,
    }  # fmt: skip
    if chosen is not None:
        best = chosen.candidates[chosen.best]
        results["chosen"] = {"n_experts": best.n_experts, "tau": best.tau}
        results["mixtures"] = {"gain": chosen.gain, "gain_se": chosen.error}
    if additive.process:
        results["gaussian_process"] = {"weight": additive.weight, "gain": additive.process_gain}
    text = (
        f"Predictions are made of {members_in_words(posterior, additive)}: the parts with the "
        "smallest log loss in cross-validation on the fitted rows."
    )
    return [Section("How the model was chosen", text, needs_fit=True)]


def left_out_log_loss(additive: Additive, chosen: Choice | None) -> float:
    """Return the mean log loss in cross-validation, of the form that was chosen by it."""
    if chosen is not None and chosen.candidates[chosen.best].n_experts > 1:
        return -float(chosen.held_out[chosen.best])
    lines = float(additive.left_out.max())
    forms = {"intercept": additive.intercept, "lines": lines, "curves": additive.curves}
    value = forms[additive.form]
    return -(lines if value is None else float(value))


def tau_in_words(additive: Additive, chosen: Choice | None) -> str:
    """Return the strengths of the priors that were used."""
    lines = f"{additive.taus[int(np.argmax(additive.left_out))]:g}"
    said = "estimated for each column" if additive.form == "curves" else lines
    best = None if chosen is None else chosen.candidates[chosen.best]
    return f"{said}; {best.tau:g} for experts" if best and best.n_experts > 1 else said


def expert_section(
    posterior: AnyPosterior, summaries: Sequence[ExpertSummary], shown: FloatArray,
    adds: bool, drawn: bool,
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
    grid = Grid(("expert", "rows", "mean share"), table, caption)
    return Section("The experts", said, charts, [grid], needs_fit=True)


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
    text = (
        "Numbers that do not depend on the order of the experts. R-hat near 1 says that the "
        "chains agree; effective draws count what is independent, for means and for tails."
    )
    grid = Grid(("quantity", "mean", "sd", "R-hat", "effective draws", "in the tails"), rows)
    return [Section("How far the chains can be trusted", text, (), (grid,), needs_fit=True)]
