"""A file's columns, read as those of a declared table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from string import digits

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.faults import Fault, nearest
from flows.storage import CELLS, SEPARATOR
from flows.tables import mixed
from flows.tables.cells import (
    as_it_comes,
    can_read,
    decoded,
    is_list,
    is_number,
    is_text,
    read_cells,
)
from flows.tables.names import listed, row_names
from flows.tables.table import (
    NUMBERS,
    TEXT,
    Column,
    PositiveLabel,
    Table,
    is_pattern,
    matches,
)
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.tables.cells import number_of
from vbmodels.tables.columns import Rule
from vbmodels.tables.seen import Seen


def given(table: Table, rows: pa.Table, seen: SeenNumbers | None = None) -> pa.Table:
    """Return a file's columns by the table's names, its labels as 1 and 0.

    A pattern's columns become one. What is twice in the file is so here, for `faults`. What text
    that is read as numbers holds is added to ``seen``.
    """
    seen = SeenNumbers() if seen is None else seen
    seen.semicolons = separator_of(rows.schema) == ";"
    rows = _chosen(table, _called(table, rows, seen))
    positive = table.positive
    if positive is None or rows.column_names.count(positive.column) != 1:
        return rows
    index = rows.column_names.index(positive.column)
    if not _may_be_numbers(rows.column(index).type):
        return rows
    if positive.given:
        words = pc.utf8_trim_whitespace(decoded(rows.column(index)).cast(pa.string()))
        rows = _others(rows, positive.given).append_column(positive.given, words)
        index = rows.column_names.index(positive.column)
    if positive.least is None:
        flags = _positive_flags(rows.column(index), positive, table.missing, seen)
        return rows.set_column(index, positive.column, flags)
    numbers = _label_numbers(rows.column(index), positive, table, seen)
    none = np.isnan(numbers)
    flags = pa.array((numbers >= positive.least).astype(np.int8), mask=none)
    rows = rows.set_column(index, positive.column, flags)
    if not positive.number:
        return rows
    return _others(rows, positive.number).append_column(
        positive.number, pa.array(numbers, mask=none)
    )


def _others(rows: pa.Table, name: str) -> pa.Table:
    return rows.select([column for column in rows.column_names if column != name])


def _positive_flags(
    column: pa.ChunkedArray, positive: PositiveLabel, missing: Sequence[str], seen: SeenNumbers
) -> pa.Array:
    """Return 1 for cells that are positive, 0 for others, null for missing ones.

    Labels that differ in case or outer blanks are one; they are counted in ``seen``.
    """
    known = mixed.parse(column, missing)[0].is_valid()
    words = pc.utf8_trim_whitespace(decoded(column).cast(pa.string())).combine_chunks()
    seen.count_labels(words.filter(known))
    labels = pa.array([label.strip().lower() for label in positive.labels], pa.string())
    flags = pc.is_in(pc.utf8_lower(words), labels).cast(pa.int8())
    return pc.if_else(known, flags, pa.scalar(None, pa.int8()))


def _label_numbers(
    column: pa.ChunkedArray, positive: PositiveLabel, table: Table, seen: SeenNumbers
) -> FloatArray:
    """Return labels that are numbers, NaN for missing ones.

    Raises
    ------
    UnreadableCells
        If some cells are no numbers.
    """
    if positive.order:
        return _places(column, positive, table.missing, seen)
    expected = "a number in every label, as threshold is set"
    return _read_numbers(positive.column, column, table, seen, expected)


def _places(
    column: pa.ChunkedArray, positive: PositiveLabel, missing: Sequence[str], seen: SeenNumbers
) -> FloatArray:
    """Return the places of labels in their order, from 1; NaN for missing ones.

    Raises
    ------
    UnreadableCells
        If some labels are not in it.
    """
    cells = mixed.texts(mixed.parse(column, missing)[0])
    seen.count_labels(cells.drop_null())
    order = [level.strip().lower() for level in positive.order]
    indices = pc.index_in(pc.utf8_lower(cells), pa.array(order, pa.string()))
    odd = np.flatnonzero(np.asarray(indices.is_null()) & np.asarray(cells.is_valid()))
    if odd.size:
        row, levels = int(odd[0]), ", ".join(positive.order)
        expected = f"one of the levels {levels} in every label"
        cell = str(cells[row].as_py())
        raise UnreadableCells(
            positive.column, row, cell, odd.size, expected=expected, is_label=True
        )
    return np.asarray(indices.cast(pa.float64()).fill_null(np.nan).to_numpy() + 1.0)


def _chosen(table: Table, rows: pa.Table) -> pa.Table:
    """Leave out the columns that are not to be read."""
    if not table.included or table.others is None:
        return rows
    declared = {column.name for column in table.columns}
    chosen = [
        i
        for i, name in enumerate(rows.column_names)
        if name in declared or any(matches(name, pattern) for pattern in table.included)
    ]
    return rows.select(chosen)


def _called(table: Table, rows: pa.Table, seen: SeenNumbers) -> pa.Table:
    if table.excluded:
        columns_kept = [
            i
            for i, name in enumerate(rows.column_names)
            if not any(matches(name, pattern) for pattern in table.excluded)
        ]
        rows = rows.select(columns_kept)
    if not table.called:
        return rows
    taken: list[tuple[str, pa.ChunkedArray]] = []
    twice = {name for name, times in Counter(rows.column_names).items() if times > 1}
    replaced: set[str] = set()
    for ours, theirs in table.called.items():
        replaced.add(ours)
        several = is_pattern(theirs) and theirs not in rows.column_names
        if several or theirs in table.levels or _one_number(table, ours, theirs, rows):
            wide = [name for name in rows.column_names if matches(name, theirs)]
            replaced |= set(wide)
            if again := twice & set(wide):
                first = rows.column(rows.column_names.index(min(again)))
                taken += [(ours, first), (ours, first)]
                continue
            if any(c.name == ours and c.type == TEXT for c in table.columns):
                if all(any(matches(name, part) for name in wide) for part in theirs.split(",")):
                    taken.append((ours, _one_text(rows, wide, theirs)))
                continue
            odd = [
                name
                for name in wide
                if name not in table.levels
                and not (
                    _may_be_numbers(rows[name].type) or length_of_lists(rows[name], table.separator)
                )
            ]
            if wide:
                columns = {name: rows[name] for name in wide}
                lists = None if odd else _one_list(columns, table, seen)
                taken.append((ours, rows[odd[0]] if lists is None else lists))
        elif theirs in rows.column_names:
            replaced.add(theirs)
            taken += [(ours, rows.column(i)) for i in rows.schema.get_all_field_indices(theirs)]
    columns_kept = [i for i, name in enumerate(rows.column_names) if name not in replaced]
    fields = [rows.schema.field(i) for i in columns_kept]
    fields += [pa.field(name, column.type) for name, column in taken]
    cells = [rows.column(i) for i in columns_kept] + [column for _, column in taken]
    schema = pa.schema(fields, rows.schema.metadata)
    return pa.Table.from_arrays(cells, schema=schema)


def _one_text(rows: pa.Table, wide: Sequence[str], theirs: str) -> pa.ChunkedArray:
    """Return columns of text as one, a paragraph each, in the order in which they are named."""
    order = [name.strip() for name in theirs.split(",")]
    named = sorted(wide, key=lambda name: order.index(name) if name in order else len(order))
    cells = [rows[name].cast(pa.string()) for name in named]
    joined = pc.binary_join_element_wise(*cells, "\n\n", null_handling="skip")
    return pc.if_else(pc.equal(joined, ""), None, joined)


def _one_number(table: Table, ours: str, theirs: str, rows: pa.Table) -> bool:
    """Say whether a column of lists of numbers has one number in each cell, also as text."""
    lists = any(column.name == ours and column.type == NUMBERS for column in table.columns)
    if not lists or rows.column_names.count(theirs) != 1:
        return lists and theirs in rows.column_names  # twice: `given` leaves it to `faults`
    if not is_text(rows[theirs].type):
        return is_number(rows[theirs].type)
    signs = (pc.match_substring(rows[theirs], sign) for sign in (table.separator, "["))
    return not any(pc.any(cells).as_py() for cells in signs)


def add_row_names(table: Table, rows: pa.Table, file: str, first: int) -> pa.Table:
    """Name rows after their file and number, where names may be absent and are.

    Parameters
    ----------
    rows
        A file's columns by the table's names.
    file
        The file.
    first
        Rows of the file before these.
    """
    column = table.id
    if column is None or column.required or column.name in rows.column_names:
        return rows
    return rows.append_column(column.name, row_names(len(rows), file, first))


def parse_text_columns(table: Table, rows: pa.Table) -> tuple[pa.Table, dict[str, BoolArray]]:
    """Read columns of text, where a file has nothing else, as the values they denote.

    Returns
    -------
    rows, wrong
        The columns in their types, and by name which cells could not be read and are null.
    """
    if (rows.schema.metadata or {}).get(CELLS) != b"text":
        return rows, {}
    wrong = {}
    declared, times = table.declared(rows.column_names), Counter(rows.column_names)
    for index, name in enumerate(rows.column_names):
        column = declared.get(name)
        if column is None or as_it_comes(column) or column.arrow == pa.string():
            continue
        if times[name] > 1 or not is_text(rows[name].type):
            continue
        # Where semicolons set columns apart, commas are decimal ones, unless a number has a point.
        with_commas = (
            pa.types.is_floating(column.arrow)
            and separator_of(rows.schema) == ";"
            and not pc.any(pc.match_substring(rows[name], ".")).as_py()
        )
        text = pc.replace_substring(rows[name], ",", ".") if with_commas else rows[name]
        cells, odd = read_cells(text, column.arrow, bool(column.values), table.separator)
        rows = rows.set_column(index, name, cells)
        if odd.any():
            wrong[name] = odd
    return rows, wrong


def separator_of(schema: pa.Schema) -> str:
    """Return what sets the columns of a file of text apart; of others nothing."""
    return (schema.metadata or {}).get(SEPARATOR, b"").decode()


def add_absent_columns(table: Table, rows: pa.Table) -> pa.Table:
    """Return columns in the types that are declared, in that order, with null absent ones."""
    there = set(rows.column_names)
    columns = {c.name: c for c in table.columns} | table.declared(rows.column_names)
    return pa.table(
        {
            name: rows[name] if name in there else pa.nulls(len(rows), c.arrow)
            for name, c in columns.items()
        }
    )


def repeated_name(file: str, name: str) -> Fault:
    """Return the fault of a name that several columns of a file have."""
    return Fault(file, "a name used once", "it twice", name, remedy="rename one")


def faults(table: Table, schema: pa.Schema, file: str, theirs: Sequence[str] = ()) -> list[Fault]:
    """List what keeps a file with this schema from being read as this table.

    ``theirs`` are its columns as the file has them, where ``schema`` is of those that were read.
    """
    names = schema.names
    columns = listed(theirs or names, 8) or "none"
    declared, times = table.declared(names), Counter(names)
    wrong = [
        Fault(
            file,
            "",
            f"not in the file ({c.type})",
            c.name,
            remedy=f"{_for_absent(c, schema, table)} (the columns are {columns})",
            is_absent=True,
        )
        for c in table.columns
        if c.required and c.name not in names
    ]
    for name, column in declared.items():
        if not name.strip():
            numbers = ", ".join(str(i) for i, other in enumerate(names, 1) if other == name)
            wrong.append(
                Fault(
                    file,
                    "a name for every column",
                    f"none for column {numbers}",
                    remedy="name it, or leave it out",
                )
            )
        elif times[name] > 1:
            wrong.append(repeated_name(file, name))
        elif not can_read(column, kind := schema.field(name).type):
            expected, remedy = column.expected or f"type {column.arrow}", column.remedy
            if column.arrow == pa.string() and pa.types.is_floating(kind):
                expected = "text or whole numbers"
                remedy = remedy or "write them as such; in pandas: astype('Int64')"
            wrong.append(Fault(file, expected, f"type {kind}", name, remedy=remedy))
    if table.either and not set(table.either.columns) & set(names):
        expected = " or ".join(f"a column {name}" for name in table.either.columns)
        only = f"only {', '.join(names) or 'nothing'}"
        lower = {name.lower(): name for name in reversed(names)}
        called = next((lower[word] for word in table.either.called if word in lower), None)
        if called is not None and "title" in lower and called != lower["title"]:
            called = f"{lower['title']},{called}"
        remedy = table.either.remedy
        if called is not None:
            remedy = f"name it by --column {table.either.columns[0]}={called}, or {remedy}"
        wrong.append(Fault(file, expected, only, remedy=remedy))
    if table.others and table.others.required and not table.others_in(names):
        required = " and ".join(c.name for c in table.columns)
        wrong.append(
            Fault(file, f"at least one {table.others.name}", f"none apart from {required}")
        )
    return wrong


def _for_absent(column: Column, schema: pa.Schema, table: Table) -> str:
    """Say what may be meant for a column that a file does not have."""
    others = table.others_in(schema.names)
    if column.type != NUMBERS:
        near = nearest(column.name, others)
        # Names of ids are of the same things: bag_id and BagID, not case_id.
        if near and (not column.names or nearest(_without_id(column.name), [_without_id(near)])):
            return f"did you mean {near}? then add --column {column.name}={near}"
        by_file = f", or {column.name}=FILE (one a file)" if column.names else ""
        return f"name the one that holds it: --column {column.name}=YOURS{by_file}"
    lists = [f.name for f in schema if f.name in others and can_read(column, f.type)]
    if lists:
        return f"if it is called {lists[0]} there, add --column {column.name}={lists[0]}"
    numbered = Counter(name.rstrip(digits) for name in others if name[-1:].isdigit())
    stem, times = max(numbered.items(), key=itemgetter(1), default=("", 0))
    such = f"{stem}*" if stem and times > 1 else "PATTERN"
    return f"if each number has a column of its own, add --column '{column.name}={such}'"


def _without_id(name: str) -> str:
    lower = name.lower()
    return lower.removesuffix("id").rstrip("_. -") or lower


_IN_FEATURES = "a number in every cell of a feature"


class UnreadableCells(ValueError):
    """Cells of a column of numbers are none.

    Attributes
    ----------
    column, row, cell, count
        The column, the first of these cells with its row from 0, and how many there are.
    other
        The decimal sign by which this cell is a number, where it is not that of its column.
    expected, is_label
        What is expected of each cell, and whether these are labels.
    """

    def __init__(
        self,
        column: str,
        row: int,
        cell: str,
        count: int,
        other: str = "",
        expected: str = _IN_FEATURES,
        is_label: bool = False,
    ) -> None:
        super().__init__(f"{column}: {cell!r} in row {row + 1} is no number")
        self.column, self.row, self.cell, self.count = column, row, cell, count
        self.other, self.expected, self.is_label = other, expected, is_label


@dataclass
class SeenNumbers:
    """What columns of text that are read as numbers hold, by their names.

    Attributes
    ----------
    where
        Where rows are.
    semicolons
        Whether the file sets its columns apart by semicolons.
    columns
        What was seen so far.
    labels
        Rows of each label, where labels are words.
    """

    where: Callable[[int], str] | None = None
    semicolons: bool = False
    columns: dict[str, Seen] = field(default_factory=dict)
    labels: Counter[str] = field(default_factory=Counter)

    def count_labels(self, words: pa.Array) -> None:
        """Add the rows of each label, as the file writes it."""
        for counted in words.value_counts():
            self.labels[counted["values"].as_py()] += counted["counts"].as_py()


def _one_list(
    columns: Mapping[str, pa.ChunkedArray], table: Table, seen: SeenNumbers
) -> pa.ChunkedArray:
    """Join columns of numbers to one of lists; a row without any number has no list.

    A column with levels gives a number for each, one of lists all of its own.

    Raises `UnreadableCells` if some cells of text are no numbers, or lists differ in length.
    """
    parts = []
    for name, column in columns.items():
        if name in table.levels:
            parts.append(_one_hot(column, table.missing, table.levels[name]))
        elif length_of_lists(column, table.separator):
            parts.append(read_lists(name, column, table.separator))
        else:
            parts.append(_read_numbers(name, column, table, seen)[:, None])
    numbers = np.hstack(parts)
    missed = np.isnan(numbers)
    cells = pa.array(numbers.ravel(), pa.float64(), mask=missed.ravel())
    ends = pa.array(np.arange(len(numbers) + 1) * numbers.shape[1], pa.int64())
    lists = pa.LargeListArray.from_arrays(ends, cells)
    none = pa.array(missed.all(axis=1))
    return pa.chunked_array([pc.if_else(none, pa.scalar(None, lists.type), lists)])


def length_of_lists(column: pa.ChunkedArray, separator: str) -> int:
    """Return how many numbers a column has in each list, also of text; 0 where it has no lists."""
    cells = column.drop_null().slice(0, 50)
    if is_text(column.type):
        cells, odd = read_cells(cells, NUMBERS.arrow, False, separator)
        if odd.any():
            return 0
    elif not (is_list(column.type) and is_number(column.type.value_type)):
        return 0
    lengths = pc.list_value_length(cells).to_pylist()
    least = 2 if is_text(column.type) else 0
    return lengths[0] if lengths and min(lengths) >= least else 0


def read_lists(name: str, column: pa.ChunkedArray, separator: str) -> FloatArray:
    """Return lists of equal length as rows [n, D], NaN where there is none."""
    if is_text(column.type):
        column = read_cells(column, NUMBERS.arrow, False, separator)[0]
    lists = column.cast(pa.large_list(pa.float64())).combine_chunks()
    rows = np.flatnonzero(np.asarray(lists.is_valid()))
    lengths = pc.list_value_length(lists.drop_null()).to_numpy()
    odd = rows[lengths != lengths[:1]]
    if odd.size:
        found = f"a list of {len(lists[int(odd[0])])} where others have {lengths[0]} numbers"
        raise UnreadableCells(name, int(odd[0]), found, odd.size)
    numbers: FloatArray = np.full((len(lists), int(lengths[:1].sum())), np.nan)
    values = lists.drop_null().flatten().to_numpy(zero_copy_only=False)
    numbers[rows] = values.reshape(numbers[rows].shape)
    return numbers


def _one_hot(column: pa.ChunkedArray, missing: Sequence[str], levels: Sequence[str]) -> FloatArray:
    """Return 1 where cells have a level and 0 where another, [n, L]; NaN where they are missing."""
    cells = mixed.texts(mixed.parse(column, missing)[0])
    indices = pc.index_in(cells, pa.array(levels, pa.string()))
    codes = indices.fill_null(-1).to_numpy(zero_copy_only=False)
    one_hot: FloatArray = (codes[:, None] == np.arange(len(levels))).astype(float)
    one_hot[np.asarray(cells.is_null())] = np.nan
    return one_hot


def _read_numbers(
    name: str, column: pa.ChunkedArray, table: Table, all_seen: SeenNumbers, of_label: str = ""
) -> FloatArray:
    """Return cells as numbers; ``of_label`` says what is expected of each, where it is a label."""
    if not is_text(column.type) and not table.missing:
        return np.asarray(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)
    cells, seen = mixed.parse(column, table.missing, all_seen.semicolons, all_seen.where)
    decimal = "," if table.called.get(name, name) in table.commas else "."
    rule = Rule(mixed.NUMBER, decimal=decimal)
    values, wrong = mixed.numbers(cells, rule)
    if not is_text(column.type):
        return np.where(wrong, np.inf, values)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        cell, other = str(cells[row].as_py()), "." if rule.decimal == "," else ","
        other = other if number_of(cell, other) is not None else ""
        expected = of_label or _IN_FEATURES
        raise UnreadableCells(name, row, cell, int(wrong.sum()), other, expected, bool(of_label))
    all_seen.columns[name] = all_seen.columns.get(name, Seen()) + seen
    return values


def _may_be_numbers(kind: pa.DataType) -> bool:
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, is_text)
    return any(test(kind) for test in tests)
