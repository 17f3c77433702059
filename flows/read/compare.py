"""Two finished runs compared: what was changed, what that did on the same rows, what moved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

from flows import storage
from flows.catalogue import PIPELINES
from flows.faults import InputError
from flows.read.compared_rows import Moved, Paired, moved_rows, pair_tested
from flows.records.runs import RunPaths, RunRecord, fit_in_words, open_run
from flows.report import render
from flows.report.commands import Commands
from flows.report.figures import setting

Kind = Literal["column", "setting", "input", "fit", "start", "version"]


@dataclass(frozen=True)
class Change:
    """What differs between two runs before their fits."""

    kind: Kind
    name: str
    first: str
    second: str


@dataclass(frozen=True)
class Side:
    """One of two runs; ``warnings`` are those that it alone has."""

    run_id: str
    root: str
    finished: datetime
    headline: str
    ended: str
    report: str
    rows: int
    files: int
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Comparison:
    """Two finished runs of one pipeline.

    Attributes
    ----------
    pipeline, first, second
        The runs.
    changes
        What was changed: first what the user gave, the seed and versions last.
    same_settings, same_files
        Settings that do not differ, and files of the second run that the first has read as they
        are.
    paired
        Both runs on the rows that both have tested.
    moved
        Tables of both, row by row.
    """

    pipeline: str
    first: Side
    second: Side
    changes: tuple[Change, ...]
    same_settings: int
    same_files: int
    paired: Paired | None
    moved: tuple[Moved, ...]

    def as_json(self, rows: bool = False) -> dict[str, Any]:
        """Return all as plain values, with the rows that changed on request."""
        values: dict[str, Any] = to_jsonable_python(self, inf_nan_mode="null")
        for table in values["moved"]:
            if not rows:
                del table["rows"]
        return {"headline": headline(self), **values}


def compare(first: str, second: str, page: str = "") -> Comparison:
    """Compare two finished runs of one pipeline; links of theirs lead from ``page``.

    Raises
    ------
    InputError
        If they are of two pipelines.
    """
    (here, one), (there, two) = open_run(first), open_run(second)
    if one.pipeline != two.pipeline:
        found = f"a first run of {one.pipeline} and a second of {two.pipeline}"
        raise InputError.of("compare", "two runs of one pipeline", found)
    differing = _differing(one.settings, two.settings)
    read = {file.fingerprint for file in one.inputs}
    return Comparison(
        one.pipeline,
        _side(here, one, two, page),
        _side(there, two, one, page),
        tuple(_changes(one, two, differing)),
        len(two.settings) - len(differing),
        sum(file.fingerprint in read for file in two.inputs),
        pair_tested((here, there), (one, two)),
        moved_rows(here, there),
    )


def headline(comparison: Comparison) -> str:
    """Say which run is better where that was measured, else what moved."""
    return render.headline("compare", comparison, _commands(comparison))


def terminal(comparison: Comparison, rows: int) -> str:
    """Return what the command prints, with at most so many rows of each table."""
    return render.template("compare/terminal.txt.jinja", c=render.in_lines(comparison), most=rows)


def page(comparison: Comparison) -> str:
    """Return the page."""
    return render.template(
        "compare/page.html.jinja",
        c=comparison,
        headline=headline(comparison),
        caveat=render.caveat("compare", comparison, _commands(comparison)),
        kicker=f"vbflows · compare · {comparison.pipeline}",
        warnings=[],
        footer=f"First: {comparison.first.root} · second: {comparison.second.root}",
        file=f"compare-{comparison.first.run_id}-{comparison.second.run_id}",
        run=_commands(comparison),
        toc=[],
    )


def write_page(comparison: Comparison, url: str) -> str:
    """Write the page to a file; return its address."""
    url = storage.absolute(url)
    storage.write_bytes(url, page(comparison).encode())
    return url


def _commands(comparison: Comparison) -> Commands:
    return Commands(comparison.pipeline, [], comparison.second.root, comparison.second.root, {})


def _side(paths: RunPaths, record: RunRecord, other: RunRecord, page: str) -> Side:
    report = paths.file("report.html")
    return Side(
        record.run_id,
        paths.root,
        record.finished,
        record.headline,
        fit_in_words(record),
        render.link_to_report(paths, storage.absolute(page)) if page else report,
        record.rows_kept,
        len(record.inputs),
        tuple(text for text in record.warnings if text not in other.warnings),
    )


def _changes(one: RunRecord, two: RunRecord, differing: list[str]) -> list[Change]:
    """List what differs: columns, settings, input, what was started from, versions."""
    changed = one.changed | two.changed
    differing = sorted(differing, key=lambda name: (name not in changed, name == "seed"))
    columns = [record.settings.get("columns") or {} for record in (one, two)]
    changes = [
        Change("column", name, *(str(setting(c.get(name))) for c in columns))
        for name in _differing(*columns)
    ]
    changes += [
        Change("setting", name, _setting(one, name), _setting(two, name))
        for name in differing
        if name != "columns"
    ]
    prints = [sorted(file.fingerprint for file in record.inputs) for record in (one, two)]
    if prints[0] != prints[1]:
        sources = [storage.source_in_words(record.source) for record in (one, two)]
        changes.append(Change("input", "input", *sources))
    if one.fitted != two.fitted:
        changes.append(Change("fit", "fit", one.fitted or "", two.fitted or ""))
    if one.since != two.since:
        changes.append(Change("start", "since", one.since or "", two.since or ""))
    changes += [
        Change("version", name, one.versions.get(name, ""), two.versions.get(name, ""))
        for name in _differing(one.versions, two.versions)
    ]
    return changes


def _differing(one: Mapping[str, Any], two: Mapping[str, Any]) -> list[str]:
    """Return the names under which two records do not have the same."""
    plain = [to_jsonable_python(values) for values in (one, two)]
    names = dict.fromkeys((*one, *two))
    return [name for name in names if plain[0].get(name) != plain[1].get(name)]


def _setting(record: RunRecord, name: str) -> str:
    """Return a setting as a reader wants it; of an empty one what it was, where that is known."""
    value = record.settings.get(name)
    if value is not None:
        return str(setting(value))
    kind = PIPELINES.get(record.pipeline)
    try:
        decided = {} if kind is None else kind.model_validate(record.settings).decided()
    except ValidationError:  # another version's settings
        decided = {}
    return f"{setting(decided[name])}" if name in decided else ""
