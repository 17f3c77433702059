"""How the predictions of two runs differ, row by row of the tables that both have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data import storage
from flows.data.runs import RunPaths
from flows.runs.listing import cell, parts_of, probability_in, selection_in, tables_of

MOST_ROWS = 2_000_000  # of a table, read
MOST_DRAWN = 2_000
MOST_MOVED = 50
_MOVED = 0.1  # a change of a probability that counts
_PLACE = "pos"  # the one number that names a row
TRUTHS = {"label": "label as given", "observed": "known keyphrase"}
"""Columns of what the input says of a row, and what people call them."""
_KNOWN = "observed"  # of rows whose probability the input fixes
_SELECTED = " selected"  # a column of whether a row is selected; no table's own


@dataclass(frozen=True)
class Change:
    """A row of both runs: the texts that name it, by column, and both probabilities.

    ``truth``: its label as the input has it, where the table says it. ``selected``: whether each
    run selects it, where the table has a selection.
    """

    row: Mapping[str, str]
    first: float
    second: float
    truth: str = ""
    selected: tuple[bool, bool] | None = None

    @property
    def label(self) -> str:
        """The texts that name the row, those that are empty left out."""
        return ", ".join(value for value in self.row.values() if value)


@dataclass(frozen=True)
class Moved:
    """A column of probabilities in both runs, over the rows that both have.

    Attributes
    ----------
    table, column, truth
        Where it is; the column of the rows' labels in the second run, "" for none.
    shared, only_first, only_second
        Rows of both runs, and of one alone.
    free
        Rows of both whose probability is no known keyphrase's, of which ``mean_change`` is.
    mean_change, mean_size, correlation
        Mean difference, and mean absolute one; correlation, None where one run has no spread.
    moved, crossed
        Rows that moved by more than 0.1, and that are on another side of 0.5.
    lost, gained
        Rows that the second run selects no longer, and newly; None in a table without selection.
    largest
        The rows whose selection changed, then those that moved most.
    drawn
        Rows for a picture.
    cut
        Whether a table has more rows than the `MOST_ROWS` that are read.
    """

    table: str
    column: str
    truth: str
    shared: int
    only_first: int
    only_second: int
    free: int
    mean_change: float
    mean_size: float
    correlation: float | None
    moved: int
    crossed: int
    lost: int | None
    gained: int | None
    largest: Sequence[Change]
    drawn: Sequence[Change]
    cut: bool

    def as_json(self) -> dict[str, Any]:
        """Return the numbers and the rows that moved most."""
        return {name: value for name, value in asdict(self).items() if name != "drawn"}


def compare_predictions(first: RunPaths, second: RunPaths) -> list[Moved]:
    """Compare the probabilities of all tables that both runs have and whose rows have names.

    Tables with a selection are first.
    """
    names = [name for name in tables_of(first) if name in tables_of(second)]
    found = (_compare(name, first, second) for name in names)
    return sorted((one for one in found if one is not None), key=lambda one: one.lost is None)


def _compare(name: str, first: RunPaths, second: RunPaths) -> Moved | None:
    one, two = _read(first, name), _read(second, name)
    if one is None or two is None or one.schema.names != two.schema.names:
        return None
    keys, column = _naming((one, two)), one.schema.names[-1]
    truth = next((c for c in one.schema.names if _is_truth(one.schema.field(c))), "")
    cut = MOST_ROWS in (len(one), len(two))
    if not keys:
        return None
    more = [*([truth] if truth else []), *([_SELECTED] if _SELECTED in one.schema.names else [])]
    one, two = (table.select([*keys, *more, column]) for table in (one, two))
    both = one.join(two, keys, join_type="inner", right_suffix=" 2")
    both = both.filter(pc.field(column).is_valid() & pc.field(f"{column} 2").is_valid())
    if not len(both):
        return None
    both = both.sort_by([(key, "ascending") for key in keys])
    p, q = (both[c].to_numpy().astype(float) for c in (column, f"{column} 2"))
    free = np.ones(len(p), bool)
    if truth == _KNOWN:
        known = pc.and_(both[truth], both[f"{truth} 2"])
        free = ~pc.fill_null(known, False).to_numpy()
    change = (q - p)[free]
    was = now = np.zeros(len(p), bool)
    if _SELECTED in more:
        was, now = (both[c].to_numpy() for c in (_SELECTED, f"{_SELECTED} 2"))
    order = np.lexsort((-np.abs(q - p), was == now))[:MOST_MOVED]
    some = np.unique(np.linspace(0, len(p) - 1, min(len(p), MOST_DRAWN)).astype(int))
    spread = min(p.std(), q.std()) > 0.0
    return Moved(
        table=name,
        column=column,
        truth=truth,
        shared=len(both),
        only_first=len(one) - len(both),
        only_second=len(two) - len(both),
        free=int(free.sum()),
        mean_change=float(change.mean()) if len(change) else 0.0,
        mean_size=float(np.abs(change).mean()) if len(change) else 0.0,
        correlation=float(np.corrcoef(p, q)[0, 1]) if spread else None,
        moved=int(np.sum(np.abs(q - p) > _MOVED)),
        crossed=int(np.sum((p > 0.5) != (q > 0.5))),
        lost=int(np.sum(was & ~now)) if _SELECTED in more else None,
        gained=int(np.sum(now & ~was)) if _SELECTED in more else None,
        largest=_changes(both, keys, truth, p, q, order),
        drawn=_changes(both, keys, truth, p, q, some),
        cut=cut,
    )


def _changes(
    both: pa.Table, keys: Sequence[str], truth: str, p: np.ndarray, q: np.ndarray,
    places: np.ndarray,
) -> list[Change]:  # fmt: skip
    rows = both.take(pa.array(places)).to_pylist()
    return [
        Change(
            {key: cell(row[key]) for key in keys},
            float(p[i]),
            float(q[i]),
            cell(row[f"{truth} 2"]) if truth else "",
            (row[_SELECTED], row[f"{_SELECTED} 2"]) if _SELECTED in row else None,
        )
        for row, i in zip(rows, places, strict=True)
    ]


def _selected(part: pa.Table, conditions: Sequence[str]) -> pa.ChunkedArray:
    """Return whether each row holds all conditions ``column=value``."""
    found = pa.scalar(True)
    for condition in conditions:
        name, _, value = condition.partition("=")
        holds = pc.equal(part[name], True if value == "yes" else value)
        found = pc.and_(found, pc.fill_null(holds, False))
    return found


def _is_truth(column: pa.Field) -> bool:
    """Whether a column is what the input says of a row."""
    return column.name in TRUTHS


def _naming(tables: Sequence[pa.Table]) -> list[str]:
    """Return the fewest first columns that name a row in each table; none where none do."""
    names = [
        one.name
        for one in list(tables[0].schema)[:-1]
        if not _is_truth(one) and one.name != _SELECTED
    ]
    for count in range(1, len(names) + 1):
        if all(len(t) == len(t.group_by(names[:count]).aggregate([])) for t in tables):
            return names[:count]
    return []


def _read(paths: RunPaths, name: str) -> pa.Table | None:
    """Read the columns that name a row, whether it is selected, and its probability.

    None where there are none.
    """
    urls = [storage.join(paths.table(name), part) for part in parts_of(paths, name)]
    schema = storage.parquet_file(urls[0]).schema_arrow
    column = probability_in(schema.names)
    if not column:
        return None
    keys = []
    for field in schema:
        if field.name == column or pa.types.is_floating(field.type):
            break
        named = pa.types.is_string(field.type) or field.name == _PLACE
        if named and not _is_truth(field):
            keys.append(field.name)
    if not keys:
        return None
    keys += [field.name for field in schema if _is_truth(field)][:1]
    chosen = selection_in(schema.names)
    used = [condition.partition("=")[0] for condition in chosen]
    tables: list[pa.Table] = []
    for url in urls:
        part = storage.read_table(url, list(dict.fromkeys([*keys, *used, column])))
        if chosen:
            place = part.schema.get_field_index(column)
            part = part.add_column(place, _SELECTED, _selected(part, chosen))
        tables.append(part.select([*keys, *([_SELECTED] if chosen else []), column]))
        if sum(map(len, tables)) >= MOST_ROWS:
            break
    table = pa.concat_tables(tables).slice(0, MOST_ROWS)
    for key in keys:
        if pa.types.is_string(table[key].type):
            table = table.set_column(
                table.schema.get_field_index(key), key, pc.fill_null(table[key], "")
            )
    return table
