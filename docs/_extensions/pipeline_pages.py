"""Directives that write tables of a pipeline from its code.

``{settings} bags`` lists every setting, with the option ``:own:`` without what every pipeline has;
``{table} package.schema:ROWS`` the columns of a table, ``{table} ROWS`` those of one in ``schema``
of the family that the page is named after, with the option ``:in:`` without the folder's name that
one of a run has, with ``:beyond: LOCI`` without the columns that are the same in that table.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.application import Sphinx

from flows.catalogue import known
from flows.settings import RunSettings, describe
from flows.tables.table import Table


def _cell(content: nodes.Node) -> nodes.entry:
    paragraph = nodes.paragraph("", "", content)
    return nodes.entry("", paragraph)


def _row(cells: Sequence[nodes.Node]) -> nodes.row:
    return nodes.row("", *[_cell(cell) for cell in cells])


def _table(headings: Sequence[str], rows: Sequence[Sequence[nodes.Node]]) -> nodes.table:
    group = nodes.tgroup("", cols=len(headings))
    group += [nodes.colspec(colwidth=1) for _ in headings]
    group += nodes.thead("", _row([nodes.Text(heading) for heading in headings]))
    group += nodes.tbody("", *[_row(row) for row in rows])
    return nodes.table("", group, classes=["contract"])


def _code(text: str) -> nodes.literal:
    return nodes.literal(text, text)


def _default(default: str) -> nodes.Node:
    """Return a default as a user writes it."""
    written = {"True": "true", "False": "false", "None": ""}.get(default, default.strip("'(){}"))
    return _code(written) if written else nodes.Text("empty")


def _text(meaning: str) -> nodes.inline:
    """Return a text with what it has between backticks as code."""
    parts = meaning.split("`")
    return nodes.inline(
        "", "", *[_code(part) if i % 2 else nodes.Text(part) for i, part in enumerate(parts)]
    )


class Settings(Directive):
    """Every setting of a pipeline: name, default, range, meaning."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"own": directives.flag}

    def run(self) -> list[nodes.Node]:
        """Return the table."""
        name = self.arguments[0]
        return [_settings(RunSettings if name == "common" else known(name), "own" in self.options)]


class Columns(Directive):
    """The columns of a table: name, type, what its cells must be, meaning."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "in": directives.flag,
        "beyond": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Return what the table is for, and the table."""
        page = self.state.document.settings.env.docname.rpartition("/")[2]
        module, _, name = self.arguments[0].rpartition(":")
        schema = import_module(module or f"flows.{page}.schema")
        beyond = self.options.get("beyond")
        return columns_of(
            getattr(schema, name),
            folder="in" not in self.options,
            beyond=getattr(schema, beyond) if beyond else None,
        )


def _settings(chosen: type[RunSettings], own: bool) -> nodes.table:
    common = set(RunSettings.model_fields) if own else set()
    same = {
        field
        for field in common
        if chosen.model_fields[field].default == RunSettings.model_fields[field].default
    }
    rows = [
        [
            _code(setting),
            _default(default),
            nodes.Text(bounds),
            nodes.Text(meaning),
        ]
        for setting, bounds, default, meaning in describe(chosen)
        if setting not in same
    ]
    return _table(["setting", "default", "range", "meaning"], rows)


def columns_of(table: Table, *, folder: bool, beyond: Table | None = None) -> list[nodes.Node]:
    """Return what a table is for, by its folder in a run if it has one, and its columns."""
    rows, same = [], beyond.columns if beyond else ()
    for column in (*table.columns, *table.named, *([table.others] if table.others else [])):
        if column in same:
            continue
        unit = f" [{column.unit}]" if column.unit else ""
        label = f'; "{column.label}" in reports' if column.label else ""
        rules = ("only if named", *column.rules) if column in table.named else column.rules
        rows.append(
            [
                nodes.Text(column.name) if column is table.others else _code(column.name),
                nodes.Text("label" if column.values and not folder else str(column.type)),
                nodes.Text(", ".join(rules)),
                _text(column.meaning + unit + label),
            ]
        )
    meaning = nodes.paragraph("", "", _text(table.meaning))
    if folder:
        written = _code(f"{table.name}/")
        meaning = nodes.paragraph(
            "", "", nodes.strong("", "", written), nodes.Text(f" {table.meaning}")
        )
    if beyond:
        meaning += [nodes.Text(" The columns of "), _code(f"{beyond.name}/"), nodes.Text(", but:")]
    headings = ["column", "type", "cells", "meaning"]
    if not any(cells.astext() for _, _, cells, _ in rows):
        headings, rows = ["column", "type", "meaning"], [[*row[:2], row[3]] for row in rows]
    return [meaning, _table(headings, rows)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("settings", Settings)
    app.add_directive("table", Columns)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
