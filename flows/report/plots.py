"""Charts of the report as Vega-Lite specifications: plain JSON, drawn by the browser.

Colours come from the page (`templates/report.js`), so that a chart follows its light or dark theme.
Each mark carries its own text, which the page shows under the pointer; each chart a line that says
how to read it (`usermeta.how`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from flows.escape import escaped
from vbmodels.core.state import IntArray

Spec = dict[str, Any]

_POINTS = 200  # points of one line that show their values
_DAY = 86_400_000.0  # milliseconds
_LOW = 1e-7  # the left end of a logarithmic axis
# Wong (2011): distinct for the colour-blind on light and dark grounds.
_ABOVE, _BELOW = "#56b4e9", "#d55e00"
_NEITHER = "rgba(128, 128, 128, 0.06)"
_ZOOM = {
    "name": "zoom",
    "select": {"type": "interval", "zoom": "wheel![event.shiftKey]"},
    "bind": "scales",
}
_UNCERTAIN = "includes zero, the direction is uncertain."
_MEANS = f"means, lines 95 % intervals; where a line {_UNCERTAIN}"
_LOG_LABELS = (
    "datum.label == '' || datum.value >= 0.001 ? datum.label : format(datum.value, '.0~e')"
)
_LOG_AXIS: Spec = {"grid": False, "labelExpr": _LOG_LABELS}
_RATIOS = (1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0, 100.0)  # ticks around a rule
_NEAREST = {"type": "point", "on": "pointerover", "nearest": True, "clear": "pointerout"}


def trace(
    iterations: Sequence[int], elbo: Sequence[float], objective: str = "bound", how: str = ""
) -> Spec:
    """Plot the bound, or another objective, against the sweep; a steep start is cut off."""
    values = np.asarray(elbo, float)
    scale: Spec = {"zero": False}
    if len(values) > 10:
        low = values[len(values) // 10 :].min()
        margin = 0.05 * (values.max() - low) or 1.0
        scale["domain"] = [float(low - margin), float(values.max() + margin)]
    tips = [f"sweep {n:,}: {v:,.4f} nats" for n, v in zip(iterations, elbo, strict=True)]
    return _chart(
        f"The {objective} after each sweep",
        _line(iterations, values, tips),
        x=_axis("sweep", axis={"tickMinStep": 1, "format": ",d"}, scale={"zero": False}),
        y=_axis(f"{objective} (nats)", scale=scale),
        how=f"Within a stage of the fit it should rise, then be level. {how}".rstrip(),
    )


def histogram(
    values: ArrayLike,
    x_label: str,
    y_label: str,
    title: str,
    *,
    bins: int,
    counts: ArrayLike,
    limit: float | None = None,
) -> Spec:
    """Plot the distribution of values in [0, 1], weighted by ``counts``, with each bar's number.

    Bars are on a logarithmic scale, whose lower end says nothing: so it has no labels.
    ``limit`` is where a line is drawn: only values right of it are selected.
    """
    number, edges = np.histogram(np.asarray(values), bins, (0.0, 1.0), weights=np.asarray(counts))
    bars = [
        {
            "x": low,
            "x2": high,
            "middle": 0.5 * (low + high),
            "y": n,
            "tip": f"{low:.3g} to {high:.3g}: {n:,.0f} {y_label}",
        }
        for n, low, high in zip(number, edges[:-1], edges[1:], strict=True)
        if n > 0
    ]
    floor = 0.5 * min((float(bar["y"]) for bar in bars), default=1.0)
    layer = _layer(bars, "bar", x2={"field": "x2"}, y2={"datum": floor})
    numbers = _layer(
        bars,
        "text",
        style="number",
        x={"field": "middle"},
        text={"field": "y", "type": "quantitative", "format": ",.0f"},
    )
    y = _axis(
        y_label,
        scale={"type": "log", "domainMin": floor, "nice": False},
        axis={"grid": False, "labels": False, "ticks": False},
    )
    how = f"{y_label[:1].upper()}{y_label[1:]} in steps of {1.0 / bins:g}; lengths are logarithmic."
    layers = [layer, numbers]
    if limit is not None:
        line = _layer([{"x": limit, "tip": f"selected from {limit:.2f} on"}], "rule")
        line["mark"] |= {"color": _BELOW, "strokeWidth": 2}
        line["encoding"] |= {"y": {"value": 0}, "y2": {"value": "height"}}
        layers.append(line)
        how += f" Selected ones are right of the line at {limit:.2f}."
    return _chart(title, layers, x=_shares(x_label), y=y, how=how)


def _shares(label: str) -> Spec:
    """Return an axis from 0 to 1 whose numbers have room on a telephone."""
    return _axis(label, scale={"domain": [0.0, 1.0]}, axis={"tickCount": 5})


def split_histogram(
    parts: Sequence[tuple[str, IntArray]], x_label: str, y_label: str, title: str, how: str = ""
) -> Spec:
    """Plot the numbers of named parts in equal steps of [0, 1], one on top of the other."""
    bins = len(parts[0][1])
    rows, base, edges = [], np.zeros(bins), np.linspace(0.0, 1.0, bins + 1)
    for name, number in parts:
        rows += [
            {
                "x": low,
                "x2": high,
                "y": below,
                "y2": below + n,
                "series": name,
                "tip": f"{low:.3g} to {high:.3g}: {n:,.0f} {name}",
            }
            for n, below, low, high in zip(number, base, edges[:-1], edges[1:], strict=True)
            if n > 0
        ]
        base = base + number
    layer = _layer(rows, "bar", x2={"field": "x2"}, y2={"field": "y2"})
    layer["encoding"]["color"] = _series([name for name, _ in parts], field="series")
    x = _shares(x_label)
    how = f"{y_label[:1].upper()}{y_label[1:]} in steps of {1.0 / bins:g}{how}."
    return _chart(title, [layer], x=x, y=_axis(y_label), how=how)


def bars(
    labels: Sequence[str], values: Sequence[float], x_label: str, title: str, how: str = ""
) -> Spec:
    """Plot one horizontal bar for each label, the first on top."""
    rows = [
        {"x": value, "row": row, "tip": f"{label}: {value:,.6g} {x_label}"}
        for row, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
    step: Spec = {"tickMinStep": 1} if all(float(v).is_integer() for v in values) else {}
    how = how or f"Each bar is a number of {x_label}."
    return _by_label(labels, title, [_layer(rows, "bar")], x=_axis(x_label, axis=step), how=how)


def intervals(
    labels: Sequence[str], mean: Sequence[float], sd: Sequence[float], x_label: str, title: str
) -> Spec:
    """Plot means with their 95 % intervals (1.96 standard deviations), the first on top."""
    points = [
        {
            "row": row,
            "x": m,
            "low": m - 1.96 * s,
            "high": m + 1.96 * s,
            "tip": f"{label}: {m:.4g} ({m - 1.96 * s:.4g} to {m + 1.96 * s:.4g})",
        }
        for row, (label, m, s) in enumerate(zip(labels, mean, sd, strict=True))
    ]
    layers = [_rule(0.0, "x", "y", "height"), *_points(points, "x")]
    how = f"Points are {_MEANS}"
    return _by_label(labels, title, layers, x=_axis(x_label), how=how)


def paired_intervals(
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[tuple[float, float, float]]]],
    x_label: str,
    title: str,
    how: str = "Points are means, lines 95 % intervals, on a logarithmic axis.",
    rule: float | None = None,
) -> Spec:
    """Plot (value, low, high) of one or two series on a log axis with a line at ``rule``."""
    points = [
        {
            "row": row,
            "series": name,
            "x": max(v, _LOW),
            "low": max(low, _LOW),
            "high": max(high, _LOW),
            "tip": f"{label}, {name}: {v:.3g}"
            + (f" ({low:.3g} to {high:.3g})" if high > low else ""),
        }
        for name, of_labels in series
        for row, (label, (v, low, high)) in enumerate(zip(labels, of_labels, strict=True))
    ]
    names = [name for name, _ in series]
    layers = _points(points, "x")
    for layer in layers:
        layer["encoding"]["yOffset"] = {"field": "series", "scale": {"domain": names}}
        layer["encoding"]["color"] = _series(names, field="series")
    x = _axis(x_label, scale={"type": "log"}, axis=_LOG_AXIS)
    if rule is not None:
        layers.insert(0, _rule(rule, "x", "y", "height"))
        near = [rule * by for up in _RATIOS for by in (1.0 / up, up)]
        x |= {"scale": {"type": "log", "nice": False, "padding": 12}}
        x["axis"] = {"grid": False, "values": sorted({float(f"{v:.2g}") for v in near})}
    return _by_label(labels, title, layers, 20 if len(names) == 1 else 12, x=x, how=how)


def calibration(
    predicted: Sequence[float], observed: Sequence[float], counts: Sequence[int], title: str
) -> Spec:
    """Plot observed shares against predicted probabilities, with 95 % intervals of the shares."""
    share, n = np.asarray(observed, float), np.asarray(counts, float)
    low, high = _share_ends(share, n)
    points = [
        {
            "x": p,
            "y": s,
            "low": lo,
            "high": hi,
            "tip": f"predicted {p:.3g}: observed share {s:.3g} "
            f"({lo:.3g} to {hi:.3g}; n = {k:,.0f})",
        }
        for p, s, k, lo, hi in zip(predicted, share, n, low, high, strict=True)
    ]
    diagonal = _layer([{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}], "line", style="ink")
    unit: Spec = {"domain": [0.0, 1.0]}
    return _chart(
        title,
        [diagonal, *_points(points, "y")],
        x=_axis("predicted probability", scale=unit),
        y=_axis("observed share", scale=unit),
        height=300,
        how="On the diagonal probabilities are right; above it they are too low, below too "
        "high. Vertical lines are 95 % intervals.",
    )


def _share_ends(share: np.ndarray, n: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return Agresti and Coull's 95 % intervals: of some width where all or none are positive."""
    centre = (share * n + 2.0) / (n + 4.0)
    half = 1.96 * np.sqrt(centre * (1.0 - centre) / (n + 4.0))
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)


def agreement(
    x: ArrayLike,
    y: ArrayLike,
    error: ArrayLike,
    counts: ArrayLike,
    x_label: str,
    y_label: str,
    title: str,
) -> Spec:
    """Plot means of numbers against predictions, with 95 % intervals, and where both are equal."""
    predicted, mean, half, n = (np.asarray(v, float) for v in (x, y, error, counts))
    half = 1.96 * half
    points = [
        {
            "x": a,
            "y": m,
            "low": m - h,
            "high": m + h,
            "tip": f"{x_label} {a:.4g}: {y_label} {m:.4g} "
            f"({m - h:.4g} to {m + h:.4g}; n = {k:,.0f})",
        }
        for a, m, h, k in zip(predicted, mean, half, n, strict=True)
    ]
    ends = [float(v) for v in (predicted.min(), predicted.max())] if predicted.size else [0.0, 1.0]
    diagonal = _layer([{"x": v, "y": v} for v in ends], "line", style="ink")
    return _chart(
        title,
        [diagonal, *_points(points, "y")],
        x=_axis(x_label, scale={"zero": False}),
        y=_axis(y_label, scale={"zero": False}),
        height=300,
        how="Points are means of rows with about that prediction, with 95 % intervals; on the line "
        "they are equal.",
    )


def scatter(
    points: Sequence[tuple[float, float, str, str]],
    x_label: str,
    y_label: str,
    title: str,
    diagonal: bool = False,
) -> Spec:
    """Plot points (x, y, name, series); ``diagonal``: with a line on which x and y are equal."""
    series = list(dict.fromkeys(name_of_series for _, _, _, name_of_series in points))
    rows = [
        {"x": x, "y": y, "series": name_of_series, "tip": f"{name}: {x:.4g}, {y:.4g}"}
        for x, y, name, name_of_series in points
    ]
    layers = [_layer(rows, "point", color=_series(series, field="series"))]
    if diagonal:
        ends = min(x for x, *_ in points), max(x for x, *_ in points)
        layers.insert(0, _layer([{"x": end, "y": end} for end in ends], "line", style="ink"))
    return _chart(
        title,
        layers,
        x=_axis(x_label, scale={"zero": False}),
        y=_axis(y_label, scale={"zero": False}),
        height=300,
        how="",
    )


def curve(
    x: ArrayLike,
    y: ArrayLike,
    sd: ArrayLike,
    x_label: str,
    y_label: str,
    title: str,
    rug: ArrayLike = (),
    domain: tuple[float, float] | None = None,
    dates: bool = False,
) -> Spec:
    """Plot one curve with its 95 % band.

    ``rug`` are places that have a tick below it; ``domain`` are the ends of the axis of ``y``;
    ``dates``: places are days since 1970-01-01.
    """
    at, mean, half, ticks = (np.asarray(v, float) for v in (x, y, sd, rug))
    low, high = mean - 1.96 * half, mean + 1.96 * half
    named = [str(day) for day in at.round().astype("M8[D]")] if dates else [f"{a:.4g}" for a in at]
    tips = [
        f"{x_label} = {a}: {m:.3g} ({lo:.3g} to {hi:.3g})"
        for a, m, lo, hi in zip(named, mean, low, high, strict=True)
    ]
    if dates:
        at, ticks = at * _DAY, ticks * _DAY
    rows = [{"x": a, "y": lo, "y2": hi} for a, lo, hi in zip(at, low, high, strict=True)]
    band = _layer(rows, "area", style="band", y2={"field": "y2"})
    band["mark"]["clip"] = True
    layers = [band, _rule(0.0, "y", "x", "width"), *_line(at, mean, tips)]
    if ticks.size:
        below = _layer([{"x": a} for a in ticks], "rule", style="ink")
        below["encoding"] |= {"y": {"value": "height"}, "y2": {"value": 232}}
        layers.append(below)
    across = _axis(x_label, scale={"nice": False} if dates else {"zero": False, "nice": False})
    return _chart(
        title,
        layers,
        x=across | ({"type": "temporal"} if dates else {}),
        y=_axis(y_label, **({} if domain is None else {"scale": {"domain": list(domain)}})),
        how=f"The line is the mean, the band its 95 % interval; where the band {_UNCERTAIN}",
    )


def level_bars(
    labels: Sequence[str],
    mean: Sequence[float],
    sd: Sequence[float],
    counts: Sequence[float],
    x_label: str,
    title: str,
    domain: tuple[float, float],
    how: str = f"Bars are {_MEANS}",
) -> Spec:
    """Plot a bar with its 95 % interval for each level, the first on top.

    ``counts`` are the rows of each, if they are known; ``domain`` are the ends of the axis.
    """
    notes = [f" ({n:,.0f} rows)" for n in counts] if len(counts) else [""] * len(labels)
    rows = [
        {
            "row": row,
            "x": m,
            "low": m - 1.96 * s,
            "high": m + 1.96 * s,
            "tip": f"{label}{n}: {m:.3g} ({m - 1.96 * s:.3g} to {m + 1.96 * s:.3g})",
        }
        for row, (label, m, s, n) in enumerate(zip(labels, mean, sd, notes, strict=True))
    ]
    bar = _layer(rows, "bar", x2={"datum": 0.0})
    interval, _ = _points(rows, "x")
    for layer in (bar, interval):
        layer["mark"]["clip"] = True
    bar["mark"]["opacity"] = 0.5
    x = _axis(x_label, scale={"domain": list(domain)})
    return _by_label(
        labels,
        title,
        [bar, interval, _rule(0.0, "x", "y", "height")],
        x=x,
        how=how,
    )


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    title: str,
    sd: ArrayLike | None = None,
    top: float | None = None,
    legend: str = "",
) -> Spec:
    """Plot values as cells: blue above 0, orange below, opaque at ``top`` or the largest.

    ``sd`` are standard deviations, for the cells' texts; a legend of the colours has a title.
    """
    table = np.asarray(values, dtype=np.float64).reshape(len(rows), len(columns))
    top = max(float(np.nanmax(np.abs(table), initial=0.0)), 1e-9) if top is None else top
    half = None if sd is None else 1.96 * np.asarray(sd, float).reshape(table.shape)
    cells = [
        {
            "column": c,
            "row": r,
            "v": value,
            "tip": f"{rows[r]}, {columns[c]}: {value:.3g}"
            + ("" if half is None else f" ({value - half[r, c]:.3g} to {value + half[r, c]:.3g})"),
        }
        for (r, c), value in np.ndenumerate(table)
        if np.isfinite(value)
    ]
    layer = _layer(
        cells,
        "rect",
        color={
            "field": "v",
            "type": "quantitative",
            "scale": {
                "domain": [-top, 0, top],
                "range": [_BELOW, _NEITHER, _ABOVE],
                "interpolate": "rgb",
                "clamp": True,
            },
            "legend": {"title": escaped(legend), "orient": "bottom", "titleLimit": 320}
            if legend
            else None,
        },
    )
    x = _labels("columns")
    x["axis"] |= {"labelAngle": -90, "labelOverlap": "parity"}
    how = "Blue is above 0, orange below; the stronger the larger."
    spec = _by_label(rows, title, [layer], x=x, how=how)
    spec["params"].append({"name": "columns", "value": [escaped(name) for name in columns]})
    return spec


def _chart(
    title: str, layers: Sequence[Spec], x: Spec, y: Spec, height: object = 240, *, how: str
) -> Spec:
    return {
        "description": escaped(title),
        "usermeta": {"how": how},
        "width": "container",
        "height": height,
        "encoding": {"x": x, "y": y},
        "layer": list(layers),
    }


def _by_label(
    labels: Sequence[str], title: str, layers: Sequence[Spec], step: int = 20, *, x: Spec, how: str
) -> Spec:
    """Return a chart with one row for each label; equal labels keep a row each."""
    spec = _chart(title, layers, x, _labels("labels"), {"step": step}, how=how)
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec | {"params": [{"name": "labels", "value": [escaped(label) for label in labels]}]}


def _labels(names: str) -> Spec:
    """Return an axis of whole numbers that shows the texts of a parameter, which are no code."""
    axis = {"labelExpr": f"{names}[datum.value]", "labelOverlap": False, "ticks": False}
    return {"type": "ordinal", "title": None, "axis": axis}


def _axis(title: str, **options: Any) -> Spec:
    return {"type": "quantitative", "title": escaped(title)} | options


def _series(names: Sequence[str], **by: str) -> Spec:
    legend = {"orient": "top", "title": None} if len(names) > 1 else None
    return {"type": "nominal", "scale": {"domain": list(names)}, "legend": legend} | by


def _layer(rows: Sequence[Spec], mark: str, style: str = "", **encoding: Any) -> Spec:
    """Return marks of rows; what a row has as x, y and row is its place, tip its text."""
    keys = rows[0] if rows else {}
    places: Spec = {axis: {"field": axis} for axis in ("x", "y") if axis in keys}
    if "row" in keys:
        places["y"] = {"field": "row"}
    if "column" in keys:
        places["x"] = {"field": "column"}
    if "tip" in keys:
        places["tooltip"] = {"field": "tip", "type": "nominal"}
    return {
        "data": {"values": [{key: _number(value) for key, value in row.items()} for row in rows]},
        "mark": {"type": mark} | ({"style": style} if style else {}),
        "encoding": places | encoding,
    }


def _line(x: ArrayLike, y: ArrayLike, tips: Sequence[str]) -> list[Spec]:
    """Return a line, which zooms, and the points that show their text when near."""
    rows = [
        {"x": a, "y": b} for a, b in zip(np.asarray(x, float), np.asarray(y, float), strict=True)
    ]
    n = len(rows)
    places = np.unique(np.linspace(0, n - 1, min(n, _POINTS)).round().astype(int)) if n else ()
    near = _layer([rows[k] | {"tip": tips[k]} for k in places], "point", style="near")
    near["params"] = [{"name": "hover", "select": _NEAREST}]
    near["encoding"]["opacity"] = {
        "condition": {"param": "hover", "empty": False, "value": 1},
        "value": 0,
    }
    line = _layer(rows, "line")
    line["params"] = [_ZOOM]
    line["mark"]["clip"] = near["mark"]["clip"] = True
    return [line, near]


def _rule(value: float, axis: str, across: str, size: str) -> Spec:
    """Return a rule at a value of an axis, across the chart."""
    rule = _layer([{}], "rule", style="ink")
    rule["encoding"] = {axis: {"datum": value}, across: {"value": 0}, f"{across}2": {"value": size}}
    return rule


def _points(rows: Sequence[Spec], axis: str) -> list[Spec]:
    """Return the intervals of points, from ``low`` to ``high`` along an axis, and the points."""
    interval = _layer(rows, "rule")
    interval["encoding"] |= {axis: {"field": "low"}, f"{axis}2": {"field": "high"}}
    return [interval, _layer(rows, "point")]


def _number(value: Any) -> Any:
    """Return a value as JSON has it: six digits, and nothing for what is no finite number."""
    if isinstance(value, float | np.floating):
        return float(f"{value:.9g}") if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value
