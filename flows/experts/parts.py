"""What a model is made of: its parts with their weights, its experts, and a sampler's chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from flows.experts.scored import NumberModel, Shares
from vbmodels.core.chains import Diagnosis
from vbmodels.core.state import FloatArray
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.additive.prior_choice import Choice
from vbmodels.experts.additive.states import Additive
from vbmodels.experts.bmem.metropolis import QUANTITIES
from vbmodels.experts.forms import AnyPosterior
from vbmodels.experts.posterior import Component

NOTHING = 1e-9
"""A part's weight below which it has none."""
MAIN = 0.01
"""Share of the rows from which on an expert is shown."""
UNSURE = 0.1
"""Standard deviation of an expert's mean share from which on shares are hardly determined."""
MOST_WEIGHTS, MOST_EXPERTS = 12, 10


@dataclass(frozen=True)
class Part:
    """A part of the model with its weight in the predictions.

    Attributes
    ----------
    name
        What it is.
    with_experts
        Whether a mixture of experts adds to it.
    weight
        Its share.
    pairs
        How many pairs of columns it has.
    gain
        How much smaller it makes the log loss in cross-validation; None where that is not asked.
    """

    name: Literal["intercept", "lines", "curves", "pairs", "process"]
    with_experts: bool
    weight: float
    pairs: int = 0
    gain: float | None = None


@dataclass(frozen=True)
class Weight:
    """A column's weight: log odds per standard deviation of the column."""

    column: str
    mean: float
    sd: float


@dataclass(frozen=True)
class Expert:
    """An expert: rows of which it has the largest share, its mean share, its largest weights."""

    number: int
    rows: int
    share: float
    weights: tuple[Weight, ...]


@dataclass(frozen=True)
class Chain:
    """A quantity of a sampler that does not depend on the order of experts."""

    name: str
    mean: float
    sd: float
    r_hat: float | None
    ess_bulk: float
    ess_tail: float


def parts_of(model: Any, q: Any) -> tuple[tuple[Part, ...], float | None]:
    """Return what predicts, the largest weight first, and the log loss that chose it."""
    if isinstance(model, NumberModel) and q.chosen is not None:
        weight = float(q.chosen.pairs_weight)
        own = Part(q.chosen.form, False, 1.0 - weight)
        return _by_weight([own, Part("pairs", False, weight)]), None
    if not isinstance(model, AdditiveExperts):
        return (), None
    posterior, additive = model.posterior(q), q.additive
    form: Any = additive.form
    found = [Part(form, bool(posterior.mixtures), float(posterior.own_weight))]
    if posterior.pairs is not None and posterior.pairs.terms is not None:
        count = len(posterior.pairs.terms.pairs)
        found.append(Part("pairs", False, posterior.pairs_weight, count, additive.pairs_gain))
    if posterior.process is not None:
        found.append(Part("process", False, posterior.weight, 0, additive.process_gain))
    return _by_weight(found), _left_out_loss(additive, q.chosen)


def _by_weight(parts: Sequence[Part]) -> tuple[Part, ...]:
    kept = [one for one in parts if one.weight > NOTHING]
    return tuple(sorted(kept, key=lambda one: -one.weight))


def _left_out_loss(additive: Additive, chosen: Choice | None) -> float:
    """Return the mean log loss in cross-validation, of the form that was chosen by it."""
    if chosen is not None and chosen.candidates[chosen.best].n_experts > 1:
        return -float(chosen.held_out[chosen.best])
    lines = float(additive.left_out.max())
    forms = {"intercept": additive.intercept, "lines": lines, "curves": additive.curves}
    value = forms[additive.form]
    return -(lines if value is None else float(value))


def experts_in(
    posterior: AnyPosterior, shares: Sequence[Shares], columns: Sequence[str], rows: int
) -> tuple[tuple[Expert, ...], bool]:
    """Return the experts of some rows, and whether their shares are hardly determined."""
    responsible, share, drawn = (
        np.sum([getattr(one, name) for one in shares], axis=0)
        for name in ("responsible", "share", "drawn")
    )
    main = responsible >= MAIN * rows
    weighs = not isinstance(posterior, AdditivePosterior) or posterior.own_weight > NOTHING
    adds = isinstance(posterior, AdditivePosterior)
    if not weighs or (adds and main.sum() < 2):
        return (), False
    one = posterior.components[0]
    order = np.argsort(-responsible)[:MOST_EXPERTS]
    found = tuple(
        Expert(int(k) + 1, int(responsible[k]), float(share[k] / rows), _weights(one, k, columns))
        for k in order.tolist()
    )
    return found, bool(drawn.std(axis=0).max() >= UNSURE * rows)


def _weights(one: Component, expert: int, columns: Sequence[str]) -> tuple[Weight, ...]:
    mean: FloatArray = one.mean[1, expert, :-1]
    largest = np.argsort(-np.abs(mean))[:MOST_WEIGHTS].tolist()
    sd = one.sd[1, expert]
    return tuple(Weight(columns[d], float(mean[d]), float(sd[d])) for d in largest)


def chains_of(found: Diagnosis) -> tuple[tuple[Chain, ...], float]:
    """Return how far a sampler's chains agree, and the largest R-hat."""
    several = len(found.mean) == len(QUANTITIES)
    names = QUANTITIES if several else (QUANTITIES[0], QUANTITIES[2])
    chains = [
        Chain(
            name,
            float(found.mean[i]),
            float(found.sd[i]),
            None if np.isnan(found.r_hat[i]) else float(found.r_hat[i]),
            float(found.ess_bulk[i]),
            float(found.ess_tail[i]),
        )
        for i, name in enumerate(names)
    ]
    return tuple(chains), found.largest_r_hat
