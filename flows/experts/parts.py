"""What a model is made of: parts, weights, experts, chains, and what columns add to predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from flows.experts.scored import NumberModel, Shares
from vbmodels.core.draws import Diagnosis
from vbmodels.core.state import FloatArray
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.posterior import AdditivePosterior
from vbmodels.experts.bmem.metropolis import QUANTITIES
from vbmodels.experts.effects import QUANTILES, Effect, GroupEffect, PairEffect
from vbmodels.experts.forms import AnyPosterior
from vbmodels.experts.posterior import Component
from vbmodels.tables.levels import order_of

MOST_BARS, MOST_PAIRS, MOST_OF_CLASS = 12, 6, 3
"""Bars of the strongest columns, pairs, and columns of each of several classes."""
DIGITS = 5


@dataclass(frozen=True)
class Bar:
    """What a high value of a column adds beyond a low one, or a level beyond the others.

    Attributes
    ----------
    column, level
        What it is of; no level for a number.
    more
        How many other columns, which measure much the same, go with it.
    change, sd
        What is added, and its standard deviation.
    turns
        Whether the column adds more on the way than at its ends.
    """

    column: str
    level: str
    more: int
    change: float
    sd: float
    turns: bool


@dataclass(frozen=True)
class Curve:
    """What the values of a column add, less the mean over rows; see `vbmodels.experts.effects`."""

    column: str
    more: int
    kind: str
    at: tuple[float, ...]
    levels: tuple[str, ...]
    mean: tuple[float, ...]
    sd: tuple[float, ...]
    data: tuple[float, ...]


@dataclass(frozen=True)
class Pair:
    """What two columns add together beyond their curves."""

    columns: tuple[str, str]
    rows: tuple[str, ...]
    across: tuple[str, ...]
    mean: tuple[tuple[float, ...], ...]
    sd: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Effects:
    """What columns add to a sum.

    Attributes
    ----------
    of
        The class that the sum is of, where there are several.
    strengths
        Standard deviation over rows of what each column and pair adds, the largest first.
    bars, curves
        Those of the columns that move predictions most, the surest first.
    bars_in_all
        How many bars there would be.
    bar_ends, ends
        Ends of the scales of bars and of curves.
    alike
        Columns that share a bar; -1 for one that falls where the first rises.
    pairs, pairs_in_all, top
        The strongest pairs, how many there are, and the largest size of what one adds.
    """

    of: str
    strengths: dict[str, float]
    bars: tuple[Bar, ...]
    curves: tuple[Curve, ...]
    bars_in_all: int
    bar_ends: tuple[float, float]
    ends: tuple[float, float]
    alike: tuple[dict[str, float], ...] = ()
    pairs: tuple[Pair, ...] = ()
    pairs_in_all: int = 0
    top: float = 0.0


def effects_shown(
    effects: Sequence[Effect],
    pairs: Sequence[PairEffect] = (),
    groups: Sequence[GroupEffect] = (),
    of: str = "",
    most: int = MOST_BARS,
) -> Effects | None:
    """Return what is shown of effects; None where nothing adds anything."""
    strengths = {effect.column: effect.spread for effect in effects if effect.spread > 0.0}
    strengths |= {" and ".join(pair.columns): pair.spread for pair in pairs if pair.spread > 0.0}
    if not strengths:
        return None
    every, others = _with_groups([effect for effect in effects if effect.spread > 0.0], groups)
    largest = sorted(every, key=lambda effect: -effect.size)[:most]
    largest.sort(key=lambda effect: not effect.sure)
    change, sd = (np.array([getattr(o, n) for o in largest]) for n in ("change", "change_sd"))
    shown = pairs[:MOST_PAIRS]
    return Effects(
        of,
        dict(sorted(strengths.items(), key=lambda item: -item[1])),
        tuple(_bar(effect, others.get(effect.column, 0)) for effect in largest),
        tuple(_curve(effect, others.get(effect.column, 0)) for effect in largest),
        len(every),
        _common_ends([(change, 1.1 * sd)], 2.0),
        _common_ends([(effect.mean, effect.sd) for effect in largest], 0.5),
        tuple(dict(group.columns) for group in groups),
        tuple(
            Pair(pair.columns, pair.rows, pair.across, _table(pair.mean), _table(pair.sd))
            for pair in shown
        ),
        len(pairs),
        max((float(np.abs(pair.mean).max()) for pair in shown), default=0.0) or 1.0,
    )


def _with_groups(
    effects: Sequence[Effect], groups: Sequence[GroupEffect]
) -> tuple[list[Effect], dict[str, int]]:
    """Put groups in the place of their columns; return by name how many others each holds."""
    shown, others = list(effects), {}
    for columns, change, change_sd, mean, sd in groups:
        name = next(iter(columns))
        first = next(effect for effect in effects if effect.column in columns)
        shown = [effect for effect in shown if effect.column not in columns]
        others[name] = len(columns) - 1
        shown.append(
            replace(
                first,
                column=name,
                kind="quantiles",
                at=100.0 * QUANTILES,
                mean=mean,
                sd=sd,
                data=np.empty(0),
                spread=0.0,
                change=change,
                change_sd=change_sd,
            )
        )
    return shown, others


def _bar(effect: Effect, others: int) -> Bar:
    turns = not effect.level and not others and abs(effect.change) < effect.spread
    return Bar(
        effect.column, effect.level, others, float(effect.change), float(effect.change_sd), turns
    )


def _curve(effect: Effect, others: int) -> Curve:
    order: Any = _by_scale(effect.levels) if effect.kind == "levels" else slice(None)
    levels = tuple(np.array(effect.levels, object)[order].tolist())
    data = effect.data[order] if effect.data.size == len(levels) else effect.data
    numbers = (_row(values) for values in (effect.mean[order], effect.sd[order], data))
    return Curve(effect.column, others, effect.kind, _row(effect.at), levels, *numbers)


def _row(values: FloatArray) -> tuple[float, ...]:
    return tuple(float(f"{value:.{DIGITS}g}") for value in np.asarray(values, float).tolist())


def _table(values: FloatArray) -> tuple[tuple[float, ...], ...]:
    return tuple(_row(row) for row in values)


def _by_scale(levels: Sequence[str]) -> list[int]:
    """Return the places of levels in the order of their scale, those of no scale last.

    >>> _by_scale(["medium", "high", "missing", "low"]), _by_scale(["b", "a"])
    ([3, 0, 1, 2], [0, 1])
    """
    named = [level for level in levels if level != "missing"]
    order = order_of(named) or order_of(named[:-1])  # the last may be rare levels together
    places = {level: rank for rank, level in enumerate(order)}
    return sorted(range(len(levels)), key=lambda k: places.get(levels[k], len(order)))


def _common_ends(
    bands: Sequence[tuple[FloatArray, FloatArray]], beyond: float
) -> tuple[float, float]:
    """Return the ends of one scale for all: bands too, but for what is far ``beyond`` the means."""
    least = min(0.0, *(float(mean.min()) for mean, _ in bands))
    most = max(0.0, *(float(mean.max()) for mean, _ in bands))
    room = beyond * (most - least) or 1.0
    low = min(float((mean - 1.96 * sd).min()) for mean, sd in bands)
    high = max(float((mean + 1.96 * sd).max()) for mean, sd in bands)
    low, high = min(low, 0.0), max(high, 0.0)
    return float(f"{max(low, least - room):.3g}"), float(f"{min(high, most + room):.3g}")


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
    """

    name: Literal["intercept", "lines", "curves", "pairs", "process"]
    with_experts: bool
    weight: float
    pairs: int = 0


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


def parts_of(model: Any, q: Any) -> tuple[Part, ...]:
    """Return what predicts, the largest weight first."""
    if isinstance(model, NumberModel) and q.chosen is not None:
        pairs, process = q.chosen.pairs_weight, q.chosen.process_weight
        weights = {
            q.chosen.form: (1.0 - pairs) * (1.0 - process),
            "pairs": pairs * (1.0 - process),
            "process": process,
        }
        return _by_weight([Part(name, False, weight) for name, weight in weights.items()])
    if not isinstance(model, AdditiveExperts):
        return ()
    posterior = model.posterior(q)
    form: Any = q.additive.form
    parts = [Part(form, bool(posterior.mixtures), float(posterior.own_weight))]
    if posterior.pairs is not None and posterior.pairs.terms is not None:
        count = len(posterior.pairs.terms.pairs)
        parts.append(Part("pairs", False, posterior.pairs_weight, count))
    if posterior.process is not None:
        parts.append(Part("process", False, posterior.weight))
    return _by_weight(parts)


def _by_weight(parts: Sequence[Part]) -> tuple[Part, ...]:
    return tuple(sorted((p for p in parts if p.weight > NOTHING), key=lambda p: -p.weight))


def experts_in(
    posterior: AnyPosterior, shares: Sequence[Shares], columns: Sequence[str], rows: int
) -> tuple[tuple[Expert, ...], bool]:
    """Return the experts of some rows, and whether their shares are hardly determined."""
    responsible, share, drawn = (
        np.sum([getattr(part, name) for part in shares], axis=0)
        for name in ("responsible", "share", "drawn")
    )
    main = responsible >= MAIN * rows
    weighs = not isinstance(posterior, AdditivePosterior) or posterior.own_weight > NOTHING
    adds = isinstance(posterior, AdditivePosterior)
    if not weighs or (adds and main.sum() < 2):
        return (), False
    component = posterior.components[0]
    order = np.argsort(-responsible)[:MOST_EXPERTS]
    experts = tuple(
        Expert(
            int(k) + 1, int(responsible[k]), float(share[k] / rows), _weights(component, k, columns)
        )
        for k in order.tolist()
    )
    return experts, bool(drawn.std(axis=0).max() >= UNSURE * rows)


def _weights(component: Component, expert: int, columns: Sequence[str]) -> tuple[Weight, ...]:
    mean: FloatArray = component.mean[1, expert, :-1]
    largest = np.argsort(-np.abs(mean))[:MOST_WEIGHTS].tolist()
    sd = component.sd[1, expert]
    return tuple(Weight(columns[d], float(mean[d]), float(sd[d])) for d in largest)


def chains_of(diagnosis: Diagnosis) -> tuple[tuple[Chain, ...], float]:
    """Return how far a sampler's chains agree, and the largest R-hat."""
    several = len(diagnosis.mean) == len(QUANTITIES)
    names = QUANTITIES if several else (QUANTITIES[0], QUANTITIES[2])
    chains = [
        Chain(
            name,
            float(diagnosis.mean[i]),
            float(diagnosis.sd[i]),
            None if np.isnan(diagnosis.r_hat[i]) else float(diagnosis.r_hat[i]),
            float(diagnosis.ess_bulk[i]),
            float(diagnosis.ess_tail[i]),
        )
        for i, name in enumerate(names)
    ]
    return tuple(chains), diagnosis.largest_r_hat
