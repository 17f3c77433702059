"""Write the reference tables of the pages from the code: ``python -m docs.tables``.

A table stands between ``<!-- made: WORDS -->`` and ``<!-- end -->``. The words:

- ``settings bags``: every setting; ``settings bags own``: without what every pipeline has;
- ``in ROWS_IN``: the columns of a table of input, of the schema of the family that the page is
  named after; ``out BAGS``: those of a table of a run; ``out INDELS beyond LOCI``: without the
  columns that are the same in that table;
- ``commands``: what ``--help`` prints, of every command;
- ``contract``: which item of the contract tests which model, or why not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from typer.testing import CliRunner

from flows.catalogue import known
from flows.cli.app import app
from flows.cli.help import SECTIONS
from flows.settings import RunSettings, describe
from flows.tables.table import Table

DOCS = Path(__file__).parent
_MADE = re.compile(r"(<!-- made: (.*?) -->\n).*?(<!-- end -->)", re.DOTALL)
CONTRACT = {
    "best": ("1", "rise"),
    "global_step": ("4, global", "stationary"),
    "local_step": ("4, local", "stationary"),
    "monte_carlo": ("5", "definition"),
    "evidence": ("6, evidence", "truth"),
    "sampler": ("6, sampler", "sampler"),
    "recovery": ("7", "recovery"),
    "calibration": ("8", "calibration"),
    "extremes": ("9", "extremes"),
    "agreement": ("10", "agreement"),
}
"""Field of a row: heading, and the name under which the row marks it as slow."""


def renewed(page: Path) -> str:
    """Return a page with its tables as the code has them now."""
    text = page.read_text(encoding="utf-8")
    return _MADE.sub(lambda m: f"{m[1]}\n{made(page.stem, m[2].split())}\n\n{m[3]}", text)


def made(page: str, words: Sequence[str]) -> str:
    """Return what stands between the marks, of a page by its name."""
    kind, *names = words
    if kind == "settings":
        return _settings(names[0], "own" in names)
    if kind == "commands":
        return _commands()
    if kind == "contract":
        return _contract()
    schema = import_module(f"flows.{page}.schema")
    first, *others = (getattr(schema, name) for name in names if name != "beyond")
    return _columns(first, kind == "out", *others)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _settings(name: str, own: bool) -> str:
    chosen = RunSettings if name == "common" else known(name)
    common = {one: field.default for one, field in RunSettings.model_fields.items()}
    rows = [
        [f"`{setting}`", _default(default), bounds, meaning]
        for setting, bounds, default, meaning in describe(chosen)
        if not (own and chosen.model_fields[setting].default == common.get(setting, object))
    ]
    return _table(["setting", "default", "range", "meaning"], rows)


def _default(default: str) -> str:
    """Return a default as a user writes it."""
    written = {"True": "true", "False": "false", "None": ""}.get(default, default.strip("'(){}"))
    return f"`{written}`" if written else "empty"


def _columns(table: Table, is_output: bool, beyond: Table | None = None) -> str:
    """Return what a table is for, and its columns."""
    rows, same = [], beyond.columns if beyond else ()
    for column in (*table.columns, *table.named, *filter(None, [table.others])):
        if column in same:
            continue
        unit = f" [{column.unit}]" if column.unit else ""
        label = f'; "{column.label}" in reports' if column.label else ""
        rules = ("only if named", *column.rules) if column in table.named else column.rules
        rows.append(
            [
                column.name if column is table.others else f"`{column.name}`",
                "label" if column.values and not is_output else str(column.type),
                ", ".join(rules),
                column.meaning + unit + label,
            ]
        )
    meaning = f"**`{table.name}/`** {table.meaning}" if is_output else table.meaning
    if beyond:
        meaning += f" The columns of `{beyond.name}/`, but:"
    headings = ["column", "type", "cells", "meaning"]
    if not any(cells for _, _, cells, _ in rows):
        headings = ["column", "type", "meaning"]
        rows = [[name, kind, text] for name, kind, _, text in rows]
    return f"{meaning}\n\n{_table(headings, rows)}"


def _commands() -> str:
    names = [name for names in SECTIONS.values() for name in names]
    whole = _help("keywords --help-all")
    found = {"vbflows": _help("--help")}
    large = whole[whole.index("Large input") : whole.index("More:")]
    found["Every pipeline, for large input and repeated runs"] = large
    found |= {f"vbflows {name}": _help(f"{name} --help") for name in names}
    return "\n\n".join(
        f"## {title}\n\n```text\n{text.strip()}\n```" for title, text in found.items()
    )


def _help(words: str) -> str:
    how = {"COLUMNS": "100", "TERMINAL_WIDTH": "100"}
    shown = CliRunner().invoke(app, words.split(), prog_name="vbflows", env=how)
    if shown.exit_code:
        raise RuntimeError(f"vbflows {words}: exit {shown.exit_code}: {shown.output}")
    return "\n".join(line.rstrip() for line in shown.output.splitlines())


def _contract() -> str:
    """Return a row a model, a column an item; then every reason for which an item is not tested."""
    sys.path.append(str(DOCS.parent / "tests" / "outside" / "vbflows_counts"))
    from tests.contract.cases import cases

    rows, held = [], dict[str, dict[str, list[str]]]()
    for case in cases():
        row = [case.name]
        for field, (heading, marked) in CONTRACT.items():
            reason = getattr(case, field)
            if isinstance(reason, str):
                text = reason[:1].upper() + reason[1:].rstrip(".")
                held.setdefault(text, {}).setdefault(heading, []).append(case.name)
                row.append("–")
            else:
                row.append("slow" if marked in case.slow else "yes")
        rows.append(row)
    listed = []
    for reason, of in held.items():
        items = "; ".join(f"{item}: {', '.join(names)}" for item, names in of.items())
        listed.append(f"- **{reason}** ({items})")
    headings = ["model", *(heading for heading, _ in CONTRACT.values())]
    return f"{_table(headings, rows)}\n\n" + "\n".join(listed)


def main() -> None:
    """Write all tables of all pages."""
    for page in sorted(DOCS.rglob("*.md")):
        if "<!-- made: " in page.read_text(encoding="utf-8"):
            page.write_text(renewed(page), encoding="utf-8")


if __name__ == "__main__":
    main()
