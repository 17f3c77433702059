"""Two runs compared on a page: what was changed, what that did, and which rows changed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from flows.data import storage
from flows.report import page, plots
from flows.report.labels import LABELS
from flows.report.page import Grid, Section, Tile, link_to_report
from flows.runs.compare import (
    Comparison,
    changes,
    command,
    effects,
    estimates_in_words,
    expected_in_words,
    headline,
    moved_in_words,
    new_warnings,
    others,
    reasons_in_words,
    rows_in_words,
    same_in_words,
)
from flows.runs.listing import first_table
from flows.runs.predictions import (
    GAINED,
    LOST,
    TRUTHS,
    Moved,
    in_digits,
    why_not_compared,
)

MOST_SHOWN = 10_000  # rows that changed


def write_page(found: Comparison, file: str) -> str:
    """Write the page, and return where it is."""
    url = storage.absolute(file)
    storage.write_bytes(url, page.html(_page(found, url)).encode())
    return url


def _page(found: Comparison, url: str) -> page.Page:
    first, second = (paths.run_id for paths in found.runs)
    pipeline = found.records[0].pipeline
    return page.Page(
        name=f"compare-{first}-{second}",
        kicker=f"vbflows · compare · {pipeline} · first {first} · second {second}",
        headline=headline(found),
        tiles=list(_tiles(found)),
        warnings=new_warnings(found),
        sections=[
            _changes(found),
            *(_predictions(one, folded=place > 0) for place, one in enumerate(found.predictions)),
            _runs(found, url),
        ],
        next_steps=[
            *_show_answer(found),
            page.NextStep("Print all rows that changed, on a terminal or as JSON:",
                          f"{command(found)} --rows"),
        ],
        footer=f"First: {found.runs[0].root} · second: {found.runs[1].root}",
    )  # fmt: skip


def _changes(found: Comparison) -> Section:
    rows = [(row.name, f"{row.first} → {row.second}", row.note) for row in changes(found)]
    grids = [Grid(("what", "first → second", "meaning"), rows)] if rows else []
    same = "No setting, no input file and no version differs."
    text = estimates_in_words(found) if rows else same
    how = "Default: the setting was left empty." if "default" in str(rows) else ""
    return Section("What was changed", text, grids=grids, how=how)


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
        line = f"vbflows show {root} {shlex.quote(name)} {options}".rstrip()
        yield page.NextStep(f"See {what} in the second run:", line)


def _tiles(found: Comparison) -> Iterator[Tile]:
    """Yield the numbers of the answer that differ, and how many rows changed."""
    for row in effects(found):
        yield Tile(row.name, f"{row.first} → {row.second}", row.note)
    for one in found.predictions[:1]:
        if one.lost is None:
            of = f"of {one.shared:,} rows in both runs"
            yield Tile("probabilities that crossed 0.5", f"{one.crossed:,}", of)
            continue
        for what, count, right, place in (
            (GAINED, one.gained or 0, one.gained_right, 1), (LOST, one.lost, one.lost_right, 0),
        ):  # fmt: skip
            of = f"{'first' if place == 0 else 'second'} run: {one.selected[place]:,} selected"
            note = f"{expected_in_words(count, right)}; {of}" if count else of
            yield Tile(what, f"{count:,}", note)


def _predictions(one: Moved, folded: bool = False) -> Section:
    """Show every row that changed, the largest change first, with what happened to it."""
    grids = []
    if changed := one.changed(MOST_SHOWN):
        probabilities = [in_digits(row.first, row.second) for row in changed]
        columns: dict[str, list[Any]] = {
            **{_NAMES.get(key, key): [row.row[key] for row in changed] for key in one.every.keys},
            "first": [first for first, _ in probabilities],
            "second": [second for _, second in probabilities],
            "what": [row.what for row in changed],
            "why": [row.why for row in changed],
            TRUTHS.get(one.truth, ""): [row.truth for row in changed],
        }
        if not any(columns["why"]):
            del columns["why"]
        if not one.truth or (len(changed) > 1 and len({row.truth for row in changed}) == 1):
            del columns[TRUTHS.get(one.truth, "")]
        counts = "; ".join(f"{len(places):,} {what}" for what, places in one.places.items())
        grid = Grid(
            tuple(columns), list(zip(*columns.values(), strict=True)),
            f"Rows that changed, by their {one.column} in both runs, the largest change first: "
            f"{counts}", total=one.count,
            where="vbflows compare FIRST SECOND --rows", folded=folded, most=MOST_SHOWN,
        )  # fmt: skip
        grids.append(grid)
    some = len(one.drawn)
    x, y = f"{one.column} in the first run", f"{one.column} in the second run"
    title = f"Chart: each row's {one.column} in both runs"
    title += f" ({some:,} of {one.shared:,} rows drawn)" if some < one.shared else ""
    points = [(row.label, row.first or 0.0, row.second or 0.0) for row in one.drawn]
    said = rows_in_words(one)
    said = f"{said[0].upper()}{said[1:]}. " if folded else ""  # else the headline says it
    text = f"{said}{moved_in_words(one)}"
    text = "\n".join(filter(None, (reasons_in_words(one), text)))
    heading = f"{one.table.replace('keywords', 'keyphrases').capitalize()} that changed"
    if not one.largest and not grids:
        return Section(heading, text)
    how = (
        "Moved: by more than 0.1, or across 0.5."
        if any("moved" in what for what in one.places)
        else ""
    )
    chart = plots.scatter(points, x, y, title)
    return Section(heading, text, [chart], grids, folded=title, how=how)


_NAMES = {**LABELS, "term": "phrase"}  # what columns that name rows are called


def _runs(found: Comparison, url: str) -> Section:
    one, two = found.records
    newer = {"first": " (the newer run)"} if one.finished > two.finished else {}
    rows: list[tuple[object, ...]] = [
        (f"{which}, finished {record.finished:%Y-%m-%d %H:%M}{newer.get(which, '')}",
         record.headline or paths.run_id, link_to_report(paths, url))
        for which, paths, record in zip(("first", "second"), found.runs, found.records, strict=True)
    ]  # fmt: skip
    grids = [Grid(("run (UTC)", "what it found", "report"), rows)]
    if more := [(row.name, f"{row.first} → {row.second}") for row in others(found)]:
        caption = f"Other numbers that differ ({len(more)})"
        grids.append(Grid(("number", "first → second"), more, caption, folded=True))
    text = same_in_words(found)
    if not found.predictions:
        text += f"\n{why_not_compared(*found.runs)}"
    return Section("Both runs", text, grids=grids)
