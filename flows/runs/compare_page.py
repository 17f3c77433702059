"""Two runs compared on a page: what differs, and how the predictions moved."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.catalogue import PIPELINES
from flows.data import storage
from flows.data.runs import RunPaths
from flows.report import page, plots
from flows.report.labels import label
from flows.report.page import Grid, Link, Section, Tile
from flows.runs.compare import HEADINGS, Comparison, differs, headline, settings_in_words, shown
from flows.runs.listing import tables_of
from flows.runs.predictions import MOST_MOVED, MOST_ROWS, TRUTHS, Moved
from flows.settings.load import describe

_HOW = {
    "answer": "The numbers at the head of both reports.",
    "settings": "All other settings are the same; default: the setting was left empty.",
    "data": "What each run read. A file is unchanged where its content is the same in both.",
    "results": "The other numbers of both runs; run.json has all of them.",
    "fit": "How each fit ended and what it took. Bounds compare only for the same data and model.",
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
    pipelines = dict.fromkeys(record.pipeline for record in found.records)
    return page.Page(
        name=f"compare-{first}-{second}",
        kicker=f"vbflows · compare · {', '.join(pipelines)} · first {first} · second {second}",
        headline=headline(found),
        tiles=list(_tiles(found)),
        sections=[
            _runs(found),
            *(_part(found, part) for part in ("answer", "settings") if found.parts[part]),
            *map(_predictions, found.predictions),
            *(_part(found, part) for part in ("data", "fit", "versions") if found.parts[part]),
            _part(found, "results", folded=True),
        ],
        next_steps=[
            *(page.NextStep(f"See the table {name} of the second run:",
                            f"vbflows show {root} {shlex.quote(name)}")
              for name in _tables(found)[:1]),
            page.NextStep("Keep the numbers of this page as JSON:",
                          f"vbflows compare {shlex.quote(found.runs[0].root)} {root} --json"),
        ],
        footer=f"First: {found.runs[0].root} · second: {found.runs[1].root}",
    )  # fmt: skip


def _tables(found: Comparison) -> list[str]:
    """Return the tables of the second run, those whose rows are compared first."""
    compared = [one.table for one in found.predictions]
    return [*compared, *(name for name in tables_of(found.runs[1]) if name not in compared)]


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
        yield Tile("probabilities that crossed 0.5", f"{one.crossed:,}", note)
        yield Tile("rows in both", f"{one.shared:,}", f"{one.only_first:,} only in the first run, "
                   f"{one.only_second:,} only in the second")  # fmt: skip


def _predictions(one: Moved) -> Section:
    x, y = f"{one.column} in the first run", f"{one.column} in the second run"
    some = len(one.drawn)
    title = f"{one.table}: each row's {one.column} in both runs"
    title += f" ({some:,} of {one.shared:,} rows drawn)" if some < one.shared else ""
    points = [(row.label, row.first, row.second) for row in one.drawn]
    largest = [row for row in one.largest if row.first != row.second]
    keys = list(largest[0].row) if largest else []
    rows = [
        (*row.row.values(), *([row.truth] if one.truth else []), row.first, row.second,
         f"{row.second - row.first:+.3f}",
         (row.first > 0.5) != (row.second > 0.5))
        for row in largest
    ]  # fmt: skip
    truths = [TRUTHS[one.truth]] if one.truth else []
    grid = Grid(
        (*keys, *truths, "first", "second", "change", "crossed 0.5"), rows,
        f"The {one.column} in both runs; the rows that moved most are first.",
        total=one.shared if len(rows) == MOST_MOVED else None, where=f"the tables {one.table}/",
    )  # fmt: skip
    correlation = "" if one.correlation is None else f"; correlation {one.correlation:.3f}"
    text = (
        f"{one.moved:,} of {one.shared:,} rows moved by more than 0.1, {one.crossed:,} crossed "
        f"0.5; mean change {one.mean_change:.3g}{correlation}."
    )
    if one.cut:
        text += f" Only the first {MOST_ROWS:,} rows of each run were read."
    return Section(
        f"Predictions: {one.table}", text, [plots.scatter(points, x, y, title)],
        [grid] if rows else [], how="Rows of the same name in both runs.",
    )  # fmt: skip


def _part(found: Comparison, part: str, folded: bool = False) -> Section:
    def row(name: str, values: Any) -> tuple[object, ...]:
        change = "" if not values["change"] else f"{values['change']:+.4g}"
        more = (meanings.get(name, ""),) if meanings else ()
        both = shown(values["first"]), shown(values["second"])
        if part == "settings":
            both = settings_in_words(found, name)
        named = label(name, found.parts[part]) if part == "results" else name
        return named, *both, *([] if part == "answer" else [change]), *more

    meanings = _meanings(found) if part == "settings" else {}
    last = ["meaning"] if meanings else []
    columns = ("name", "first", "second", *([] if part == "answer" else ["change"]), *last)
    every = list(found.parts[part].items())
    if part == "results":  # what the answer has is not shown twice
        every = [row for row in every if label(row[0]) not in found.parts["answer"]]
    differ = [row(name, values) for name, values in every if differs(values)]
    same = [row(name, values) for name, values in every if not differs(values)]
    caption = f"That differ ({len(differ)})" if folded else ""
    grids = [Grid(columns, differ, caption, folded=folded)] if differ else []
    if same:
        grids.append(Grid(columns, same, f"The same in both ({len(same)})", folded=True))
    return Section(HEADINGS[part], grids=grids, how=_HOW[part])


def _meanings(found: Comparison) -> dict[str, str]:
    """Return what each setting means."""
    kind = PIPELINES.get(found.records[0].pipeline)
    return {} if kind is None else {row[0]: row[3] for row in describe(kind)}


def _runs(found: Comparison) -> Section:
    rows = [
        (which, record.headline or paths.run_id, _report(paths),
         record.finished.strftime("%Y-%m-%d %H:%M"))
        for which, paths, record in zip(("first", "second"), found.runs, found.records, strict=True)
    ]  # fmt: skip
    grid = Grid(("run", "what it found", "report", "finished (UTC)"), rows)
    return Section("Both runs", grids=[grid], how="The first sentence of each report.")


def _report(paths: RunPaths) -> Link | str:
    """Return a link to a run's report where a browser can open it."""
    url = paths.file("report.html")
    if storage.is_local(url):
        return Link("report.html", Path(url).as_uri())
    return Link("report.html", url) if url.startswith(("https://", "http://")) else url
