"""What the experts report says of how the model was chosen: its parts, and why."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.data.names import listed
from flows.experts.effect_report import pairs_of
from flows.report.page import Grid, Section
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.additive.prior_choice import Choice
from vbmodels.experts.additive.states import Additive

NOTHING = 1e-9
"""A member's weight below which it has none."""
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
        "Parts were chosen on the fitted rows alone, by the log loss of rows that were left out of "
        "a fit in turn. These are other rows than the held-out ones, so the same model has "
        "another log loss here."
    )
    title = "What was tried, what it gained and what was taken"
    grid = Grid(("part", "log loss of rows left out in turn"), why, title, folded=True)
    text = f"Predictions are made of {members_in_words(posterior, additive)}."
    return [Section("How the model was chosen", text, (), [grid], how=how, needs_fit=True)]


def left_out_log_loss(additive: Additive, chosen: Choice | None) -> float:
    """Return the mean log loss of rows left out in turn, of the form that was chosen by it."""
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
    return (
        f"Curves against lines: the log loss of curves is {_less(additive.gain)} "
        f"(± {additive.error:.4f}, one standard error"
        f"{'; no clear difference' if unclear else ''}). {_TAKEN_FORM[additive.form]}"
    )


_TAKEN_FORM = {
    "intercept": "Neither is taken: the log loss of the base rate alone is not larger.",
    "lines": "The one with the smaller log loss, lines, is taken.",
    "curves": "The one with the smaller log loss, curves, is taken.",
}


def _less(gain: float) -> str:
    return f"{abs(gain):.4f} {'smaller' if gain >= 0.0 else 'larger'}"


_TAKEN = (
    "it is. Mixtures that are alike are averaged; the tables rows/ and experts/ have the experts "
    "of the best one."
)


def _mixtures(chosen: Choice, form: str) -> str:
    most = max(one.n_experts for one in chosen.candidates)
    taken = chosen.candidates[chosen.best].n_experts > 1
    return (
        f"Mixtures of up to {most} experts were tried: the log loss of the best is "
        f"{_less(chosen.gain)} than without one (± {chosen.error:.4f}, one standard error). "
        f"Without one means the {form} above, fitted again on fewer rows, so with another log "
        "loss. A mixture is taken if its log loss is smaller by more than one standard error: "
        + (_TAKEN if taken else "none is.")
    )


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
