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
from vbmodels.experts.bmem.normals import angles
from vbmodels.experts.forms import AnyPosterior
from vbmodels.experts.posterior import Component

NOTHING = 1e-9
"""A member's weight below which it has none."""
UNSURE = 0.1
"""Standard deviation of an expert's mean share from which on shares are hardly determined."""
MOST_WEIGHTS = 12  # of an expert, shown
MOST_EXPERTS = 10
TOP = 10  # weights whose overlap between experts is counted; of few columns, half
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
    why = [("curves", _curves(additive))]
    if chosen is not None:
        best = chosen.candidates[chosen.best]
        results["chosen"] = {"n_experts": best.n_experts, "tau": best.tau}
        form = additive.form.replace("intercept", "base rate")
        why.append(("experts", _mixtures(chosen, form)))
    if additive.process:
        why.append(("Gaussian process", _process(additive, results)))
    how = (
        "Parts were chosen by their log loss in cross-validation on the fitted rows alone. These "
        "are other rows than the held-out ones, so the same model has another log loss there."
    )
    title = "What was tried, what it gained and what was taken"
    grid = Grid(("part", "log loss in cross-validation"), why, title, folded=True)
    text = f"Predictions are made of {members_in_words(posterior, additive)}."
    return [Section("How the model was chosen", text, (), [grid], how=how, needs_fit=True)]


def left_out_log_loss(additive: Additive, chosen: Choice | None) -> float:
    """Return the mean log loss in cross-validation, of the form that was chosen by it."""
    if chosen is not None and chosen.candidates[chosen.best].n_experts > 1:
        return -float(chosen.held_out[chosen.best])
    lines = float(additive.left_out.max())
    forms = {"intercept": additive.intercept, "lines": lines, "curves": additive.curves}
    value = forms[additive.form]
    return -(lines if value is None else float(value))


def _curves(additive: Additive) -> str:
    if additive.curves is None:
        return "Curves were not fitted: only lines."
    unclear = abs(additive.gain) < 2.0 * additive.error
    taken = f"The one with the smaller log loss, {additive.form}, is taken."
    if additive.form == "intercept":
        taken = "Neither is taken: the log loss of the base rate alone is not larger."
    return (
        f"Curves against lines: the log loss of curves is {_less(additive.gain)} "
        f"(± {additive.error:.4f}, one standard error"
        f"{'; no clear difference' if unclear else ''}). {taken}"
    )


def _less(gain: float) -> str:
    return f"{abs(gain):.4f} {'smaller' if gain >= 0.0 else 'larger'}"


def _mixtures(chosen: Choice, form: str) -> str:
    most = max(one.n_experts for one in chosen.candidates)
    taken = chosen.candidates[chosen.best].n_experts > 1
    return (
        f"Mixtures of up to {most} experts were tried: the log loss of the best is "
        f"{_less(chosen.gain)} than without one (± {chosen.error:.4f}, one standard error). "
        f"Without one means the {form} above, fitted again on fewer rows, so with another log "
        "loss. A mixture is taken if its log loss is smaller by more than one standard error: "
        + ("it is. Mixtures that are alike are averaged; the tables rows/ and experts/ have the "
           "experts of the best one." if taken else "none is.")
    )  # fmt: skip


def tau_in_words(additive: Additive, chosen: Choice | None) -> str:
    """Return the strengths of the priors that were used."""
    lines = f"{additive.taus[int(np.argmax(additive.left_out))]:g}"
    said = "estimated for each column" if additive.form == "curves" else lines
    best = None if chosen is None else chosen.candidates[chosen.best]
    return f"{said}; {best.tau:g} for experts" if best and best.n_experts > 1 else said


def _process(additive: Additive, results: dict[str, Any]) -> str:
    weight = additive.weight
    results["gaussian_process"] = {"weight": weight, "gain": additive.process_gain}
    said = "A Gaussian process of all columns together "
    if weight:
        return said + (
            f"has a weight of {100.0 * weight:.0f} %: it makes the log loss "
            f"{additive.process_gain:.4f} smaller."
        )
    return (
        said + "was fitted too. Added to the rest it does not make the log loss smaller: not used."
    )


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
