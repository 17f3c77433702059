"""What columns and pairs of columns add, as the report shows it: charts on one scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from flows.data.names import listed
from flows.report import plots
from flows.report.page import Section
from vbmodels.experts.effects import Effect, PairEffect

MOST_EFFECTS, MOST_PAIRS, MOST_BARS, MOST_OPEN = 12, 6, 12, 4
"""Effects and pairs that the report shows, bars of the strongest of both, and open curves."""
_ODDS = "; adding 0.7 doubles the odds"
_SHARED = " Columns that measure the same thing share one effect"
_TRADED = ": the model can trade one for another, and together they can predict well all the same"
LOG_ODDS = "log odds"
EFFECT = "effect (sd of added {})"
"""Name of the standard deviation of what a column or pair adds, in tables and on axes."""
NAMED, WEAK = 3, 0.1
"""Effects that are named, and the share of the largest below which one is not."""


def ranked(effects: Sequence[Effect], pairs: Sequence[PairEffect]) -> list[tuple[str, float]]:
    """Return columns and pairs with the standard deviation of what they add, the largest first."""
    found = [(one.column, one.spread) for one in effects]
    found += [(" and ".join(one.columns), one.spread) for one in pairs]
    return sorted((one for one in found if one[1] > 0.0), key=lambda one: -one[1])


def moved_by(effects: Sequence[Effect], pairs: Sequence[PairEffect]) -> str:
    """Name what moves predictions most in a sentence; empty where nothing does."""
    found = ranked(effects, pairs)
    names = [name for name, spread in found[:NAMED] if spread > WEAK * found[0][1]]
    if not names:
        return ""
    known = {one.column: one for one in effects} | {" and ".join(p.columns): p for p in pairs}
    uncertain = [name for name in names if _holds_zero(known[name])]
    effect = "effect" if len(names) == 1 else "effects"
    return f"Largest {effect}: {listed(names)}{_uncertain(uncertain, len(names))}."


def _holds_zero(one: Effect | PairEffect) -> bool:
    """Return whether the 95 % band of an effect holds zero everywhere."""
    return bool(np.all(np.abs(one.mean) <= 1.96 * one.sd))


def _named(one: Effect | PairEffect) -> str:
    """Name an effect, with an arrow where a curve's direction is sure and the same throughout."""
    if isinstance(one, PairEffect):
        return " and ".join(one.columns)
    steps = np.diff(one.mean)
    if one.kind == "levels" or _holds_zero(one) or not (np.all(steps >= 0) or np.all(steps <= 0)):
        return one.column
    return f"{one.column} {'↑' if one.mean[-1] > one.mean[0] else '↓'}"


def _uncertain(names: Sequence[str], named: int) -> str:
    """Say of which of the effects that were named the direction is uncertain."""
    if not names:
        return ""
    if len(names) == named:
        return "; its direction is uncertain" if named == 1 else "; none alone has a sure direction"
    return f"; the direction of {' and '.join(names)} is uncertain"


def strength_charts(
    effects: Sequence[Effect], pairs: Sequence[PairEffect], of: str
) -> list[plots.Spec]:
    """Return the chart of what moves predictions ``of`` most, or none where nothing does."""
    every: list[Effect | PairEffect] = [*effects, *pairs]
    found = sorted((one for one in every if one.spread > 0.0), key=lambda one: -one.spread)
    found = found[:MOST_BARS]
    if not found:
        return []
    names, sizes = [_named(one) for one in found], [one.spread for one in found]
    title = "What moves predictions most"
    what = "column or pair" if pairs else "column"
    to = "the log odds" if of == LOG_ODDS else of
    how = f"How much what a {what} adds to {to} varies between the fit's rows (standard deviation"
    how += f", sd){_ODDS if of == LOG_ODDS else ''}."
    if len(effects) > 1 and all([*map(_holds_zero, effects), *map(_holds_zero, pairs)]):
        how += f" No single {what}'s direction is sure: see below."
    elif any(name[-1] in "↑↓" for name in names):
        how += (
            " ↑: the more of it, the larger the prediction; ↓: the smaller; otherwise neither is "
        )
        how += "sure throughout."
    return [plots.bars(names, sizes, EFFECT.format(of), title, how)]


def effect_sections(
    effects: Sequence[Effect], pairs: Sequence[PairEffect], moved: str, unit: str, text: str
) -> list[Section]:
    """Return what columns add to what is ``moved``: the strongest, then, folded, weaker ones."""
    if not (named := moved_by(effects, pairs)):
        return []
    charts = effect_charts(effects[:MOST_EFFECTS], unit)
    open_ = MOST_OPEN if len(charts) > MOST_OPEN + 2 else len(charts)
    if len(effects) > 1:
        named += f"{_SHARED}{_TRADED * ('direction' in named)}."
    shown = [*strength_charts(effects, pairs, moved), *charts[:open_]]
    sections = [Section("What each column adds", f"{named}\n{text}", shown, needs_fit=True)]
    if weaker := charts[open_:]:
        title = f"{len(weaker)} charts, on the same scale"
        sections.append(
            Section("What weaker columns add", plots=weaker, folded=title, needs_fit=True)
        )
    return sections


def effects_text(effects: Sequence[Effect], of: str, mixture: bool = False) -> str:
    """Say what the charts of effects on ``of`` show; ``mixture``: experts add to it too."""
    which = f"The {MOST_EFFECTS} strongest of {len(effects)} columns"
    if len(effects) <= MOST_EFFECTS:
        which = "All columns, the strongest first"
    return (
        f"What each column adds to the {of}, compared with its mean over rows. {which}, on one "
        "scale, at whose ends wider bands are cut; ticks below a curve are quantiles of the column."
        f"{' Bars and curves leave out what the mixture of experts adds.' if mixture else ''}"
    )


def pairs_of(count: int) -> str:
    """Return a number of pairs in words."""
    return f"{count} pair{'s' if count > 1 else ''} of columns"


def effect_charts(effects: Sequence[Effect], unit: str, of: str = "") -> list[plots.Spec]:
    """Return a chart for every column that moves the sum, all on one scale.

    ``unit`` is that of the sum, ``of`` comes before each chart's title.
    """
    shown = [one for one in effects if one.spread > 0.0]
    domain = _domain(shown)
    charts = []
    for one in shown:
        title = f"{of}{one.column}"
        if one.kind == "levels":
            counts = one.data.tolist()
            chart = plots.level_bars(
                one.levels, one.mean.tolist(), one.sd.tolist(), counts, unit, title, domain
            )
        else:
            chart = plots.curve(
                one.at, one.mean, one.sd, one.column, unit, title, one.data, domain,
                one.kind == "date",
            )  # fmt: skip
        charts.append(chart)
    return charts


def _domain(effects: Sequence[Effect]) -> tuple[float, float]:
    """Return the ends of one scale for all: bands too, but for what is far beyond the means."""
    if not effects:
        return -1.0, 1.0
    least = min(float(one.mean.min()) for one in effects)
    most = max(float(one.mean.max()) for one in effects)
    room = 0.5 * (most - least) or 1.0
    low = min(float((one.mean - 1.96 * one.sd).min()) for one in effects)
    high = max(float((one.mean + 1.96 * one.sd).max()) for one in effects)
    return float(f"{max(low, least - room):.3g}"), float(f"{min(high, most + room):.3g}")


def pair_charts(pairs: Sequence[PairEffect]) -> list[plots.Spec]:
    """Return a heat map for every pair, all with the same colours."""
    top = max((float(abs(one.mean).max()) for one in pairs), default=1.0) or 1.0
    return [
        plots.heat_map(
            one.rows, one.across, one.mean.tolist(), f"{one.columns[0]} and {one.columns[1]}",
            one.sd, top,
        )
        for one in pairs
    ]  # fmt: skip


def strongest(pairs: Sequence[PairEffect]) -> float:
    """Return the effect of the strongest colour of `pair_charts`."""
    return max((float(abs(one.mean).max()) for one in pairs), default=0.0)
