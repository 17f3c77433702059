"""What a fit found, for people: data frames with names, a text.

Data frames are made by narwhals: pandas' where it is installed, else those of polars or Arrow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from typing import Any

import narwhals
import numpy as np

from vbmodels.core.column_table import ColumnRead

MOST = 12
"""Coefficients that a summary and a picture show."""
_TWO_SIDED = 1.959964  # sd of a normal between its 2.5 and 97.5 % quantiles


def frame(columns: Mapping[str, Any]) -> Any:
    """Return columns of one length as a data frame.

    Raises
    ------
    ImportError
        If no library of data frames is installed.
    """
    for library in ("pandas", "polars", "pyarrow"):
        if find_spec(library) is not None:
            return narwhals.from_dict(dict(columns), backend=library).to_native()
    raise ImportError("a table of a fit needs pandas, polars or pyarrow: pip install pandas")


def table_of(columns: Sequence[ColumnRead]) -> Any:
    """Return the table of columns as a data frame."""
    names = [one.name for one in fields(ColumnRead)]
    return frame({name: [getattr(one, name) for one in columns] for name in names})


def intervals(columns: Mapping[str, Any], mean: Any, sd: Any) -> Any:
    """Return a data frame of weights: ``columns``, mean, sd, and the 95 % interval low to high."""
    mean, sd = np.asarray(mean, float), np.asarray(sd, float)
    away = _TWO_SIDED * sd
    return frame({**columns, "mean": mean, "sd": sd, "low": mean - away, "high": mean + away})


def largest(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the rows of `intervals` of the largest means, without intercepts; named in one column.

    Parameters
    ----------
    table
        Of `intervals`.
    names
        The columns whose texts together name a row; those that it does not have do not count.
    """
    rows = narwhals.from_native(table, eager_only=True)
    parts = rows.select([name for name in names if name in rows.columns])
    name = np.array(
        [" ".join(str(part) for part in row if part != "") for row in parts.iter_rows()], object
    )
    kept = np.array([i for i, one in enumerate(name) if not one.endswith("intercept")], np.int64)
    size = np.abs(rows["mean"].to_numpy()[kept])
    order = kept[np.argsort(-size, kind="stable")[:MOST]]
    numbers = {column: rows[column].to_numpy()[order] for column in ("mean", "low", "high")}
    return {"name": name[order], **numbers}


def lines_of(table: Mapping[str, Any]) -> list[str]:
    """Return `largest` as lines of text."""
    if not len(table["name"]):
        return []
    width = max(map(len, table["name"]))
    rows = zip(table["name"], table["mean"], table["low"], table["high"], strict=True)
    return [f"  {n:<{width}}  {mean:+.3g} ({low:.3g} to {high:.3g})" for n, mean, low, high in rows]


def classified(classifier: Any, X: Any, y: Any, share: Any) -> str:
    """Return the log loss of rows against that of the classes' shares [C] in the fit."""
    chance = classifier.predict_proba(X)
    place = {label: c for c, label in enumerate(classifier.classes_.tolist())}
    labels = np.asarray(y).tolist()
    if strange := sorted({str(label) for label in labels if label not in place}):
        raise ValueError(f"expected labels of the fit, found {', '.join(strange[:5])}")
    code = np.array([place[label] for label in labels])
    own = -np.log(np.maximum(chance[np.arange(len(code)), code], np.finfo(float).tiny))
    base = -np.log(np.asarray(share)[code])
    gain = base - own
    many = len(gain) > 1
    error = 1.96 * gain.std(ddof=1) / np.sqrt(len(gain)) if many else np.inf
    better = "better" if gain.mean() > error else "not surely better"
    sure = f" (difference {gain.mean():.3f} +- {error:.3f})" if many else ""
    return (
        f"On {len(code)} rows: log loss {own.mean():.3f}, of the classes' shares in the fit "
        f"{base.mean():.3f}; {better}{sure}."
    )
