"""How the predictions of two runs differ, row by row of the tables that both have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.data import storage
from flows.data.runs import RunPaths
from flows.runs.listing import cell, columns_of, parts_of, probability_in, selection_in, tables_of

MOST_ROWS = 2_000_000  # of a table, read
_MOVED = 0.1  # a change of a probability that counts
_PLACE = "pos"  # the one number that names a row
TRUTHS = {"label": "label as given", "observed": "known keyphrase"}
"""Columns of what the input says of a row, and what people call them."""
_KNOWN = "observed"  # of rows whose probability the input fixes
_WITHOUT = "without_it"  # the probability of a row that was fitted, without its own label
_PLACE_IN_DOCUMENT = "rank"  # of a row by its probability
_SELECTED, _HERE, _RANK = " selected", " here", " rank"  # whether a row is selected, and there
_SELECTED_2 = f"{_SELECTED} 2"


@dataclass(frozen=True)
class Limits:
    """What a run selects: the least probability, and the most rows of a document; None: unknown."""

    least: float | None = None
    most: int | None = None

    @classmethod
    def of(cls, results: Mapping[str, Any]) -> Self:
        """Return those that the results of a run name."""
        return cls(results.get("least_probability"), results.get("most_per_document"))


@dataclass(frozen=True)
class Change:
    """A row that changed: the texts that name it, by column, and both probabilities.

    A probability is None where a run has not the row. ``truth``: its label as the input has it,
    None where the table does not say it. ``what``: what happened to it, such as `LOST`. ``why``:
    which run does not select it, and why; empty where not known.
    """

    row: Mapping[str, str]
    first: float | None
    second: float | None
    truth: str | None = None
    what: str = ""
    why: str = ""

    @property
    def size(self) -> float:
        """By how much its probability moved; 0 where a run has not the row."""
        known = self.first is not None and self.second is not None
        return abs(self.second - self.first) if known else 0.0  # type: ignore[operator]

    def as_row(self) -> dict[str, Any]:
        """Return it as a row of a table."""
        truth = {} if self.truth is None else {"given": self.truth}
        why = {"why": self.why} if self.why else {}
        own = {"first": self.first, "second": self.second, "what": self.what}
        return {**self.row, **own, **why, **truth}


def in_digits(*values: float | None) -> list[str]:
    """Write probabilities with two decimals, or as many as show a difference (four at most).

    >>> in_digits(0.0977, 0.3), in_digits(0.9991, 0.9976), in_digits(None, 0.001)
    (['0.10', '0.30'], ['0.999', '0.998'], ['not in this run', '< 0.01'])
    """
    known = [value for value in values if value is not None]
    digits = next((d for d in (2, 3) if len({f"{v:.{d}f}" for v in known}) == len(set(known))), 4)
    texts = ["not in this run" if v is None else f"{v:.{digits}f}" for v in values]
    return [{"0.00": "< 0.01", "1.00": "> 0.99"}.get(text, text) for text in texts]


LOST, GAINED = "no longer selected", "newly selected"
CROSSED, MOVED = "crossed 0.5", "moved by more than 0.1"
STAYED = "moved, still selected"  # by more than 0.1, or across 0.5
NEITHER = "moved, not selected"
BELOW, BEYOND = "below the limit of {:.3g}", "beyond the {} best of its document"
ALIKE, ABOVE = "part or near copy of another", "not among its document's best"
BOTH, ABSENT = "selected by both runs", "no such row"


@dataclass(frozen=True)
class Names:
    """The rows of both runs and of one alone, of which changes are made."""

    every: pa.Table
    keys: Sequence[str]
    truth: str
    first: np.ndarray
    second: np.ndarray
    limits: tuple[Limits, Limits] = (Limits(), Limits())

    @property
    def selections(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether each row is selected, by the first run and by the second."""
        one, two = (pc.fill_null(self.every[c], False).to_numpy() for c in (_SELECTED, _SELECTED_2))
        return one, two

    def reasons(self, places: np.ndarray, what: str) -> list[str]:
        """Say for each place what keeps it out of the selection of one run; "" if not known.

        Of rows that neither run selects it is what keeps them out of the second run's.
        """
        limits, mark = (self.limits[0], "") if what == GAINED else (self.limits[1], " 2")
        if limits.least is None or what not in (LOST, GAINED, NEITHER, STAYED):
            return [""] * len(places)
        if what == STAYED:
            return [BOTH] * len(places)
        p, below = (
            (self.first if what == GAINED else self.second)[places],
            BELOW.format(limits.least),
        )
        just = [f"just {below}" if f"{v:.2f}" == f"{limits.least:.2f}" else below for v in p]
        found = np.where(p < limits.least, just, ABOVE)
        if limits.most is not None and f"{_RANK}{mark}" in self.every.schema.names:
            rank = pc.fill_null(self.every[f"{_RANK}{mark}"], 0).to_numpy()[places]
            above = np.where(rank > limits.most, BEYOND.format(limits.most), ALIKE)
            found = np.where(p < limits.least, just, above)
        return [str(one) for one in np.where(np.isfinite(p), found, ABSENT)]

    def changes(self, places: np.ndarray, what: str = "") -> list[Change]:
        """Return the rows in some places, as changes of a kind."""
        named = [*self.keys, *([self.truth, f"{self.truth} 2"] if self.truth else [])]
        rows = self.every.select(named).take(pa.array(places, pa.int64())).to_pylist()
        found = []
        which = {GAINED: "first run: ", STAYED: ""}.get(what, "second run: ")
        for row, place, reason in zip(rows, places, self.reasons(places, what), strict=True):
            why = reason and f"{which}{reason}"
            truth = row[f"{self.truth} 2"] if self.truth else None
            truth = row[self.truth] if self.truth and truth is None else truth
            p, q = (
                float(of[place]) if np.isfinite(of[place]) else None
                for of in (self.first, self.second)
            )
            keys = {key: cell(row[key]) for key in self.keys}
            found.append(Change(keys, p, q, cell(truth) if self.truth else None, what, why))
        return found


@dataclass(frozen=True)
class Moved:
    """A column of probabilities in both runs, row by row.

    Attributes
    ----------
    table, column, truth
        Where it is; the column of the rows' labels, "" for none.
    shared, only_first, only_second
        Rows of both runs, and of one alone.
    free
        Rows of both whose probability is no known keyphrase's, of which ``mean_change`` is.
    mean_change, mean_size, largest, correlation
        Mean difference, mean absolute and largest absolute one; correlation, None where one run
        has no spread.
    rose, fell
        How many of the ``free`` have a larger probability in the second run, and a smaller one.
    moved, crossed
        Rows of both that moved by more than 0.1, and that are on another side of 0.5.
    lost, gained
        Rows that the second run selects no longer, and newly; None in a table without selection.
    gained_alone, lost_alone
        Those of them that only the second run has, and only the first.
    gained_right, gained_before, lost_right
        How many of them are expected to be right: of the new ones by the second run and by the
        first, of those that are gone by the first.
    gained_likely
        How many of the new ones the second run has above 0.5.
    selected, likely
        Rows that each run selects and whose keyphrase is not known to both; and those of them above
        0.5, with how many of these it expects to be right.
    places
        Where these rows are in ``every``, by what happened to them, and those of `STAYED` and
        `NEITHER`; without a selection those that crossed 0.5, and the others that moved by more
        than 0.1. The most probable of `GAINED` and `LOST` are first, of others those that moved
        most.
    every
        All rows.
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
    largest: float
    correlation: float | None
    rose: int
    fell: int
    moved: int
    crossed: int
    lost: int | None
    gained: int | None
    lost_alone: int
    gained_alone: int
    gained_right: float
    gained_before: float
    lost_right: float
    gained_likely: int
    selected: tuple[int, int]
    likely: tuple[tuple[int, float], tuple[int, float]]
    places: Mapping[str, np.ndarray]
    every: Names
    cut: bool

    @property
    def count(self) -> int:
        """How many rows changed."""
        return sum(map(len, self.places.values()))

    def reasons(self, what: str) -> list[str]:
        """Say of each row of a kind what keeps it out of the selection of one run."""
        return self.every.reasons(self.places.get(what, np.empty(0, np.int64)), what)

    def changed(self, most: int | None = None) -> list[Change]:
        """Return the rows that changed, at most so many: of a selection those that are new first.

        In a table without a selection those that moved most are first.
        """
        found = [
            one
            for what, places in self.places.items()
            for one in self.every.changes(places[:most], what)
        ]
        return (sorted(found, key=lambda one: -one.size) if self.lost is None else found)[:most]

    def as_json(self, rows: bool) -> dict[str, Any]:
        """Return the numbers, with the rows that changed on request."""
        found = {n: v for n, v in vars(self).items() if n not in ("places", "every")}
        return found | ({"rows": [one.as_row() for one in self.changed()]} if rows else {})


def compare_predictions(
    first: RunPaths, second: RunPaths, limits: tuple[Limits, Limits] = (Limits(), Limits())
) -> list[Moved]:
    """Compare the probabilities of all tables that both runs have and whose rows have names.

    Tables with a selection are first; ``limits`` are those of both runs.
    """
    names = [name for name in tables_of(first) if name in tables_of(second)]
    found = (_compare(name, first, second, limits) for name in names)
    return sorted((one for one in found if one is not None), key=lambda one: one.lost is None)


def _compare(
    name: str, first: RunPaths, second: RunPaths, limits: tuple[Limits, Limits]
) -> Moved | None:
    one, two = _read(first, name), _read(second, name)
    if one is None or two is None or one.schema.names != two.schema.names:
        return None
    keys, column = _naming((one, two)), one.schema.names[-1]
    if not keys:
        return None
    truth = next((c for c in one.schema.names if _is_truth(one.schema.field(c))), "")
    every = _joined(one, two, keys)
    p, q = (every[c].to_numpy().astype(float) for c in (column, f"{column} 2"))
    here, there = (every[c].is_valid().to_numpy() for c in (_HERE, f"{_HERE} 2"))
    known = np.isfinite(p) & np.isfinite(q)
    shared = np.flatnonzero(known)
    if not len(shared):
        return None
    change = np.where(known, q - p, 0.0)
    given = np.zeros(len(p), bool)
    if truth == _KNOWN:
        both = pc.and_(every[truth], every[f"{truth} 2"])
        given = pc.fill_null(both, False).to_numpy()
    free = known & ~given
    crossed = known & ((p > 0.5) != (q > 0.5))
    moved = np.abs(change) > _MOVED
    rows = Names(every, keys, truth, p, q, limits)
    selects, cut = _SELECTED in one.schema.names, MOST_ROWS in (len(one), len(two))
    was = now = lost = gained = np.zeros(len(p), bool)
    if selects:
        was, now = rows.selections
        lost, gained = was & ~now, now & ~was
        if cut:  # a row that one run seems to lack may be among those that were not read
            lost, gained = lost & there, gained & here
        away = crossed | moved
        kinds = {GAINED: gained, LOST: lost, STAYED: was & now & away, NEITHER: ~was & ~now & away}
    else:
        kinds = {CROSSED: crossed, MOVED: moved & ~crossed}
    spread = min(p[shared].std(), q[shared].std()) > 0.0
    size = np.abs(change)
    sure = {GAINED: np.nan_to_num(q), LOST: np.nan_to_num(p)}  # the most probable first
    return Moved(
        table=name,
        column=column,
        truth=truth,
        shared=len(shared),
        only_first=int(np.sum(here & ~there)),
        only_second=int(np.sum(there & ~here)),
        free=int(free.sum()),
        mean_change=float(change[free].mean()) if free.any() else 0.0,
        mean_size=float(size[free].mean()) if free.any() else 0.0,
        largest=float(size.max()),
        correlation=float(np.corrcoef(p[shared], q[shared])[0, 1]) if spread else None,
        rose=int(np.sum(free & (change > 0.0))),
        fell=int(np.sum(free & (change < 0.0))),
        moved=int(moved.sum()),
        crossed=int(crossed.sum()),
        lost=int(lost.sum()) if selects else None,
        gained=int(gained.sum()) if selects else None,
        lost_alone=int(np.sum(lost & ~there)),
        gained_alone=int(np.sum(gained & ~here)),
        gained_right=float(np.nansum(q[gained])),
        gained_before=float(np.nansum(p[gained])),
        lost_right=float(np.nansum(p[lost])),
        gained_likely=int(np.sum(gained & (q > 0.5))),
        selected=(int(np.sum(was & ~given)), int(np.sum(now & ~given))),
        likely=(_likely(p[was & ~given]), _likely(q[now & ~given])),
        places={
            what: _by_size(held, sure.get(what, size)) for what, held in kinds.items() if held.any()
        },
        every=rows,
        cut=cut,
    )


def _likely(probability: np.ndarray) -> tuple[int, float]:
    """Return how many are above 0.5, and their sum."""
    above = probability[probability > 0.5]
    return len(above), float(above.sum())


def _by_size(held: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Return the places that hold, those with the largest size first."""
    places = np.flatnonzero(held)
    return places[np.argsort(-size[places], kind="stable")]


def _joined(one: pa.Table, two: pa.Table, keys: Sequence[str]) -> pa.Table:
    """Return the rows of both runs and of one alone, the second run's columns with " 2"."""
    one, two = (t.append_column(_HERE, pa.repeat(True, len(t))) for t in (one, two))
    used = [name for name in one.schema.names if name in keys or name == one.schema.names[-2]]
    used += [f.name for f in one.schema if f.name in (_HERE, _SELECTED, _RANK) or _is_truth(f)]
    one, two = (t.select(list(dict.fromkeys(used))) for t in (one, two))
    both = one.join(two, list(keys), join_type="full outer", right_suffix=" 2")
    return both.sort_by([(key, "ascending") for key in keys])


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
        if not _is_truth(one) and one.name not in (_SELECTED, _RANK)
    ]
    for count in range(1, len(names) + 1):
        if all(len(t) == len(t.group_by(names[:count]).aggregate([])) for t in tables):
            return names[:count]
    return []


def _read(paths: RunPaths, name: str) -> pa.Table | None:
    """Read the columns that name a row, whether it is selected, and its probability, if any.

    Of a fitted row the probability is the one without its own label, where the run has that.
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
    ranks = [_PLACE_IN_DOCUMENT] if chosen and _PLACE_IN_DOCUMENT in schema.names else []
    without = [_WITHOUT] if _WITHOUT in schema.names else []
    tables: list[pa.Table] = []
    for url in urls:
        part = storage.read_table(
            url, list(dict.fromkeys([*keys, *ranks, *used, *without, column]))
        )
        if without:
            place = part.schema.get_field_index(column)
            part = part.set_column(place, column, pc.coalesce(part[_WITHOUT], part[column]))
        if chosen:
            place = part.schema.get_field_index(column)
            part = part.add_column(place, _SELECTED, _selected(part, chosen))
        part = part.select([*keys, *ranks, *([_SELECTED] if chosen else []), column])
        names = [*keys, *[_RANK for _ in ranks], *part.schema.names[len(keys) + len(ranks) :]]
        tables.append(part.rename_columns(names))
        if sum(map(len, tables)) >= MOST_ROWS:
            break
    table = pa.concat_tables(tables).slice(0, MOST_ROWS)
    for key in keys:
        if pa.types.is_string(table[key].type):
            table = table.set_column(
                table.schema.get_field_index(key), key, pc.fill_null(table[key], "")
            )
    return table


def why_not_compared(first: RunPaths, second: RunPaths) -> str:
    """Say why no row of two runs was compared."""
    for name in tables_of(first):
        tables = [_read(run, name) for run in (first, second) if name in tables_of(run)]
        found = [table for table in tables if table is not None]
        if len(found) < 2 or not any(map(len, found)):
            continue
        if found[0].schema.names != found[1].schema.names:
            columns = [
                ", ".join(one for one in table.schema.names if one != _SELECTED) for table in found
            ]
            return f"Rows are not compared: {name} has {columns[0]}, then {columns[1]}."
        if keys := _naming(found):
            known = [set(table[keys[0]].to_pylist()) for table in found]
            what = "row" if known[0] & known[1] else keys[0]
            here, there = map(len, found if what == "row" else known)
            return (
                f"Rows are not compared: the runs have no {what} of {name} in common "
                f"({here:,} and {there:,})."
            )
    for name in {*tables_of(first)} & {*tables_of(second)}:
        if any(one.name == "feature_1" for one in columns_of(first, name)):
            return "Rows are not compared: features of two fits are not matched."
    return "Rows are not compared: no table of both runs names its rows and has a probability."
