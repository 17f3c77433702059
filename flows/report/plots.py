"""Charts of the report as Vega-Lite specifications: plain JSON, drawn by the browser.

Colours come from the page (`templates/report.js`), so that a chart follows its light or dark theme.
Each mark carries its own text, which the page shows under the pointer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from flows.escape import escaped

Spec = dict[str, Any]

_POINTS = 200  # points of one line that show their values
_LOW = 1e-7  # the left end of a logarithmic axis
# Wong (2011): distinct for the colour-blind on light and dark grounds.
_ABOVE, _BELOW = "#56b4e9", "#d55e00"
_NEITHER = "rgba(128, 128, 128, 0.06)"
_ZOOM = {
    "name": "zoom",
    "select": {"type": "interval", "zoom": "wheel![event.shiftKey]"},
    "bind": "scales",
}
_NEAREST = {"type": "point", "on": "pointerover", "nearest": True, "clear": "pointerout"}


def trace(iterations: Sequence[int], elbo: Sequence[float], objective: str = "bound") -> Spec:
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
    )


def histogram(
    values: ArrayLike,
    x_label: str,
    y_label: str,
    title: str,
    bins: int = 40,
    counts: ArrayLike | None = None,
) -> Spec:
    """Plot the distribution of values in [0, 1], weighted by ``counts``, on a log scale."""
    number, edges = np.histogram(np.asarray(values), bins, (0.0, 1.0), weights=counts)
    bars = [
        {"x": low, "x2": high, "y": n, "tip": f"{low:.3g} to {high:.3g}: {n:,.0f} {y_label}"}
        for n, low, high in zip(number, edges[:-1], edges[1:], strict=True)
        if n > 0
    ]
    floor = 0.5 * min((float(bar["y"]) for bar in bars), default=1.0)
    layer = _layer(bars, "bar", x2={"field": "x2"}, y2={"datum": floor})
    y = _axis(
        y_label,
        scale={"type": "log", "domainMin": floor, "nice": False},
        axis={"grid": False, "format": ",~g"},
    )
    return _chart(title, [layer], x=_axis(x_label, scale={"domain": [0.0, 1.0]}), y=y)


def bars(labels: Sequence[str], values: Sequence[float], x_label: str, title: str) -> Spec:
    """Plot one horizontal bar for each label, the first on top."""
    rows = [
        {"x": value, "row": row, "tip": f"{label}: {value:,.6g} {x_label}"}
        for row, (label, value) in enumerate(zip(labels, values, strict=True))
    ]
    step: Spec = {"tickMinStep": 1} if all(float(v).is_integer() for v in values) else {}
    return _by_label(labels, title, [_layer(rows, "bar")], x=_axis(x_label, axis=step))


def intervals(
    labels: Sequence[str], mean: Sequence[float], sd: Sequence[float], x_label: str, title: str
) -> Spec:
    """Plot means with their 95 % intervals (1.96 standard deviations), the first on top."""
    points = [
        {"row": row, "x": m, "low": m - 1.96 * s, "high": m + 1.96 * s,
         "tip": f"{label}: {m:.4g} ({m - 1.96 * s:.4g} to {m + 1.96 * s:.4g})"}
        for row, (label, m, s) in enumerate(zip(labels, mean, sd, strict=True))
    ]  # fmt: skip
    return _by_label(
        labels, title, [_zero("x", "y", "height"), *_points(points, "x")], x=_axis(x_label)
    )


def paired_intervals(
    labels: Sequence[str],
    series: Sequence[tuple[str, Sequence[tuple[float, float, float]]]],
    x_label: str,
) -> Spec:
    """Plot (value, low, high) of one or two series on a log axis, the first label on top."""
    points = [
        {"row": row, "series": name, "x": max(v, _LOW), "low": max(low, _LOW),
         "high": max(high, _LOW),
         "tip": f"{label}, {name}: {v:.3g}" + (f" ({low:.3g} to {high:.3g})" if high > low else "")}
        for name, of_labels in series
        for row, (label, (v, low, high)) in enumerate(zip(labels, of_labels, strict=True))
    ]  # fmt: skip
    names = [name for name, _ in series]
    layers = _points(points, "x")
    for layer in layers:
        layer["encoding"]["yOffset"] = {"field": "series", "scale": {"domain": names}}
        layer["encoding"]["color"] = _series(names, field="series")
    x = _axis(x_label, scale={"type": "log"}, axis={"grid": False})
    return _by_label(labels, x_label, layers, 20 if len(names) == 1 else 12, x=x)


def calibration(
    predicted: Sequence[float], observed: Sequence[float], counts: Sequence[int], title: str
) -> Spec:
    """Plot observed shares against predicted probabilities, with 95 % intervals of the shares."""
    share, n = np.asarray(observed, float), np.asarray(counts, float)
    # Agresti and Coull's interval has some width also where all or none are positive.
    centre = (share * n + 2.0) / (n + 4.0)
    half = 1.96 * np.sqrt(centre * (1.0 - centre) / (n + 4.0))
    low, high = np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
    points = [
        {"x": p, "y": s, "low": lo, "high": hi,
         "tip": f"predicted {p:.3g}: observed share {s:.3g} ({lo:.3g} to {hi:.3g}; n = {k:,.0f})"}
        for p, s, k, lo, hi in zip(predicted, share, n, low, high, strict=True)
    ]  # fmt: skip
    diagonal = _layer([{"x": 0.0, "y": 0.0}, {"x": 1.0, "y": 1.0}], "line", style="ink")
    unit: Spec = {"domain": [0.0, 1.0]}
    return _chart(
        title,
        [diagonal, *_points(points, "y")],
        x=_axis("predicted probability", scale=unit),
        y=_axis("observed share", scale=unit),
        height=300,
    )


def lines(
    x: ArrayLike, series: Sequence[tuple[str, ArrayLike]], x_label: str, y_label: str, title: str,
    log: bool = False,
) -> Spec:  # fmt: skip
    """Plot one line for each series; ``log`` makes the axis of ``x`` logarithmic."""
    at = np.asarray(x, float)
    digits = 3 if log else 10
    names = [name for name, _ in series]
    layers: list[Spec] = []
    for number, (name, y) in enumerate(series):
        values = np.asarray(y, float)
        tips = [f"{name} at {a:,.{digits}g}: {b:,.4g}" for a, b in zip(at, values, strict=True)]
        added = _line(at, values, tips, number)
        for layer in added:
            layer["encoding"]["color"] = _series(names, datum=name)
        layers += added
    shown: Spec = {"scale": {"zero": False, "nice": False}, "axis": {"format": ",~r"}}
    if log:
        shown = {"scale": {"type": "log"}, "axis": {"grid": False}}
    return _chart(
        title, layers, x=_axis(x_label, **shown), y=_axis(y_label, scale={"domainMin": 0.0})
    )


def curve(
    x: ArrayLike, y: ArrayLike, sd: ArrayLike, x_label: str, y_label: str, title: str
) -> Spec:
    """Plot one curve with its 95 % band."""
    at, mean, half = (np.asarray(v, float) for v in (x, y, sd))
    low, high = mean - 1.96 * half, mean + 1.96 * half
    tips = [
        f"{x_label} = {a:.4g}: {m:.3g} ({lo:.3g} to {hi:.3g})"
        for a, m, lo, hi in zip(at, mean, low, high, strict=True)
    ]
    rows = [{"x": a, "y": lo, "y2": hi} for a, lo, hi in zip(at, low, high, strict=True)]
    band = _layer(rows, "area", style="band", y2={"field": "y2"})
    return _chart(
        title,
        [band, _zero("y", "x", "width"), *_line(at, mean, tips)],
        x=_axis(x_label, scale={"zero": False, "nice": False}),
        y=_axis(y_label),
    )


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    values: Sequence[Sequence[float]],
    title: str,
    legend: str = "",
) -> Spec:
    """Plot values from -1 to 1 as cells: blue above 0, orange below, opaque at the largest.

    A legend of the colours has a title.
    """
    table = np.asarray(values, dtype=np.float64).reshape(len(rows), len(columns))
    top = max(float(np.nanmax(np.abs(table), initial=0.0)), 1e-9)
    cells = [
        {"column": c, "row": r, "v": value,
         "tip": f"{rows[r]}, {columns[c]}: {value:.3g}"}
        for (r, c), value in np.ndenumerate(table)
        if np.isfinite(value)
    ]  # fmt: skip
    layer = _layer(
        cells,
        "rect",
        color={
            "field": "v",
            "type": "quantitative",
            "scale": {
                "domain": [-top, 0, top], "range": [_BELOW, _NEITHER, _ABOVE], "interpolate": "rgb",
            },
            "legend": {"title": escaped(legend), "orient": "bottom", "titleLimit": 320}
            if legend
            else None,
        },
    )  # fmt: skip
    x = _labels("columns")
    x["axis"] |= {"labelAngle": -90}
    spec = _by_label(rows, title, [layer], x=x)
    spec["params"].append({"name": "columns", "value": [escaped(name) for name in columns]})
    return spec


def _chart(title: str, layers: Sequence[Spec], x: Spec, y: Spec, height: object = 240) -> Spec:
    return {
        "description": escaped(title),
        "width": "container",
        "height": height,
        "encoding": {"x": x, "y": y},
        "layer": list(layers),
    }


def _by_label(
    labels: Sequence[str], title: str, layers: Sequence[Spec], step: int = 20, *, x: Spec
) -> Spec:
    """Return a chart with one row for each label; equal labels keep a row each."""
    spec = _chart(title, layers, x, _labels("labels"), {"step": step})
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return spec | {"params": [{"name": "labels", "value": [escaped(one) for one in labels]}]}


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


def _line(x: ArrayLike, y: ArrayLike, tips: Sequence[str], number: int = 0) -> list[Spec]:
    """Return a line (the first one zooms) and the points that show their text when near."""
    rows = [
        {"x": a, "y": b} for a, b in zip(np.asarray(x, float), np.asarray(y, float), strict=True)
    ]
    n = len(rows)
    places = np.unique(np.linspace(0, n - 1, min(n, _POINTS)).round().astype(int)) if n else ()
    near = _layer([rows[k] | {"tip": tips[k]} for k in places], "point", style="near")
    hover = f"hover{number}"
    near["params"] = [{"name": hover, "select": _NEAREST}]
    near["encoding"]["opacity"] = {
        "condition": {"param": hover, "empty": False, "value": 1}, "value": 0,
    }  # fmt: skip
    line = _layer(rows, "line")
    if number == 0:
        line["params"] = [_ZOOM]
    line["mark"]["clip"] = near["mark"]["clip"] = True
    return [line, near]


def _zero(axis: str, across: str, size: str) -> Spec:
    """Return a rule at zero of an axis, across the chart."""
    rule = _layer([{}], "rule", style="ink")
    rule["encoding"] = {axis: {"datum": 0.0}, across: {"value": 0}, f"{across}2": {"value": size}}
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
