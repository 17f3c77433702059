"""What columns and pairs of columns add, as the report shows it: charts on one scale."""

from __future__ import annotations

from collections.abc import Sequence

from flows.report import plots
from vbmodels.experts.effects import Effect, PairEffect

MOST_EFFECTS, MOST_PAIRS = 12, 6
"""Effects and pairs that the report shows."""


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
