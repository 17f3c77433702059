"""What columns and pairs of columns add, as the report shows it: charts on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from flows.data.names import listed
from flows.report import plots
from flows.report.page import Section
from vbmodels.core.scales import order_of
from vbmodels.core.state import FloatArray
from vbmodels.experts.effects import ALIKE, QUANTILES, Effect, GroupEffect, PairEffect

MOST_PAIRS, MOST_BARS, MOST_OPEN = 6, 12, 6
"""Pairs that the report shows, bars of the strongest columns, and curves that are open."""
LOG_ODDS = "log odds"


def ranked(effects: Sequence[Effect], pairs: Sequence[PairEffect]) -> list[tuple[str, float]]:
    """Return columns and pairs with the standard deviation of what they add, the largest first."""
    found = [(one.column, one.spread) for one in effects]
    found += [(" and ".join(one.columns), one.spread) for one in pairs]
    return sorted((one for one in found if one[1] > 0.0), key=lambda one: -one[1])


def _named(one: Effect) -> str:
    """Name what a bar is of, and say so where a curve adds more on the way than at its ends."""
    if one.level:
        return f"{one.column} = {one.level}"
    return f"{one.column} (rises and falls)" if abs(one.change) < one.spread else one.column


def strength_charts(
    effects: Sequence[Effect], unit: str, label: str, mixture: bool = False,
    groups: Sequence[GroupEffect] = (),
) -> list[plots.Spec]:  # fmt: skip
    """Return the chart of the columns that move predictions most, or none where nothing does.

    ``unit`` is what they add up to, ``label`` whose log odds that is, or the number; ``mixture``:
    experts add to it too; each of ``groups`` is one bar.
    """
    found, alike = _bars(effects, groups)
    if not found:
        return []
    names = [_named(one) for one in found]
    odds = LOG_ODDS in unit
    title = f"What speaks for and against {label}" if odds else f"What goes with a larger {label}"
    how = "What a high value (the column's 90 % quantile) adds beyond a low one (10 %)"
    how += ", or a level beyond the others" * any(one.level for one in found)
    how += ", other columns equal: bars to the right "
    how += f"speak for {label}; 0.7 doubles the odds. " if odds else f"make {label} larger. "
    how += "Lines are 95 % intervals; those that leave out zero are first."
    if said := "; ".join(alike[one.column] for one in found if one.column in alike):
        how += f" Columns that correlate above {ALIKE:g} share a bar: {said}."
    if (every := len(_every_bar(effects, groups)[0])) > len(found):
        how += f" The {len(found)} largest of {every} are shown."
    how += " What the mixture of experts adds is left out." * mixture
    change, sd = np.array([one.change for one in found]), np.array([one.change_sd for one in found])
    low, high = ends = _domain([(change, 1.1 * sd)], 2.0)
    cut = min(change - 1.96 * sd) < low or max(change + 1.96 * sd) > high
    how += " A line that ends at the edge goes on." * bool(cut)
    return [plots.level_bars(names, change.tolist(), sd.tolist(), (), unit, title, ends, how)]


def _bars(
    effects: Sequence[Effect], groups: Sequence[GroupEffect]
) -> tuple[list[Effect], dict[str, str]]:
    """Return the largest that have a bar, those of a sure direction first; see `_every_bar`."""
    found, alike = _every_bar(effects, groups)
    found = sorted(found, key=lambda one: -one.size)[:MOST_BARS]
    return sorted(found, key=lambda one: not one.sure), alike


def _every_bar(
    effects: Sequence[Effect], groups: Sequence[GroupEffect]
) -> tuple[list[Effect], dict[str, str]]:
    """Return what has a bar, groups in the place of their columns; and what each group holds."""
    found, alike = [one for one in effects if one.spread > 0.0], {}
    for columns, change, change_sd, mean, sd in groups:
        name = f"{next(iter(columns))} and {len(columns) - 1} more"
        alike[name] = listed(
            [f"{one}{' (reversed)' * (way < 0.0)}" for one, way in columns.items()]
        )
        found = [one for one in found if one.column not in columns]
        first = next(one for one in effects if one.column in columns)
        found.append(
            replace(
                first, column=name, kind="quantiles", at=100.0 * QUANTILES, mean=mean, sd=sd,
                data=np.empty(0), spread=0.0, change=change, change_sd=change_sd,
            )
        )  # fmt: skip
    return found, alike


def effect_sections(
    effects: Sequence[Effect], label: str, unit: str, text: str, mixture: bool = False,
    groups: Sequence[GroupEffect] = (),
) -> list[Section]:  # fmt: skip
    """Return what columns add to a ``label``: bars, and a curve of each, of many folded."""
    if not any(one.spread > 0.0 for one in effects):
        return []
    charts = effect_charts(_bars(effects, groups)[0], unit)
    bars, title = strength_charts(effects, unit, label, mixture, groups), "What each column adds"
    if not groups and len(charts) <= MOST_OPEN:
        return [Section(title, text, [*bars, *charts], needs_fit=True)]
    if groups:
        text += (
            " Columns that share a bar share a chart, where all of them are at the same quantile."
        )
    every = Section(title, text, charts, folded=f"{len(charts)} charts", needs_fit=True)
    return [Section("What the model uses", "", bars, needs_fit=True), every]


def effects_text(of: str) -> str:
    """Say what the charts of effects on ``of`` show."""
    return (
        f"What a column's value adds to the {of}, compared with its mean: a chart for each bar, in "
        "the order of the bars. All have one scale, at whose ends wider bands are cut; ticks below "
        "a curve are quantiles of the column. A bar compares the 90 % with the 10 % quantile, a "
        "band each value with the mean, so it may include zero where the bar's interval does not."
    )


def pairs_of(count: int) -> str:
    """Return a number of pairs in words."""
    return f"{count} pair{'s' if count > 1 else ''} of columns"


def effect_charts(effects: Sequence[Effect], unit: str, of: str = "") -> list[plots.Spec]:
    """Return a chart for every column that moves the sum, all on one scale.

    ``unit`` is that of the sum, ``of`` comes before each chart's title.
    """
    shown = [one for one in effects if one.spread > 0.0 or one.kind == "quantiles"]
    domain = _domain([(one.mean, one.sd) for one in shown])
    charts = []
    for one in shown:
        title = f"{of}{one.column}"
        if one.kind == "levels":
            order = _by_scale(one.levels)
            chart = plots.level_bars(
                [one.levels[k] for k in order], one.mean[order].tolist(), one.sd[order].tolist(),
                one.data[order].tolist() if one.data.size else [], unit, title, domain,
            )  # fmt: skip
        else:
            chart = plots.curve(
                one.at, one.mean, one.sd,
                "quantile of these columns (%)" if one.kind == "quantiles" else one.column,
                unit, title, one.data, domain, one.kind == "date",
            )  # fmt: skip
        charts.append(chart)
    return charts


def _by_scale(levels: Sequence[str]) -> list[int]:
    """Return the places of levels in the order of their scale, those of no scale last.

    >>> _by_scale(["medium", "high", "missing", "low"]), _by_scale(["b", "a"])
    ([3, 0, 1, 2], [0, 1])
    """
    named = [one for one in levels if one != "missing"]
    order = order_of(named) or order_of(named[:-1])  # the last may be rare levels together
    places = {level: place for place, level in enumerate(order)}
    return sorted(range(len(levels)), key=lambda k: places.get(levels[k], len(order)))


def _domain(
    found: Sequence[tuple[FloatArray, FloatArray]], beyond: float = 0.5
) -> tuple[float, float]:
    """Return the ends of one scale for all: bands too, but for what is far ``beyond`` the means."""
    if not found:
        return -1.0, 1.0
    least = min(0.0, *(float(mean.min()) for mean, _ in found))
    most = max(0.0, *(float(mean.max()) for mean, _ in found))
    room = beyond * (most - least) or 1.0
    low = min(float((mean - 1.96 * sd).min()) for mean, sd in found)
    high = max(float((mean + 1.96 * sd).max()) for mean, sd in found)
    low, high = min(low, 0.0), max(high, 0.0)
    return float(f"{max(low, least - room):.3g}"), float(f"{min(high, most + room):.3g}")


def pair_sections(every: Sequence[PairEffect], of: str, more: str = "") -> list[Section]:
    """Return what pairs add to ``of``, the strongest ones: heat maps with the same colours."""
    if not every:
        return []
    pairs = every[:MOST_PAIRS]
    top = max(float(abs(one.mean).max()) for one in pairs) or 1.0
    charts = [
        plots.heat_map(
            one.rows, one.across, one.mean.tolist(), f"{one.columns[0]} and {one.columns[1]}",
            one.sd, top,
        )
        for one in pairs
    ]  # fmt: skip
    text = (
        f"What two columns add together to {of}, beyond their own curves, for the strongest "
        f"{len(pairs)} of {pairs_of(len(every))}. The strongest colour is {top:.2g}.{more}"
    )
    return [Section("What pairs of columns add", text, charts, needs_fit=True)]
