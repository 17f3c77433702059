"""Two runs compared on a page: what was changed, what that did, and which rows changed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

from flows.data import storage
from flows.report import page
from flows.report.page import Grid, Section, Tile, link_to_report
from flows.runs.changed_rows import (
    NAMES,
    every_row_of,
    expected_in_words,
    moved_in_words,
    reasons_in_words,
    rows_in_words,
)
from flows.runs.compare import (
    LIKELY,
    Comparison,
    changes,
    command,
    effects,
    headline,
    implied,
    new_warnings,
    same,
    unit,
)
from flows.runs.listing import first_table
from flows.runs.predictions import (
    GAINED,
    LOST,
    NEITHER,
    STAYED,
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
            *(
                _predictions(one, command(found), place > 0)
                for place, one in enumerate(found.predictions)
            ),
            _runs(found, url),
        ],
        next_steps=[
            *_show_answer(found),
            page.NextStep("Print all numbers of both runs:", f"{command(found)} --json"),
            *[page.NextStep("Print all rows that changed:",
                            f"{command(found)} --rows")] * any(p.count for p in found.predictions),
        ],
        footer=f"First: {found.runs[0].root} · second: {found.runs[1].root}",
    )  # fmt: skip


def _changes(found: Comparison) -> Section:
    rows = [
        (f"{row.name}{unit(found, row.name)}", f"{row.first} → {row.second}", row.note)
        for row in (*changes(found), *implied(found))
    ]
    grids = [Grid(("what", "first → second", "meaning"), rows)] if rows else []
    text = "" if rows else "No setting, no input file, no version differs."
    how = "Default: the setting was left empty." if "default" in str(rows) else ""
    return Section("What was changed", text, grids=grids, how=how)


def _show_answer(found: Comparison) -> list[page.NextStep]:
    """Return the step to the answer of the second run, if it has a table."""
    root = found.runs[1].root
    name, options = first_table(found.runs[1])
    line = f"vbflows show {shlex.quote(root)} {shlex.quote(name)} {options}".rstrip()
    return [page.NextStep("List the answer of the second run:", line)] if name else []


def _tiles(found: Comparison) -> Iterator[Tile]:
    """Yield the numbers of the answer that differ, and how many rows changed."""
    for row in effects(found):
        if row.note.endswith("not comparable"):
            continue  # the text says so
        note, moved = row.note, found.predictions[:1]
        if row.name.startswith(LIKELY) and moved and moved[0].gained:
            one = moved[0]
            note = (
                f"{one.likely[1][0] - one.gained_likely:,} of the {row.second} were selected by "
                f"the first run, {one.gained_likely:,} are among the {one.gained:,} added"
            )
        yield Tile(row.name, f"{row.first} → {row.second}", note)
    for one in found.predictions[:1]:
        if one.lost is None:
            of = f"of {one.shared:,} {every_row_of(one)} in both runs"
            yield Tile("probabilities that crossed 0.5", f"{one.crossed:,}", of)
            continue
        for what, count, right, which in (
            (GAINED, one.gained, one.gained_right, "second"),
            (LOST, one.lost, one.lost_right, "first"),
        ):
            if count:
                note = f"{expected_in_words(count, right)}, by the {which} run"
                if what == GAINED and one.gained_before:
                    note += f"; {one.gained_before:,.0f} by the first run's probabilities"
                yield Tile(what, f"{count:,}", note)
        stay = one.selected[0] - one.lost
        yield Tile("selected by both runs", f"{stay:,}", f"of {one.selected[0]:,} of the first run")


def _predictions(one: Moved, compared: str, folded: bool = False) -> Section:
    """Show every row that changed, by what happened to it: what is new first."""
    grids = []
    changed, ways = one.changed(MOST_SHOWN), list(one.places) if one.lost is not None else [""]
    keys = ["term"] if "term" in one.every.keys else one.every.keys  # the others come later
    for what in ways:
        rows = [row for row in changed if what in ("", row.what)]
        probabilities = [in_digits(row.first, row.second) for row in rows]
        why = f"why not in the {'first' if what == GAINED else 'second'} run"
        columns: dict[str, list[Any]] = {
            **{NAMES.get(key, key): [row.row[key] for row in rows] for key in keys},
            "first": [first for first, _ in probabilities],
            "second": [second for _, second in probabilities],
            **{NAMES.get(key, key): [row.row[key] for row in rows] for key in one.every.keys},
            "what": [row.what for row in rows],
            why: [row.why.partition(": ")[2] for row in rows],
            TRUTHS.get(one.truth, ""): [row.truth for row in rows],
        }
        if what or len({row.what for row in rows}) == 1:
            del columns["what"]
        if what == STAYED or not any(columns[why]):
            del columns[why]
        if not one.truth or (len(changed) > 1 and len({row.truth for row in changed}) == 1):
            del columns[TRUTHS.get(one.truth, "")]
        of = [what] if what else list(one.places)
        counts = "; ".join(f"{len(one.places[kind]):,} {kind}" for kind in of)
        order = "most probable" if what in (GAINED, LOST) else "largest change"
        caption = f"{counts}: {one.column} in both runs, the {order} first"
        aside = folded or what in (STAYED, NEITHER)
        if rows:
            cells = list(zip(*columns.values(), strict=True))
            total = sum(len(one.places[kind]) for kind in of)
            grids.append(Grid(tuple(columns), cells, caption, total=total, folded=aside,
                              where=f"{compared} --rows", most=MOST_SHOWN))  # fmt: skip
    said = rows_in_words(one)
    said = f"{said[0].upper()}{said[1:]}. " if folded else ""  # else the headline says it
    text = "\n".join(filter(None, (reasons_in_words(one), said, moved_in_words(one))))
    heading = f"{one.table.replace('keywords', 'keyphrases').capitalize()} that changed"
    if not one.largest and not grids:
        return Section(heading, text)
    how = "Moved: by more than 0.1, or across 0.5."
    if one.truth == "label":
        how += (
            " Where a run has without_it, a row's probability without its own label, that is "
            "compared; a probability that knows the label is near it, and not better for that."
        )
    return Section(heading, text, (), grids, how=how)


def _runs(found: Comparison, url: str) -> Section:
    one, two = found.records
    newer = {"first": " (the newer run)"} if one.finished > two.finished else {}
    rows: list[tuple[object, ...]] = [
        (f"{which}, finished {record.finished:%Y-%m-%d %H:%M}{newer.get(which, '')}",
         record.headline or paths.run_id, link_to_report(paths, url))
        for which, paths, record in zip(("first", "second"), found.runs, found.records, strict=True)
    ]  # fmt: skip
    grids = [Grid(("run (UTC)", "what it found", "report"), rows)]
    alike = [(name, value or "equal") for name, value in same(found)]
    grids.append(Grid(("what", "in both runs"), alike, f"The same ({len(alike)})", folded=True))
    text = "" if found.predictions else why_not_compared(*found.runs)
    return Section("Both runs", text, grids=grids)
