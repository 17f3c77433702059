"""Plots of the report as inline SVG that takes its colours from the page (light or dark).

What a picture says under the pointer: each mark carries its own values as a title.

A mark's words travel through matplotlib as the id of its SVG group and become that group's
``<title>``, which browsers show and screen readers read; the page's script shows it at once.
"""

from __future__ import annotations

import io
import itertools
import re
import unicodedata
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from flows.escape import escaped

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_PREFIX = "tip: "
_GROUP = re.compile(rf'<g id="{_PREFIX}([^"]*)">')
_MOST = 100  # marks of one line: more, no pointer tells apart, and the page stays small


def tip(mark: Artist, text: str) -> None:
    """Let a mark say something under the pointer."""
    mark.set_gid(_PREFIX + " ".join(text.split()))


def tips_along(axes: Axes, x: ArrayLike, y: ArrayLike, texts: Sequence[str]) -> None:
    """Lay unseen marks along a line, at most 100 of them evenly spread, each with its text."""
    at, height = np.asarray(x), np.asarray(y)
    chosen = np.unique(np.linspace(0, len(texts) - 1, min(len(texts), _MOST)).round().astype(int))
    for k in chosen if len(texts) else ():
        (mark,) = axes.plot(at[k], height[k], "ko", markersize=9, alpha=0.0)
        tip(mark, texts[k])


def with_titles(svg: str) -> str:
    """Turn the words of an SVG's marks into titles of their groups."""
    return _GROUP.sub(r'<g class="tip"><title>\1</title>', svg)


if TYPE_CHECKING:  # a worker draws nothing, and need not wait for what does
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NO_GLYPH = "Glyph .* missing|Matplotlib currently does not support"
_LABEL = 28  # columns of a label
_INK = "#010203"  # replaced by the page's own ink
_ACCENT = "#040506"  # replaced by the page's accent
# Wong (2011), told apart by the colour-blind on light and dark grounds alike.
_SERIES = ("#e69f00", "#56b4e9", "#009e73", "#d55e00", "#cc79a7")
_STYLE = {_INK: "currentColor", _ACCENT: "var(--accent)"}


def _canvas(x_label: str, y_label: str, height: float = 2.6) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, height), layout="constrained")
    axes = figure.add_subplot()
    axes.set_xlabel(x_label, color=_INK)
    axes.set_ylabel(y_label, color=_INK)
    axes.tick_params(colors=_INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(_INK)
    axes.patch.set_visible(False)
    figure.patch.set_visible(False)
    return figure, axes


def _at_whole_numbers(axes: Axes) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _svg(figure: Figure, title: str) -> str:
    svg = _drawn(figure)
    svg = svg[svg.index("<svg") :]
    for ink, colour in _STYLE.items():
        svg = svg.replace(ink, colour)
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', r'<svg \1 role="img">', svg, count=1)
    return with_titles(svg.replace(">", f"><title>{_escape(title)}</title>", 1))


def _drawn(figure: Figure) -> str:
    """Return a figure as SVG; text that has no glyphs here stays text, which a browser draws."""
    from matplotlib import rc_context

    def draw() -> str:
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
        return buffer.getvalue()

    with warnings.catch_warnings(record=True) as caught:
        warnings.filterwarnings("always", _NO_GLYPH)
        svg = draw()
    others = [one for one in caught if not re.match(_NO_GLYPH, str(one.message))]
    for one in others:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    if len(others) < len(caught):
        with warnings.catch_warnings(), rc_context({"svg.fonttype": "none"}):
            warnings.simplefilter("ignore")
            svg = draw()
    return svg


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def png(svg_free_figure: Figure) -> bytes:
    """Render a figure to PNG on a white ground, for places that show no SVG."""
    buffer = io.BytesIO()
    svg_free_figure.savefig(buffer, format="png", dpi=110, facecolor="white")
    return buffer.getvalue()


def trace(iterations: Sequence[int], elbo: Sequence[float], objective: str = "bound") -> str:
    """Plot the bound, or what else the model's objective is, against the sweep."""
    figure = trace_figure(iterations, elbo, objective)
    return _svg(figure, f"The {objective} after each sweep")


def trace_figure(
    iterations: Sequence[int], elbo: Sequence[float], objective: str = "bound"
) -> Figure:
    """Draw the bound against the sweep; the first, steep part is cut where it hides the rest."""
    figure, axes = _canvas("sweep", f"{objective} (nats)")
    axes.plot(iterations, elbo, color=_ACCENT, marker="o", markersize=3, linewidth=1.5)
    values = np.asarray(elbo, float)
    if len(values) > 10:
        low = values[len(values) // 10 :].min()
        margin = 0.05 * (values.max() - low) or 1.0
        axes.set_ylim(low - margin, values.max() + margin)
    axes.ticklabel_format(axis="y", useOffset=False)
    _at_whole_numbers(axes)
    told = [f"sweep {n:,}: {v:,.4f} nats" for n, v in zip(iterations, elbo, strict=True)]
    tips_along(axes, iterations, elbo, told)
    return figure


def histogram(
    values: ArrayLike,
    x_label: str,
    y_label: str,
    title: str,
    bins: int = 40,
    counts: ArrayLike | None = None,
) -> str:
    """Plot how values in [0, 1] are spread, each as often as ``counts`` says, on a log scale."""
    figure, axes = _canvas(x_label, y_label)
    held, edges = np.histogram(np.asarray(values), bins, (0.0, 1.0), weights=counts)
    drawn = axes.bar(edges[:-1], held, np.diff(edges), align="edge", color=_ACCENT)
    for n, low, high, bar in zip(held, edges[:-1], edges[1:], drawn.patches, strict=True):
        tip(bar, f"{low:.3g} to {high:.3g}: {n:,.0f} {y_label}")
    if held.any():  # there is no logarithm of nothing
        axes.set_yscale("log")
    return _svg(figure, title)


def bars(labels: Sequence[str], values: Sequence[float], x_label: str, title: str) -> str:
    """Plot one horizontal bar a label, the first on top."""
    figure, axes = _canvas(x_label, "", height=0.6 + 0.26 * max(len(labels), 1))
    positions = np.arange(len(labels))
    drawn = axes.barh(positions, values, color=_ACCENT, height=0.7)
    for label, value, bar in zip(labels, values, drawn.patches, strict=True):
        tip(bar, f"{label}: {value:,.6g} {x_label}")
    axes.set_yticks(positions, [_plain(label) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    if all(float(v).is_integer() for v in values):
        _at_whole_numbers(axes)
    return _svg(figure, title)


def intervals(
    labels: Sequence[str], mean: Sequence[float], sd: Sequence[float], x_label: str, title: str
) -> str:
    """Plot means with their 95 % intervals (1.96 standard deviations), the first on top."""
    figure, axes = _canvas(x_label, "", height=0.6 + 0.26 * max(len(labels), 1))
    positions = np.arange(len(labels))
    axes.errorbar(
        mean,
        positions,
        xerr=1.96 * np.asarray(sd),
        fmt="o",
        color=_ACCENT,
        ecolor=_INK,
        elinewidth=1,
        markersize=4,
    )
    told = [
        f"{label}: {m:.4g} ({m - 1.96 * s:.4g} to {m + 1.96 * s:.4g})"
        for label, m, s in zip(labels, mean, sd, strict=True)
    ]
    tips_along(axes, mean, positions, told)
    axes.axvline(0.0, color=_INK, linewidth=0.6)
    axes.set_yticks(positions, [_plain(label) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    return _svg(figure, title)


def calibration(
    predicted: Sequence[float], observed: Sequence[float], counts: Sequence[int], title: str
) -> str:
    """Plot observed shares against predicted probabilities, with 95 % intervals of the shares."""
    figure, axes = _canvas("predicted probability", "observed share", height=3.2)
    share, n = np.asarray(observed, float), np.asarray(counts, float)
    # Agresti and Coull's interval: it is of some width also where all or none are positive.
    centre = (share * n + 2.0) / (n + 4.0)
    half = 1.96 * np.sqrt(centre * (1.0 - centre) / (n + 4.0))
    low, high = np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
    axes.plot([0.0, 1.0], [0.0, 1.0], color=_INK, linewidth=0.6)
    axes.vlines(predicted, low, high, color=_INK, linewidth=1)
    axes.plot(predicted, share, "o", color=_ACCENT, markersize=4)
    told = [
        f"predicted {p:.3g}: observed share {s:.3g} ({lo:.3g} to {hi:.3g}; n = {k:,.0f})"
        for p, s, k, lo, hi in zip(predicted, share, n, low, high, strict=True)
    ]
    tips_along(axes, predicted, share, told)
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    return _svg(figure, title)


def _plain(label: str) -> str:
    """Keep a label from being read as a formula, and short: 28 columns, wide letters take two."""
    text = escaped(label)
    if sum(map(_columns, text)) > _LABEL:
        ends = itertools.accumulate(map(_columns, text))
        text = text[: sum(end < _LABEL for end in ends)] + "…"
    # No font here has wide letters: spaces, which a browser leaves out, keep their room.
    room = " " * round(1.3 * sum(_columns(letter) - 1 for letter in text))
    return room + text.replace("$", r"\$")


def _columns(letter: str) -> int:
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def paired_intervals(
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[tuple[float, float, float]]]],
    x_label: str,
) -> str:
    """Plot (value, low, high) of one or two series on a log axis, the first label on top."""
    figure, axes = _canvas(x_label, "", height=0.7 + 0.3 * max(len(labels), 1))
    for k, (name, points) in enumerate(series):
        value, low, high = np.maximum(np.array(points, float).T, 1e-7)
        positions = np.arange(len(labels)) + 0.18 * (2 * k - len(series) + 1)
        axes.errorbar(
            value,
            positions,
            xerr=np.maximum([value - low, high - value], 0.0),
            fmt="o",
            color=_ACCENT if k == 0 else _INK,
            markerfacecolor=_ACCENT if k == 0 else "none",
            elinewidth=1,
            markersize=4,
            label=name,
        )
        told = [
            f"{label}, {name}: {v:.3g}" + (f" ({lo:.3g} to {hi:.3g})" if hi > lo else "")
            for label, (v, lo, hi) in zip(labels, points, strict=True)
        ]
        tips_along(axes, value, positions, told)
    axes.set_xscale("log")
    axes.set_yticks(np.arange(len(labels)), [_plain(label) for label in labels])
    axes.set_ylim(len(labels) - 0.4, -0.6)
    return _svg(figure, x_label)


def lines(
    x: ArrayLike, series: Sequence[tuple[str, ArrayLike]], x_label: str, y_label: str, title: str,
    log: bool = False,
) -> str:  # fmt: skip
    """Plot one line a series: the first in the accent colour, the second dashed in ink.

    ``log`` asks for a logarithmic axis of ``x``.
    """
    figure, axes = _canvas(_plain(x_label), y_label)
    for k, (name, y) in enumerate(series):
        colour, dashes = (_ACCENT, "-") if k == 0 else (_INK, "--")
        at, of = np.asarray(x), np.asarray(y)
        axes.plot(at, of, linewidth=1.0, label=name, color=colour, linestyle=dashes)
        digits = 3 if log else 10
        told = [f"{name} at {a:,.{digits}g}: {b:,.4g}" for a, b in zip(at, of, strict=True)]
        tips_along(axes, at, of, told)
    axes.set_ylim(bottom=0.0)
    if log:
        axes.set_xscale("log")
    else:
        axes.ticklabel_format(axis="x", useOffset=False, style="plain")
    if len(series) > 1:
        # Above the lines, as searching for a place among them can take seconds.
        legend = axes.legend(
            frameon=False, fontsize="small", loc="lower right", bbox_to_anchor=(1.0, 1.0),
            ncols=len(series), borderaxespad=0.2,
        )  # fmt: skip
        for text in legend.get_texts():
            text.set_color(_INK)
    return _svg(figure, title)


def curve(x: ArrayLike, y: ArrayLike, sd: ArrayLike, x_label: str, y_label: str, title: str) -> str:
    """Plot one curve with its 95 % band."""
    figure, axes = _canvas(_plain(x_label), y_label)
    at, mean, half = (np.asarray(v, float) for v in (x, y, sd))
    axes.fill_between(at, mean - 1.96 * half, mean + 1.96 * half, color=_ACCENT, alpha=0.2, lw=0)
    axes.plot(at, mean, color=_ACCENT, linewidth=1.2)
    told = [
        f"{x_label} = {a:.4g}: {m:.3g} ({m - 1.96 * h:.3g} to {m + 1.96 * h:.3g})"
        for a, m, h in zip(at, mean, half, strict=True)
    ]
    tips_along(axes, at, mean, told)
    axes.axhline(0.0, color=_INK, linewidth=0.5, linestyle=":")
    axes.ticklabel_format(axis="x", useOffset=False)
    return _svg(figure, title)


def heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float]], title: str
) -> str:
    """Plot values from -1 to 1 as cells: blue above 0, orange below, the stronger the fuller."""
    from matplotlib.patches import Rectangle

    table = np.asarray(values, dtype=np.float64).reshape(len(rows), len(columns))
    names = [_plain(c) for c in columns]
    longest = max(map(len, names), default=0)  # they stand upright below the cells
    figure, axes = _canvas("", "", height=0.6 + 0.22 * len(rows) + 0.075 * longest)
    top = max(float(np.abs(table).max(initial=0.0)), 1e-9)
    for r, line in enumerate(table):
        for c, value in enumerate(line):
            colour, depth = (_SERIES[1] if value >= 0 else _SERIES[3]), abs(float(value)) / top
            cell = Rectangle((c - 0.5, r - 0.5), 1.0, 1.0, color=colour, alpha=depth, lw=0)
            tip(axes.add_patch(cell), f"{rows[r]}, {columns[c]}: {value:.3g}")
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    size = min(7.5, 270.0 / max(len(columns), 1))  # points: labels stand side by side
    axes.set_xticks(range(len(columns)), names, rotation=90, fontsize=size)
    axes.set_yticks(range(len(rows)), [_plain(r) for r in rows], fontsize="small")
    axes.tick_params(length=0)
    return _svg(figure, title)
