"""Two runs compared on a page: what differs, and how the predictions moved."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flows.catalogue import PIPELINES
from flows.data import storage
from flows.data.runs import RunPaths
from flows.report import page, plots
from flows.report.labels import label
from flows.report.page import Grid, Link, Section, Tile
from flows.runs.compare import (
    HEADINGS,
    Comparison,
    changes_in_words,
    differs,
    headline,
    settings_in_words,
    shown,
)
from flows.runs.listing import first_table
from flows.runs.predictions import MOST_MOVED, MOST_ROWS, TRUTHS, Change, Moved
from flows.settings.load import describe

_HOW = {
    "answer": "The numbers at the head of both reports.",
    "data": "What each run read. A file is unchanged where its content is the same in both.",
    "results": "The other numbers of both runs; run.json has all of them.",
    "fit": "How each fit ended and what it took. Bounds are compared only for the same data and "
    "settings of the model.",
    "versions": "All other packages are the same.",
}


def write_page(found: Comparison, file: str) -> str:
    """Write the page, and return where it is."""
    url = storage.absolute(file)
    storage.write_bytes(url, page.html(_page(found)).encode())
    return url


def _page(found: Comparison) -> page.Page:
    first, second = (paths.run_id for paths in found.runs)
    root = shlex.quote(found.runs[1].root)
    pipeline = found.records[0].pipeline
    return page.Page(
        name=f"compare-{first}-{second}",
        kicker=f"vbflows · compare · {pipeline} · first {first} · second {second}",
        headline=headline(found),
        tiles=list(_tiles(found)),
        sections=[
            _runs(found),
            *(_part(found, part) for part in ("answer",) if found.parts[part]),
            *([_settings(found)] if found.parts["settings"] else []),
            *map(_predictions, found.predictions),
            *(_part(found, part) for part in ("data", "fit", "versions") if found.parts[part]),
            _part(found, "results", folded=True),
        ],
        next_steps=[
            *_show_answer(found),
            page.NextStep("Keep the numbers of this page as JSON:",
                          f"vbflows compare {shlex.quote(found.runs[0].root)} {root} --json"),
        ],
        footer=f"First: {found.runs[0].root} · second: {found.runs[1].root}",
    )  # fmt: skip


def _show_answer(found: Comparison) -> Iterator[page.NextStep]:
    """Yield the step to the answer of the second run, if it has a table."""
    name, options = first_table(found.runs[1])
    if name:
        what = f"the table {name}"
        if "--selected" in options:
            what = (
                "all new ones that are selected" if "--new" in options else "all that is selected"
            )
        root = shlex.quote(found.runs[1].root)
        command = f"vbflows show {root} {shlex.quote(name)} {options}".rstrip()
        yield page.NextStep(f"See {what} of the second run:", command)


def _tiles(found: Comparison) -> Iterator[Tile]:
    both = [
        (name, values)
        for name, values in found.parts["answer"].items()
        if None not in (values["first"], values["second"])
    ]
    for name, values in both[:3]:
        if differs(values):
            yield Tile(name, f"{shown(values['first'])} → {shown(values['second'])}")
        else:
            yield Tile(name, shown(values["first"]), "the same in both")
    for one in found.predictions[:1]:
        note = f"{one.moved:,} of {one.shared:,} moved by more than 0.1"
        if one.lost is None:
            yield Tile("probabilities that crossed 0.5", f"{one.crossed:,}", note)
        else:
            new = f"newly selected: {one.gained:,}; {note}"
            yield Tile("no longer selected", f"{one.lost:,}", new)
        yield Tile("rows in both", f"{one.shared:,}", f"{one.only_first:,} only in the first run, "
                   f"{one.only_second:,} only in the second")  # fmt: skip


def _predictions(one: Moved) -> Section:
    x, y = f"{one.column} in the first run", f"{one.column} in the second run"
    some = len(one.drawn)
    title = f"{one.table}: each row's {one.column} in both runs"
    title += f" ({some:,} of {one.shared:,} rows drawn)" if some < one.shared else ""
    points = [(row.label, row.first, row.second) for row in one.drawn]
    largest = [row for row in one.largest if row.first != row.second or _changed(row)]
    columns: dict[str, list[Any]] = {
        ", ".join(largest[0].row) if largest else "": [row.label for row in largest],
        "first": [row.first for row in largest],
        "second": [row.second for row in largest],
        "change": [f"{row.second - row.first:+.3f}" for row in largest],
        _CHANGED: [_selections(row) for row in largest],
        "crossed 0.5": [(row.first > 0.5) != (row.second > 0.5) for row in largest],
        TRUTHS.get(one.truth, ""): [row.truth for row in largest],
    }
    del columns["crossed 0.5" if one.lost is not None else _CHANGED]
    for name in ("crossed 0.5", TRUTHS.get(one.truth, "")):
        if name in columns and (not name or (len(largest) > 1 and len(set(columns[name])) == 1)):
            del columns[name]
    rows = list(zip(*columns.values(), strict=True))
    first = "whose selection changed are first, then those " if one.lost is not None else ""
    grid = Grid(
        tuple(columns), rows,
        f"The {one.column} in both runs; the rows {first}that moved most"
        f"{'' if first else ' are first'}. A column in which all of them agree is left out.",
        total=one.shared if len(rows) == MOST_MOVED else None, where=f"the tables {one.table}/",
    )  # fmt: skip
    correlation = "" if one.correlation is None else f"; correlation {one.correlation:.3f}"
    text = (
        f"{one.moved:,} of {one.shared:,} rows moved by more than 0.1, {one.crossed:,} crossed "
        f"0.5; {changes_in_words(one)}{correlation}."
    )
    if one.cut:
        text += f" Only the first {MOST_ROWS:,} rows of each run were read."
    return Section(
        f"Predictions: {one.table}", text, [plots.scatter(points, x, y, title)],
        [grid] if rows else [], how="Rows of the same name in both runs.",
    )  # fmt: skip


_CHANGED = "selected: first → second"


def _changed(row: Change) -> bool:
    return row.selected is not None and row.selected[0] != row.selected[1]


def _selections(row: Change) -> str:
    """Say whether each run selects a row.

    >>> _selections(Change({}, 0.2, 0.1, selected=(True, False))), _selections(Change({}, 0.2, 0.1))
    ('yes → no', '')
    """
    return " → ".join("yes" if one else "no" for one in row.selected or ())


def _settings(found: Comparison) -> Section:
    kind = PIPELINES.get(found.records[0].pipeline)
    meanings = {} if kind is None else {row[0]: row[3] for row in describe(kind)}
    rows = [
        (name, " → ".join(settings_in_words(found, name)), meanings.get(name, ""))
        for name in found.parts["settings"]
    ]
    grid = Grid(("name", "first → second", "meaning"), rows)
    how = "All other settings are the same; default: the setting was left empty."
    return Section(HEADINGS["settings"], grids=[grid], how=how)


def _part(found: Comparison, part: str, folded: bool = False) -> Section:
    def row(name: str, values: Any) -> tuple[object, ...]:
        change = "" if not values["change"] else f"{values['change']:+.4g}"
        both = shown(values["first"]), shown(values["second"])
        if name.endswith("interval"):
            both = _interval(values["first"]), _interval(values["second"])
        named = label(name, found.parts[part]) if part == "results" else name
        return named, *both, *([] if part == "answer" else [change])

    columns = ("name", "first", "second", *([] if part == "answer" else ["change"]))
    every = list(found.parts[part].items())
    if part == "results":  # what the answer has is not shown twice
        every = [
            (name, values)
            for name, values in every
            if label(name) not in found.parts["answer"] and not _is_nested(values)
        ]
    differ = [row(name, values) for name, values in every if differs(values)]
    same = [row(name, values) for name, values in every if not differs(values)]
    caption = f"That differ ({len(differ)})" if folded else ""
    grids = [Grid(columns, differ, caption, folded=folded)] if differ else []
    if same:
        grids.append(Grid(columns, same, f"The same in both ({len(same)})", folded=True))
    return Section(HEADINGS[part], grids=grids, how=_HOW[part])


def _interval(value: Any) -> str:
    """Return an interval in words.

    >>> _interval([0.985, 1.0]), _interval(None)
    ('0.985 to 1', '-')
    """
    return " to ".join(map(shown, value)) if isinstance(value, list) else shown(value)


def _is_nested(values: Mapping[str, Any]) -> bool:
    """Whether a run has a table under a name, such as one of thresholds."""
    return any(
        isinstance(one, Mapping | list)
        for value in (values["first"], values["second"])
        if isinstance(value, list)
        for one in value
    )


def _runs(found: Comparison) -> Section:
    rows = [
        (f"{which}, finished {record.finished:%Y-%m-%d %H:%M}",
         record.headline or paths.run_id, _report(paths))
        for which, paths, record in zip(("first", "second"), found.runs, found.records, strict=True)
    ]  # fmt: skip
    grid = Grid(("run (UTC)", "what it found", "report"), rows)
    return Section("Both runs", grids=[grid], how="The first sentence of each report.")


def _report(paths: RunPaths) -> Link | str:
    """Return a link to a run's report where a browser can open it."""
    url = paths.file("report.html")
    if storage.is_local(url):
        return Link("report", Path(url).as_uri())
    return Link("report", url) if url.startswith(("https://", "http://")) else url
