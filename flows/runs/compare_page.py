"""Two runs compared on a page: what differs, and how the predictions moved."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flows.data import storage
from flows.data.runs import RunPaths
from flows.report import page, plots
from flows.report.page import Grid, Link, Section, Tile
from flows.runs.compare import HEADINGS, Comparison, differs, shown
from flows.runs.predictions import MOST_MOVED, MOST_ROWS, Moved

_HOW = {
    "settings": "Only the settings that differ; all others are the same.",
    "data": "What each run read. A file is unchanged where its content is the same in both.",
    "results": "The numbers of both runs; change is the second less the first.",
    "fit": "How each fit ended and what it took. Only bounds of the same data and model compare.",
    "versions": "Only the packages that differ.",
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
        headline=_headline(found),
        tiles=list(_tiles(found)),
        sections=[
            *map(_predictions, found.predictions),
            *(_part(found, part) for part in HEADINGS if found.parts[part]),
            _runs(found),
        ],
        next_steps=[page.NextStep("See all rows of a table:", f"vbflows show {root} TABLE")],
        footer=f"First: {found.runs[0].root} · second: {found.runs[1].root}",
    )  # fmt: skip


def _headline(found: Comparison) -> str:
    """Say what moved, then what differs that can be the cause."""
    one, two = found.records
    changed = list(found.parts["settings"])
    same = sorted(f.fingerprint for f in one.inputs) == sorted(f.fingerprint for f in two.inputs)
    settings = "the same settings"
    if changed:
        settings = f"{len(changed)} setting{'s' * (len(changed) > 1)} ({', '.join(changed[:4])}"
        settings += f"{', ...' if len(changed) > 4 else ''}) changed"
    causes = f"{settings}, {'the same' if same else 'different'} data"
    if not found.predictions:
        return f"{causes[0].upper()}{causes[1:]}; the runs have no predictions of the same rows"
    most = found.predictions[0]
    return (
        f"{most.moved:,} of {most.shared:,} predictions in {most.table}/ moved by more than 0.1 "
        f"and {most.crossed:,} crossed 0.5; {causes}"
    )


def _tiles(found: Comparison) -> Iterator[Tile]:
    for one in found.predictions[:1]:
        value = "none" if one.correlation is None else f"{one.correlation:.3f}"
        yield Tile("correlation of the predictions", value, f"mean change {one.mean_change:.3g}")
        yield Tile("rows in both", f"{one.shared:,}", f"{one.only_first:,} only in the first run, "
                   f"{one.only_second:,} only in the second")  # fmt: skip
    for name in ("auroc", "log_loss", "f", "passed", "found", "features"):
        values = found.parts["results"].get(name)
        if values and values["change"] is not None:
            both = f"{shown(values['first'])} → {shown(values['second'])}"
            yield Tile(name.replace("_", " "), both, f"change {values['change']:+.3g}")
    settings = len(found.parts["settings"])
    yield Tile("settings that differ", str(settings))


def _predictions(one: Moved) -> Section:
    x, y = f"{one.column} in the first run", f"{one.column} in the second run"
    some = len(one.drawn)
    title = f"{one.table}: each row's {one.column} in both runs"
    title += f" ({some:,} of {one.shared:,} rows drawn)" if some < one.shared else ""
    rows = [(name, p, q, f"{q - p:+.3f}") for name, p, q in one.largest if p != q]
    grid = Grid(
        ("row", "first", "second", "change"), rows, "The rows that moved most.",
        total=one.shared if len(rows) == MOST_MOVED else None, where=f"the tables {one.table}/",
    )  # fmt: skip
    text = (
        f"{one.moved:,} of {one.shared:,} rows moved by more than 0.1, {one.crossed:,} are on "
        "another side of 0.5."
    )
    if one.cut:
        text += f" Only the first {MOST_ROWS:,} rows of each run were read."
    return Section(
        f"Predictions: {one.table}", text, [plots.scatter(one.drawn, x, y, title)],
        [grid] if rows else [], how="Rows of the same name in both runs.",
    )  # fmt: skip


def _part(found: Comparison, part: str) -> Section:
    def row(name: str, values: Any) -> tuple[object, ...]:
        change = "" if not values["change"] else f"{values['change']:+.4g}"
        return name, shown(values["first"]), shown(values["second"]), change

    columns = ("", "first", "second", "change")
    every = found.parts[part].items()
    differ = [row(name, values) for name, values in every if differs(values)]
    same = [row(name, values) for name, values in every if not differs(values)]
    grids = [Grid(columns, differ)] if differ else []
    if same:
        grids.append(Grid(columns, same, f"The same in both ({len(same)})", folded=True))
    return Section(HEADINGS[part], grids=grids, how=_HOW[part])


def _runs(found: Comparison) -> Section:
    rows = [
        (which, paths.run_id, record.finished.strftime("%Y-%m-%d %H:%M"), _report(paths))
        for which, paths, record in zip(("first", "second"), found.runs, found.records, strict=True)
    ]
    grid = Grid(("run", "id", "finished (UTC)", "report"), rows)
    return Section("Both runs", grids=[grid], how="Each report has what its own run found.")


def _report(paths: RunPaths) -> Link | str:
    """Return a link to a run's report where a browser can open it."""
    url = paths.file("report.html")
    if storage.is_local(url):
        return Link("report.html", Path(url).as_uri())
    return Link("report.html", url) if url.startswith(("https://", "http://")) else url
