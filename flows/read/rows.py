"""The published tables of a run, as rows that people look at."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from flows import storage
from flows.catalogue import known
from flows.faults import InputError, did_you_mean, unclosed
from flows.records.runs import InputRecord, PublishError, RunPaths, RunRecord
from flows.report.answers import of_results
from flows.report.commands import Commands
from flows.report.figures import named
from flows.report.render import Shown


def tables_of(paths: RunPaths) -> list[str]:
    """Return the names of a run's tables."""
    return [
        name
        for name in storage.names(paths.root)
        if name not in ("posterior", "work", "kept") and "." not in name and parts_of(paths, name)
    ]


def described_tables(paths: RunPaths) -> list[tuple[str, str, str]]:
    """Return the name of each table, how many rows it has, and its meaning as its files have it."""
    tables = []
    for name in tables_of(paths):
        urls = [storage.join(paths.table(name), part) for part in parts_of(paths, name)]
        files = [storage.parquet_file(url) for url in urls[:_LOOKED_AT]]
        rows = sum(file.metadata.num_rows for file in files)
        count = f"{rows:,} row{'' if rows == 1 else 's'}"
        if len(urls) > _LOOKED_AT:
            count += f" in the first {_LOOKED_AT} of {len(urls):,} files"
        meaning = (files[0].schema_arrow.metadata or {}).get(b"meaning", b"").decode()
        tables.append((name, count, meaning))
    return tables


_LOOKED_AT = 64  # files of a table


OBSERVED = "observed"  # whether a phrase is known
SELECTED: tuple[Mapping[str, bool | str], ...] = (
    {"selected": True},  # of keywords
    {"called": True, "filter": "PASS"},  # of variants
)
"""What selected rows have, by column."""
_CONDITION = re.compile(r"([^=<>]+)([=<>])(.*)", re.DOTALL)
_FLAGS = {"yes": True, "true": True, "no": False, "false": False}


def probabilities_in(columns: Sequence[str]) -> list[str]:
    """Return the columns of probabilities; rows are ranked by the first.

    >>> probabilities_in(["id", "probability_yes"]), probabilities_in(["id", "score"])
    (['probability_yes'], [])
    """
    return [c for c in columns if c in ("probability", "prob") or c.startswith("probability_")]


def order_of(columns: Sequence[str]) -> str:
    """Return the column whose largest values come first; empty where rows are in their order.

    >>> order_of(["id", "probability_yes"]), order_of(["id", "feature_1", "feature_2"])
    ('probability_yes', 'feature_1')
    >>> order_of(["category", "probability", "ratio"])
    'ratio'
    """
    first = ["ratio"] if "ratio" in columns else probabilities_in(columns)
    return next((c for c in (*first, "feature_1") if c in columns), "")


def selection_in(columns: Sequence[str]) -> Mapping[str, bool | str]:
    """Return what selected rows of a table have, by column; nothing where it has no selection.

    >>> selection_in(["id", "called", "filter"]), selection_in(["id"])
    ({'called': True, 'filter': 'PASS'}, {})
    """
    return next((selected for selected in SELECTED if {*selected} <= {*columns}), {})


def rows_of(
    paths: RunPaths,
    name: str,
    by: str,
    most: int,
    columns: str = "",
    where: Sequence[str] = (),
    having: Mapping[str, bool | str] = MappingProxyType({}),
    counted: bool = True,
) -> tuple[pa.Table, int | None]:
    """Return at most so many rows of a table, and how many there are where they are ``counted``.

    Of each part only the columns of the order and the conditions are read, of a part without
    these its number of rows; other columns come from the parts that have a row to return. Without
    counting and an order, no part is read once there are enough rows.

    Parameters
    ----------
    paths, name
        The run, and its table.
    by
        The rows are those with the largest of this column (``-by``: the smallest); where it is
        empty, of a probability (what the input listed comes last), of the first feature, or the
        first of a table without either.
    most, columns
        Most rows; names with commas between them, all columns by default.
    where
        Conditions ``column=value``, ``column<value`` or ``column>value`` that all hold.
    having
        Values of columns that the rows have, as well.

    Raises
    ------
    InputError
        If there is no such table or column, or a condition is none.
    """
    require_table(paths, name)
    urls = [storage.join(paths.table(name), part) for part in parts_of(paths, name)]
    schema = storage.parquet_file(urls[0]).schema_arrow
    known_last = [(c, "ascending") for c in schema.names if c == OBSERVED and not by]
    by = by or order_of(schema.names)
    column = by.removeprefix("-")
    single = [f.name for f in schema if not pa.types.is_nested(f.type)]
    if by:
        require_column(column, single, name, schema.names)
    wanted = schema.names if not columns else [*dict.fromkeys(map(str.strip, columns.split(",")))]
    for wanted_column in wanted:
        require_column(wanted_column, schema.names, name)
    holds = [(c, pc.field(c) == value) for c, value in having.items()]
    holds += [_condition(text, schema, single, name) for text in where]
    order = "ascending" if by.startswith("-") else "descending"
    ranks = [*known_last, (column, order)] if by else []
    keys = list(dict.fromkeys(key for key, _ in (*ranks, *holds)))
    kept, count = pa.table([pa.array([], pa.int64())] * 2, [_PART, _ROW]), 0
    for number, url in enumerate(urls):
        if len(kept) >= most and not (counted or by):
            break
        rows = _rows_in(url, number, keys)
        for _, holding in holds:
            rows = rows.filter(holding)
        count += len(rows)
        kept = pa.concat_tables([kept, rows]) if number else rows
        kept = kept.take(pc.sort_indices(kept, ranks)[:most]) if by else kept.slice(0, most)
    return _read_rows(urls, kept, schema, wanted), count if counted else None


def no_rows(paths: RunPaths, name: str, where: Sequence[str]) -> str:
    """Say why no row of a table holds all conditions: which of them none holds, and what is near.

    ``where``: those that the user gave.
    """
    for text in where:
        column, relation, value = text.partition("=")
        if (
            not relation
            or "<" in column
            or ">" in column
            or rows_of(paths, name, "", 1, column, [text])[1]
        ):
            continue
        column = column.strip()
        cells = rows_of(paths, name, "", _LOOKED, column, counted=False)[0][column].to_pylist()
        others = list(dict.fromkeys(map(cell, cells)))
        if not others:
            break
        if len(others) == 1:
            where = "every row" if len(cells) < _LOOKED else f"the first {_LOOKED:,} rows"
            return f"no rows: {column} is {others[0] or 'empty'} in {where}"
        known = did_you_mean(value, others) or f"there are {named(others)}"
        return f"no rows: no {column} is {value}; {unclosed(value) or known}"
    return f"no rows{' with ' if where else ''}{' and '.join(where)}"


_LOOKED = 10_000  # rows whose values are named
_PART, _ROW = " part", " row"  # of a row: the number of its part, and its own there


def _rows_in(url: str, part: int, keys: Sequence[str]) -> pa.Table:
    """Return where the rows of a part are, and their values of some columns."""
    rows = storage.read_table(url, keys)
    rows = rows.append_column(_PART, pa.repeat(part, len(rows)))
    return rows.append_column(_ROW, pa.array(np.arange(len(rows))))


def _read_rows(
    urls: Sequence[str], kept: pa.Table, schema: pa.Schema, columns: Sequence[str]
) -> pa.Table:
    """Read some columns of the rows that are kept, in their order."""
    parts, rows = (kept[name].to_numpy() for name in (_PART, _ROW))
    tables = [schema.empty_table().select(columns)]
    for part in np.unique(parts):
        read = storage.read_table(urls[part], list(columns)).select(columns)
        tables.append(read.take(pa.array(rows[parts == part])))
    back = np.argsort(np.argsort(parts, kind="stable"))
    return pa.concat_tables(tables).take(pa.array(back))


def first_table(paths: RunPaths) -> tuple[str, str]:
    """Return the table that has the answer, and the options that show it.

    That is one with rows, of these one with a selection (of several the one with most rows), else
    one with a probability or a prediction, else the first; empty texts where there is none.
    """
    candidates = []
    for name in tables_of(paths):
        files = [storage.join(paths.table(name), part) for part in parts_of(paths, name)]
        columns = storage.parquet_file(files[0]).schema_arrow.names
        rows = next(filter(None, (storage.parquet_file(f).metadata.num_rows for f in files)), 0)
        chosen = selection_in(columns)
        ranked = probabilities_in(columns) or "predicted" in columns
        options = ["--new"] if "observed" in columns else []
        if chosen:
            options.append("--selected")
        order = (not rows, not chosen, not ranked, -rows if chosen else 0)
        candidates.append((*order, name, " ".join(options)))
    return min(candidates)[-2:] if candidates else ("", "")


def rows_command(paths: RunPaths, run: str) -> str:
    """Return the command that prints rows of the answer of ``run``; empty where it has no table."""
    name, options = first_table(paths)
    return f"vbflows show {shlex.quote(run)} {name} {options}".strip() if name else ""


@dataclass(frozen=True)
class ColumnOfTable:
    """A column of a run's table: its name, what its cells are and mean, its label in reports."""

    name: str
    type: str
    meaning: str
    label: str = ""


def columns_of(paths: RunPaths, name: str) -> list[ColumnOfTable]:
    """Return the columns of a table with their meanings, as the table's files have them.

    Raises
    ------
    InputError
        If there is no such table.
    """
    require_table(paths, name)
    url = storage.join(paths.table(name), parts_of(paths, name)[0])
    return described(storage.parquet_file(url).schema_arrow)


def described(schema: pa.Schema) -> list[ColumnOfTable]:
    """Return the columns of a schema with the meanings that are stored with them."""
    columns = []
    for field in schema:
        stored = {key.decode(): text.decode() for key, text in (field.metadata or {}).items()}
        unit = f" ({stored['unit']})" if stored.get("unit") else ""
        label, meaning = stored.get("label", ""), stored.get("meaning", "") + unit
        columns.append(ColumnOfTable(field.name, _type_in_words(field.type), meaning, label))
    return columns


def _type_in_words(kind: pa.DataType) -> str:
    """Say what cells are.

    >>> _type_in_words(pa.int32()), _type_in_words(pa.list_(pa.string()))
    ('whole number', 'list of texts')
    """
    if pa.types.is_list(kind):
        return f"list of {_type_in_words(kind.value_type)}s"
    words = {
        pa.types.is_boolean: "yes or no",
        pa.types.is_integer: "whole number",
        pa.types.is_floating: "number",
        pa.types.is_string: "text",
    }
    return next((word for holds, word in words.items() if holds(kind)), str(kind))


def require_table(paths: RunPaths, name: str) -> None:
    """Refuse a name that is none of a run's tables."""
    known = tables_of(paths)
    if name not in known:
        raise InputError.of(
            f"run {paths.run_id}",
            f"one of its tables {', '.join(known) or '(it has none)'}",
            name,
            remedy=did_you_mean(name, known),
        )


def require_column(
    column: str, known: Sequence[str], table: str, every: Sequence[str] = ()
) -> None:
    """Refuse a name that is none of the ``known`` columns of a table; ``every``: with lists."""
    if column not in known:
        found = f"column {column} holds lists" if column in every else f"no column {column}"
        remedy = did_you_mean(column, known) or f"its columns are {', '.join(known)}"
        raise InputError.of(f"table {table}", "", found, remedy=remedy)


def _condition(
    text: str, schema: pa.Schema, single: Sequence[str], table: str
) -> tuple[str, pc.Expression]:
    """Return the column of a condition such as ``probability>0.5``, and it as Arrow has it.

    ``name=`` is a null.
    """
    parts = _CONDITION.fullmatch(text)
    if parts is None or parts[3].startswith("="):
        expected = "COLUMN=VALUE, COLUMN<VALUE or COLUMN>VALUE"
        remedy = None
        if parts and parts[2] in "<>":
            remedy = f"write {parts[1].strip()}{parts[2]}{parts[3].removeprefix('=').strip()}"
        raise InputError.of("--where", expected, repr(text), remedy=remedy)
    column, relation, operand = (part.strip() for part in parts.groups())
    require_column(column, single, table, schema.names)
    field, kind = pc.field(column), schema.field(column).type
    if relation == "=" and not operand:
        return column, field.is_null()
    value: bool | float | str | None = operand
    if pa.types.is_boolean(kind):
        value = _FLAGS.get(operand.lower())
    elif pa.types.is_int8(kind) and operand.lower() in _FLAGS:  # a label, kept as 1 or 0
        value = float(_FLAGS[operand.lower()])
    elif not pa.types.is_string(kind):
        try:
            value = float(operand)
        except ValueError:
            value = None
    if value is None:
        expected = "yes or no" if pa.types.is_boolean(kind) else "a number"
        raise InputError.of("--where", expected, repr(operand), column)
    return column, {"=": field == value, "<": field < value, ">": field > value}[relation]


def values_of(paths: RunPaths, name: str, new: bool, selected: bool) -> dict[str, bool | str]:
    """Return what rows have that were not known before, or are selected, by column of a table.

    Raises `InputError` for a table that does not say it.
    """
    if not (new or selected):
        return {}
    columns, having = [c.name for c in columns_of(paths, name)], dict[str, bool | str]()
    for wanted, option, names, values in (
        (new, "--new", (OBSERVED,), {c: False for c in columns if c == OBSERVED}),
        (selected, "--selected", ("selected", "called"), selection_in(columns)),
    ):
        if wanted and not values:
            raise InputError.of(
                f"table {name}",
                f"a column {' or '.join(names)} for {option}",
                f"only {', '.join(columns)}",
                remedy="use --where COLUMN=VALUE",
            )
        having |= values if wanted else {}
    return having


def parts_of(paths: RunPaths, name: str) -> list[str]:
    """Return the names of the files of a table."""
    return [part for part in storage.names(paths.table(name)) if part.endswith(".parquet")]


def cell(value: Any) -> str:
    """Return a cell in few characters.

    >>> cell(0.123456), cell(None), cell(["a", "b"]), cell(True), cell({"label": "ill"})
    ('0.1235', '', 'a, b', 'yes', 'label=ill')
    >>> cell(1 - 1e-12), cell(1.0)
    ('>0.9999', '1')
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return ">0.9999" if 0.99995 <= value < 1.0 else f"{value:.4g}"
    if isinstance(value, list):
        return ", ".join(cell(item) for item in value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={cell(item)}" for name, item in value.items())
    return str(value)


_FILES = 4  # from which on commands name the source


def commands_of(
    pipeline: str,
    inputs: Sequence[InputRecord],
    source: storage.Sources,
    paths: RunPaths,
    changed: Mapping[str, Any],
) -> Commands:
    """Return the commands that name a run."""
    files = [file.url for file in inputs]
    if len(files) >= _FILES:
        files = [storage.source_in_words(source)]
    return Commands(pipeline, files, paths.target, paths.root, changed)


def shown_of(paths: RunPaths, record: RunRecord) -> Shown:
    """Return the answer of a finished run and what is said around it.

    Raises
    ------
    PublishError
        If its answer is of another version.
    """
    try:
        answer = of_results(known(record.pipeline), record.results)
    except ValidationError as error:
        raise PublishError(
            paths.root, "an answer of this version", "one of another", "fit again"
        ) from error
    return Shown(
        record.pipeline,
        answer,
        record,
        commands_of(record.pipeline, record.inputs, record.source, paths, record.changed),
        paths.file("report.html"),
        rows_command(paths, paths.target),
    )
