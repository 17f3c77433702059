"""Pictures of what columns and pairs of columns add to a prediction, on matplotlib's axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np

from vbmodels.experts.effects import Effect, PairEffect

MOST_EFFECTS, MOST_PAIRS, ACROSS = 9, 3, 3
"""Effects and pairs of a picture of all, and how many stand in a row."""
_TWO_SIDED = 1.959964
_LONGEST = 14  # letters of a level's name


def new_axes(size: tuple[float, float]) -> Any:
    """Return axes of a new figure of so many inches."""
    from matplotlib import pyplot

    return pyplot.figure(figsize=size, layout="constrained").add_subplot()


def draw(
    effects: Sequence[Effect], pairs: Sequence[PairEffect], column: Any, ax: Any, unit: str
) -> Any:
    """Draw the effect of a column or of a pair of names; None draws the largest of all.

    ``ax`` None makes new axes. Return the axes drawn on.
    """
    if column is None:
        return draw_all(effects, pairs, ax, unit)
    return draw_named(effects, pairs, column, ax, unit)


def spread_lines(effects: Sequence[Effect], pairs: Sequence[PairEffect], most: int) -> list[str]:
    """Return what moves a prediction most, with its standard deviation over rows, as lines."""
    moved = [(effect.column, effect.spread) for effect in effects]
    moved += [(" and ".join(pair.columns), pair.spread) for pair in pairs]
    moved = sorted(moved, key=lambda item: -item[1])[:most]
    width = max((len(name) for name, _ in moved), default=0)
    return [f"  {name:<{width}}  {spread:.3g}" for name, spread in moved]


def draw_named(
    effects: Sequence[Effect], pairs: Sequence[PairEffect], column: Any, ax: Any, unit: str
) -> Any:
    """Draw a column's effect with its 95 % band, or the heat map of a pair of names. Return axes.

    ``ax`` None makes new axes.
    """
    named = {effect.column: effect for effect in effects}
    both = {frozenset(pair.columns): pair for pair in pairs}
    effect: Effect | PairEffect | None
    effect = named.get(column) if isinstance(column, str) else both.get(frozenset(column))
    if effect is None:
        known = [*named, *(" and ".join(pair.columns) for pair in pairs)]
        raise ValueError(f"column: expected one of {', '.join(known)}, got {column!r}")
    ax = new_axes((5.0, 3.5)) if ax is None else ax
    if isinstance(effect, PairEffect):
        _heat_map(effect, ax, max(float(np.abs(effect.mean).max()), 1e-9), unit)
    else:
        _effect(effect, ax)
        ax.set_ylabel(unit)
    return ax


def draw_all(
    effects: Sequence[Effect], pairs: Sequence[PairEffect], ax: Any, unit: str
) -> np.ndarray:
    """Draw the largest effects on one scale, then pairs; in the place of ``ax``. Return axes."""
    effects, pairs = effects[:MOST_EFFECTS], pairs[:MOST_PAIRS]
    rows, pair_rows = ceil(len(effects) / ACROSS), ceil(len(pairs) / ACROSS)
    if ax is None:
        ax = new_axes((10.0, 2.8 * (rows + pair_rows)))
    ax.set_axis_off()
    grid = ax.get_subplotspec().subgridspec(rows + pair_rows, ACROSS)
    axes: list[Any] = []
    for i, effect in enumerate(effects):
        panel = ax.figure.add_subplot(grid[divmod(i, ACROSS)], sharey=axes[0] if axes else None)
        _effect(effect, panel)
        if i % ACROSS == 0:
            panel.set_ylabel(unit)
        axes.append(panel)
    top = max((float(np.abs(pair.mean).max()) for pair in pairs), default=1.0)
    for i, pair in enumerate(pairs):
        row, column = divmod(i, ACROSS)
        panel = ax.figure.add_subplot(grid[rows + row, column])
        _heat_map(pair, panel, top, unit)
        axes.append(panel)
    return np.array(axes, object)


def _effect(effect: Effect, ax: Any) -> None:
    """Draw a curve with its band and a rug of quantiles, or bars with intervals."""
    half = _TWO_SIDED * effect.sd
    ax.axhline(0.0, color="0.6", linewidth=0.8)
    if effect.kind == "levels":
        positions = np.arange(len(effect.levels))
        ax.bar(positions, effect.mean, yerr=half, color="C0", ecolor="0.3", capsize=2, width=0.7)
        ax.set_xticks(positions, [_short(name) for name in effect.levels])
        if len(positions) > 2:
            ax.tick_params(axis="x", rotation=90)
    else:
        x: Any = effect.at
        data: Any = effect.data
        if effect.kind == "date":
            x, data = (np.datetime64("1970-01-01") + v.round().astype("m8[D]") for v in (x, data))
        ax.fill_between(x, effect.mean - half, effect.mean + half, alpha=0.25, linewidth=0)
        ax.plot(x, effect.mean)
        ax.plot(
            data,
            np.zeros(len(data)),
            "|",
            color="0.3",
            clip_on=False,
            transform=ax.get_xaxis_transform(),
        )
        if effect.kind == "date":
            ax.set_xticks(x[[0, len(x) // 2, -1]])
    ax.set_title(effect.column, fontsize="medium")


def _heat_map(pair: PairEffect, ax: Any, top: float, unit: str) -> None:
    image = ax.imshow(pair.mean.T, cmap="RdBu_r", vmin=-top, vmax=top, aspect="auto")
    ax.set_xticks(np.arange(len(pair.rows)), [_short(name) for name in pair.rows], rotation=90)
    ax.set_yticks(np.arange(len(pair.across)), [_short(name) for name in pair.across])
    ax.set_title(f"{pair.columns[0]} and {pair.columns[1]}", fontsize="medium")
    ax.figure.colorbar(image, ax=ax, label=unit)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 3]}..."
