"""Two runs compared on the rows that both held out: differences of pairs of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import xlogy

from flows.data import storage
from flows.data.names import digests_of
from flows.data.runs import RunPaths, RunRecord
from flows.report.baselines import resampled_means
from flows.report.labels import label
from flows.runs.listing import parts_of, tables_of
from vbmodels.core.state import FloatArray

ROWS, HELD_OUT, GROUP, PREDICTED = "rows", "held_out", "group", "predicted"
PROBABILITY = "probability_"
LOG_LOSS, R2, DEVIANCE = "log loss", label("r2"), label("deviance_explained")


@dataclass(frozen=True)
class Paired:
    """A measure of two runs on the rows that both held out.

    Attributes
    ----------
    name
        Of the measure, as reports have it.
    first, second
        Its values.
    low, high
        The 95 % interval of second minus first, by the bootstrap over rows; rows of one group are
        drawn together.
    rows, alone
        How many rows both held out, and how many one alone did.
    """

    name: str
    first: float
    second: float
    low: float
    high: float
    rows: int
    alone: int

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def better(self) -> str | None:
        """Which run is clearly better; None for neither."""
        if not self.clear:
            return None
        return "second" if (self.low > 0.0) != (self.name == LOG_LOSS) else "first"

    def in_words(self) -> str:
        """Say what the difference is, and on which rows."""
        alone = f" ({self.alone:,} others are held out of one alone)" if self.alone else ""
        return (
            f"{self.second - self.first:+.3f} ({self.low:+.3f} to {self.high:+.3f}) on the "
            f"{self.rows:,} rows that both runs held out{alone}"
        )


def compare_held_out(
    runs: tuple[RunPaths, RunPaths], records: tuple[RunRecord, RunRecord]
) -> Paired | None:
    """Compare two runs on the rows that both held out; None where there are none, or no measure."""
    tables = [_held_out(paths) for paths in runs]
    if any(table is None for table in tables):
        return None
    one, two = (table for table in tables if table is not None)
    both = one.join(two, "id", join_type="inner", right_suffix=" 2").sort_by("id")
    if len(both) < 2 or not both["label"].equals(both["label 2"]):
        return None
    heads = {tile["label"] for tile in records[0].tiles}
    renamed = {name: both["id" if name == "id" else f"{name} 2"] for name in two.column_names}
    sides = [both.select(one.column_names), pa.table(renamed)]
    names = [{name for name in side.column_names if name.startswith(PROBABILITY)} for side in sides]
    group = np.arange(len(both))
    if GROUP in one.column_names and GROUP in two.column_names:
        named = pc.coalesce(both[GROUP], both["id"])
        group = digests_of(named.to_pylist())
    alone = len(one) + len(two) - 2 * len(both)
    if LOG_LOSS in heads and names[0] == names[1]:
        losses = [_log_losses(side, record) for side, record in zip(sides, records, strict=True)]
        if np.isnan(losses).any():
            return None
        drawn = resampled_means(losses[1] - losses[0], group, 0)
        low, high = np.quantile(drawn, [0.025, 0.975])
        first, second = (float(loss.mean()) for loss in losses)
        return Paired(LOG_LOSS, first, second, float(low), float(high), len(both), alone)
    name = DEVIANCE if DEVIANCE in heads else R2
    if name not in heads or PREDICTED not in both.column_names:
        return None
    return _of_numbers(name, sides, group, alone)


def _of_numbers(name: str, sides: list[pa.Table], group: np.ndarray, alone: int) -> Paired | None:
    y = sides[0]["label"].to_numpy().astype(float)
    loss = _squares if name == R2 else _deviance
    constant = float(loss(y, np.full(y.size, y.mean())).mean())
    if not constant > 0.0:
        return None
    first, second = (loss(y, side[PREDICTED].to_numpy()) / constant for side in sides)
    low, high = np.quantile(resampled_means(first - second, group, 0), [0.025, 0.975])
    values = 1.0 - float(first.mean()), 1.0 - float(second.mean())
    return Paired(name, *values, float(low), float(high), y.size, alone)


def _held_out(paths: RunPaths) -> pa.Table | None:
    if ROWS not in tables_of(paths):
        return None
    urls = [storage.join(paths.table(ROWS), part) for part in parts_of(paths, ROWS)]
    names = storage.parquet_file(urls[0]).schema_arrow.names
    if not {"id", "label", HELD_OUT} <= {*names}:
        return None
    used = [
        name
        for name in names
        if name in ("id", "label", HELD_OUT, GROUP, PREDICTED) or name.startswith(PROBABILITY)
    ]
    table = pa.concat_tables([storage.read_table(url, used) for url in urls])
    return table.filter(table[HELD_OUT]).drop_columns(HELD_OUT)


def _log_losses(rows: pa.Table, record: RunRecord) -> FloatArray:
    """Return the log loss of each row."""
    labels = [str(one) for one in record.results.get("labels", [])]
    given = [str(one) for one in rows["label"].to_pylist()]
    chances: dict[str, Any] = {
        name.removeprefix(PROBABILITY): rows[name].to_numpy()
        for name in rows.column_names
        if name.startswith(PROBABILITY)
    }
    if len(chances) == 1:
        ((positive, p),) = chances.items()
        negative = next((one for one in labels if one != positive), "")
        chances = {positive: p, negative: 1.0 - p}
    found = np.full(len(given), np.nan)
    for name, p in chances.items():
        found = np.where([one.casefold() == name.casefold() for one in given], p, found)
    return np.asarray(-np.log(np.maximum(found, 1e-12)))


def _squares(y: FloatArray, p: FloatArray) -> FloatArray:
    return np.asarray((y - p) ** 2)


def _deviance(y: FloatArray, p: FloatArray) -> FloatArray:
    return np.asarray(2.0 * (xlogy(y, y / np.maximum(p, 1e-300)) - (y - p)))
