"""Rows of the tables that two runs have: measured on the same rows, and those that moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows import storage
from flows.evaluate.estimate import Estimate
from flows.evaluate.rivals import CLASSES, COUNT, LABEL, NUMBER, Target, compare
from flows.read.rows import cell, described, parts_of, probabilities_in, selection_in, tables_of
from flows.records.runs import RunPaths, RunRecord
from flows.tables.names import digests_of, same_label
from vbmodels.core.state import BoolArray, FloatArray

MOST_ROWS = 2_000_000
"""Rows of a table that are read."""
MOVED = 0.1
"""A change of a probability that counts; of a number, in standard deviations of the first run's."""
LISTED = 1000
"""Rows that moved, of a table."""
Measure = Literal["log loss", "RMSE", "deviance"]
MEASURES: dict[Target, Measure] = {
    LABEL: "log loss",
    CLASSES: "log loss",
    NUMBER: "RMSE",
    COUNT: "deviance",
}
What = Literal["added", "dropped", "crossed", "moved"]
_LABEL, _OBSERVED, _PREDICTED, _WITHOUT = "label", "observed", "predicted", "without_it"
_HELD_OUT, _GROUP, _CHANCE, _PLACE = "held_out", "group", "probability_", "pos"
_WEIGHT, _CLASS = "weight", "class"  # of a row, where bags have one for each
_THIS_MODEL = "this model: "
_SELECTED, _HERE, _SECOND = " selected", " here", " 2"


@dataclass(frozen=True)
class Paired:
    """Both runs on the rows that both have tested.

    Attributes
    ----------
    table, measure
        Where the rows are, and what is measured.
    rows, first_alone, second_alone
        How many rows both have tested, and one alone.
    first, second
        The mean log loss or deviance; of a number the root of the mean square of the errors.
    less
        The first run's loss less the second's, of a number or count as a share of the mean's: above
        0 the second run is better.
    """

    table: str
    measure: Measure
    rows: int
    first_alone: int
    second_alone: int
    first: float
    second: float
    less: Estimate


@dataclass(frozen=True)
class MovedRow:
    """A row that changed: what names it, its values in both runs, None where one lacks it."""

    names: Mapping[str, str]
    what: What
    first: float | None
    second: float | None
    given: str


@dataclass(frozen=True)
class Moved:
    """A table of both runs, row by row.

    Attributes
    ----------
    table, column
        Where the values are.
    headings
        What heads the columns that name a row, and last that of the values.
    is_chance
        Whether they are probabilities, else numbers.
    shared, first_alone, second_alone
        Rows of both runs, and of one alone.
    selected
        Rows that the first run selects; None in a table without selection.
    added, dropped
        Rows that the second run alone selects, or the first alone.
    added_right, dropped_right
        How many of them are expected to be right, by the run that selects them.
    crossed, moved
        Rows on another side of 0.5, and others that moved by more than `MOVED`; with several
        probabilities any of them, and one that did names the row too.
    mean, largest
        Mean and largest size of the changes, of several probabilities the largest of a row.
    rows
        The rows that changed, at most `LISTED`.
    is_cut
        Whether a table has more than the `MOST_ROWS` that were read.
    """

    table: str
    column: str
    headings: Mapping[str, str]
    is_chance: bool
    shared: int
    first_alone: int
    second_alone: int
    selected: int | None
    added: int
    dropped: int
    added_right: float
    dropped_right: float
    crossed: int
    moved: int
    mean: float
    largest: float
    rows: tuple[MovedRow, ...]
    is_cut: bool


def pair_tested(
    runs: tuple[RunPaths, RunPaths], records: tuple[RunRecord, RunRecord]
) -> Paired | None:
    """Measure two runs on the rows that both have tested, by the first one's weights, or None."""
    for name in _shared_tables(*runs):
        first, second = (
            _tested(paths, name, bool(record.fitted))
            for paths, record in zip(runs, records, strict=True)
        )
        if first is None or second is None or first.column_names != second.column_names:
            continue
        keys = [c for i, c in enumerate(first.column_names) if i == 0 or c == _CLASS]
        both = first.join(second, keys, join_type="inner", right_suffix=_SECOND).sort_by(
            [(key, "ascending") for key in keys]
        )
        if len(both) < 2 or not both[_LABEL].equals(both[_LABEL + _SECOND]):
            continue
        predicted = [c for c in first.column_names if c not in (*keys, _LABEL, _GROUP, _WEIGHT)]
        is_count = records[0].results.get("kind") == "count"
        truth, target = _truth_of(both[_LABEL], predicted, is_count)
        p, q = (_predictions(both, [f"{c}{suffix}" for c in predicted]) for suffix in ("", _SECOND))
        group = np.arange(len(both))
        if _GROUP in both.column_names:
            named = pc.coalesce(both[_GROUP].cast(pa.string()), both[keys[0]])
            group = digests_of(named.to_pylist())
        weight = both[_WEIGHT].to_numpy() / pc.mean(both[_WEIGHT]).as_py()
        (rival,) = compare(target, truth, q, {"first": p}, group, weight=weight)
        measure = MEASURES[target]
        root = 0.5 if measure == "RMSE" else 1.0
        losses = [float((target.loss(truth, x) * weight).mean()) ** root for x in (p, q)]
        return Paired(
            table=name,
            measure=measure,
            rows=len(both),
            first_alone=len(first) - len(both),
            second_alone=len(second) - len(both),
            first=losses[0],
            second=losses[1],
            less=rival.more,
        )
    return None


def moved_rows(first: RunPaths, second: RunPaths) -> tuple[Moved, ...]:
    """Compare all tables that both runs have and whose rows have names; selections first."""
    tables = [_moved(name, first, second) for name in _shared_tables(first, second)]
    return tuple(sorted(filter(None, tables), key=lambda table: table.selected is None))


def _shared_tables(first: RunPaths, second: RunPaths) -> list[str]:
    there = tables_of(second)
    return [name for name in tables_of(first) if name in there]


def _tested(paths: RunPaths, name: str, is_score: bool) -> pa.Table | None:
    """Read the rows that a run predicts without their label.

    Their names, classes where bags have several, labels, weights, groups and predictions.
    """
    urls = [storage.join(paths.table(name), part) for part in parts_of(paths, name)]
    names = storage.parquet_file(urls[0]).schema_arrow.names
    tested_columns = [c for c in names if c.startswith(_THIS_MODEL)]
    predicted = tested_columns or probabilities_in(names) or [c for c in names if c == _PREDICTED]
    if _LABEL not in names or not predicted or not (tested_columns or _HELD_OUT in names):
        return None
    without = _without(names, predicted)
    label = "level" if "level" in names and predicted != [_PREDICTED] else _LABEL
    groups = dict(zip((_GROUP,), (c for c in (_GROUP, "unit") if c in names), strict=False))
    kept = [c for c in (_CLASS, _HELD_OUT, _WEIGHT) if c in names]
    tables = []
    for url in urls:
        part = storage.read_table(
            url, [names[0], label, *kept, *groups.values(), *predicted, *without]
        )
        known = part[label].is_valid()
        values = [part[c] for c in predicted]
        tested = known if tested_columns or is_score else pc.and_(known, part[_HELD_OUT])
        if without:
            tested = pc.or_(tested, pc.and_(known, part[without[0]].is_valid()))
            values = [pc.coalesce(part[w], v) for w, v in zip(without, values, strict=True)]
        columns = {names[0]: part[names[0]], _LABEL: part[label]}
        columns |= {c: pc.fill_null(part[c], "") for c in (_CLASS,) if c in names}
        columns[_WEIGHT] = (
            pc.fill_null(part[_WEIGHT], 0.0) if _WEIGHT in names else np.ones(len(part))
        )
        columns |= {name: part[c] for name, c in groups.items()}
        columns |= zip((c.replace(_THIS_MODEL, _CHANCE) for c in predicted), values, strict=True)
        tables.append(pa.table(columns).filter(tested).filter(pc.field(_WEIGHT) > 0.0))
    return pa.concat_tables(tables)


def _without(names: Sequence[str], predicted: Sequence[str]) -> list[str]:
    """Return the columns of the same predictions without a row's own label; none without these."""
    without = [c.replace("probability", _WITHOUT, 1) for c in predicted]
    if len(predicted) == 1 and (predicted == [_PREDICTED] or without[0] not in names):
        without = [_WITHOUT]
    return without if {*without} <= {*names} else []


def _truth_of(
    label: pa.ChunkedArray, predicted: Sequence[str], is_count: bool
) -> tuple[FloatArray, Target]:
    """Return the truth as numbers, and how it is measured."""
    if predicted == [_PREDICTED]:
        return label.to_numpy().astype(float), COUNT if is_count else NUMBER
    labels = [cell(value) for value in label.to_pylist()]
    names = ["1" if c == "probability" else c.removeprefix(_CHANCE) for c in predicted]
    meant = {text: same_label(text, names) for text in {*labels}}
    if len(names) == 1:
        return np.array([meant[text] is not None for text in labels], float), LABEL
    return np.array([names.index(meant[text] or "") for text in labels], float), CLASSES


def _predictions(rows: pa.Table, columns: Sequence[str]) -> FloatArray:
    values = np.column_stack([rows[column].to_numpy().astype(float) for column in columns])
    return values[:, 0] if len(columns) == 1 else values


def _moved(name: str, first: RunPaths, second: RunPaths) -> Moved | None:
    one, two = _read(first, name), _read(second, name)
    if one is None or two is None or one.table.schema.names != two.table.schema.names:
        return None
    keys = _naming(one, two)
    if not keys:
        return None
    both = one.table.join(two.table, keys, join_type="full outer", right_suffix=_SECOND)
    both = both.sort_by([(key, "ascending") for key in keys])
    p, q = (
        np.column_stack([both[f"{c}{end}"].to_numpy().astype(float) for c in one.predicted])
        for end in ("", _SECOND)
    )
    here, there = (both[f"{_HERE}{end}"].is_valid().to_numpy() for end in ("", _SECOND))
    shared = np.isfinite(p) & np.isfinite(q)
    if not shared.any():
        return None
    size = np.where(shared, np.abs(q - p), 0.0)
    spread = 1.0 if one.is_chance else float(p[shared].std()) or 1.0
    crossed = shared & ((p > 0.5) != (q > 0.5)) & one.is_chance
    of = np.argmax(size + crossed, axis=1)  # of several classes the one that is listed
    p, q, shared, crossed = (x[np.arange(len(of)), of] for x in (p, q, shared, crossed))
    size = size.max(axis=1)
    if len(one.predicted) > 1:
        classes = pa.array([c.removeprefix(_CHANCE) for c in one.predicted])
        both, keys = both.append_column(_CLASS, classes.take(pa.array(of))), [*keys, _CLASS]
    moved = (size > MOVED * spread) & ~crossed
    is_cut = MOST_ROWS in (len(one.table), len(two.table))
    added = dropped = was = np.zeros(len(p), bool)
    if one.is_selection:
        was, now = (
            pc.fill_null(both[f"{_SELECTED}{end}"], False).to_numpy() for end in ("", _SECOND)
        )
        added, dropped = now & ~was, was & ~now
        if is_cut:  # a row that one run seems to lack may be among those that were not read
            added, dropped = added & here, dropped & there
    kinds: dict[What, BoolArray] = {
        "added": added,
        "dropped": dropped,
        "crossed": crossed & ~added & ~dropped,
        "moved": moved & ~added & ~dropped,
    }
    return Moved(
        table=name,
        column=one.column,
        headings={name: one.headings.get(name, name) for name in (*keys, one.column)},
        is_chance=one.is_chance,
        shared=int(shared.sum()),
        first_alone=int((here & ~there).sum()),
        second_alone=int((there & ~here).sum()),
        selected=int(was.sum()) if one.is_selection else None,
        added=int(added.sum()),
        dropped=int(dropped.sum()),
        added_right=float(np.nansum(q[added])),
        dropped_right=float(np.nansum(p[dropped])),
        crossed=int(crossed.sum()),
        moved=int(moved.sum()),
        mean=float(size[shared].mean()),
        largest=float(size.max()),
        rows=tuple(_list(both, keys, kinds, p, q))[:LISTED],
        is_cut=is_cut,
    )


def _list(
    both: pa.Table,
    keys: Sequence[str],
    kinds: Mapping[What, BoolArray],
    p: FloatArray,
    q: FloatArray,
) -> Iterator[MovedRow]:
    """Yield the rows that changed: of a selection the most probable first, else the farthest."""
    order = {"added": np.nan_to_num(q), "dropped": np.nan_to_num(p)}
    labels = [column for column in (_LABEL, _OBSERVED) if column in both.column_names]
    for what, changed in kinds.items():
        places = np.flatnonzero(changed)
        by = order.get(what, np.abs(np.nan_to_num(q) - np.nan_to_num(p)))
        places = places[np.argsort(-by[places], kind="stable")][:LISTED]
        rows = both.take(pa.array(places, pa.int64())).to_pylist()
        for row, place in zip(rows, places, strict=True):
            truth = [row[f"{column}{end}"] for column in labels for end in ("", _SECOND)]
            yield MovedRow(
                {key: cell(row[key]) for key in keys},
                what,
                float(p[place]) if np.isfinite(p[place]) else None,
                float(q[place]) if np.isfinite(q[place]) else None,
                next((cell(value) for value in truth if value is not None), ""),
            )


@dataclass(frozen=True)
class _Rows:
    """Columns that name a row, its label, whether it is selected, and what is ``predicted``."""

    table: pa.Table
    keys: Sequence[str]
    predicted: Sequence[str]
    column: str
    headings: Mapping[str, str]
    is_chance: bool
    is_selection: bool


def _read(paths: RunPaths, name: str) -> _Rows | None:
    """Read a table; of a fitted row the prediction without its own label, where there is one."""
    urls = [storage.join(paths.table(name), part) for part in parts_of(paths, name)]
    schema = storage.parquet_file(urls[0]).schema_arrow
    predicted = probabilities_in(schema.names) or [c for c in schema.names if c == _PREDICTED]
    if not predicted or not pa.types.is_floating(schema.field(predicted[0]).type):
        return None
    labels = [c for c in (_LABEL, _OBSERVED) if c in schema.names][:1]
    keys = _before_numbers(schema, labels)
    if not keys:
        return None
    selection = selection_in(schema.names)
    without = _without(schema.names, predicted) or predicted
    used = [*keys, *labels, *selection, *without, *predicted]
    tables: list[pa.Table] = []
    for url in urls:
        part = storage.read_table(url, list(dict.fromkeys(used)))
        columns = {c: part[c] if c == _PLACE else pc.fill_null(part[c], "") for c in keys}
        columns |= {c: part[c] for c in labels}
        if selection:
            held = (pc.fill_null(pc.equal(part[c], v), False) for c, v in selection.items())
            columns[_SELECTED] = reduce(pc.and_, held)
        values = (pc.coalesce(part[w], part[c]) for w, c in zip(without, predicted, strict=True))
        columns |= zip(predicted, values, strict=True)
        tables.append(pa.table(columns | {_HERE: pa.repeat(True, len(part))}))
        if sum(map(len, tables)) >= MOST_ROWS:
            break
    table = pa.concat_tables(tables).slice(0, MOST_ROWS)
    return _Rows(
        table,
        keys,
        predicted,
        predicted[0] if len(predicted) == 1 else "probability",
        {c.name: c.label or c.name.replace("_", " ") for c in described(schema)},
        predicted != [_PREDICTED],
        bool(selection),
    )


def _before_numbers(schema: pa.Schema, labels: Sequence[str]) -> list[str]:
    """Return the columns of text, and of places, before the first number, and that of a class."""
    keys = []
    for field in schema:
        if field.name in labels:
            continue
        if pa.types.is_floating(field.type):
            break
        if field.name != _GROUP and (pa.types.is_string(field.type) or field.name == _PLACE):
            keys.append(field.name)
    return [*keys, *(name for name in schema.names if keys and name == _CLASS)]


def _naming(one: _Rows, two: _Rows) -> list[str]:
    """Return the fewest first columns that name a row in both; none where none do."""
    for count in range(1, len(one.keys) + 1):
        keys = list(one.keys[:count])
        if all(len(t) == len(t.group_by(keys).aggregate([])) for t in (one.table, two.table)):
            return keys
    return []
