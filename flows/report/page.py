"""The report of a run: one self-contained HTML page, everything from the input escaped.

A page reads from the top: one sentence, a picture and a few numbers that answer; then the parts;
then what was read, with which settings, and what to do next.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

from flows.data import storage
from flows.data.runs import RunPaths, RunRecord, fit_in_words
from flows.report.glossary import pattern, terms_in
from flows.report.plots import Spec

MOST_ROWS = 1000  # of a table, shown
MOST_STEPS = 3  # to do next
_MOST_FILES = 50
_RUN = "{run}"  # in commands and texts: where the run is
_NO_DEFAULTS: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Tile:
    """One number of the page's head: what it is, its value, and a line on how to take it."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True)
class NextStep:
    """Something to do after reading; ``{run}`` in its command becomes the run's address.

    ``needs_fit``: only for a run that fitted, not for one that scored.
    """

    text: str
    command: str = ""
    needs_fit: bool = False


@dataclass(frozen=True)
class Link:
    """A cell that leads to another page."""

    text: str
    url: str

    def __str__(self) -> str:
        return self.text


def link_to_report(run: RunPaths, page: str) -> Link | str:
    """Return a link from a page to a run's report where a browser can open it, else its name."""
    url = run.file("report.html")
    if storage.is_local(url) and storage.is_local(page):
        return Link("report", quote(os.path.relpath(url, os.path.dirname(page))))
    return Link("report", url) if url.startswith(("https://", "http://")) else url


@dataclass(frozen=True)
class Grid:
    """A table of the report.

    Attributes
    ----------
    columns, rows, caption
        Headings, rows of text or numbers, and a line above; the first column names the row.
    details
        What opens below each row, such as the instances of a bag; None where there is nothing.
    total
        How many rows there are in all, where ``rows`` has only some of them.
    where
        Where all rows are: "the table calls (vbflows show RUN calls)".
    folded
        Whether the table opens on a click; its caption is what one clicks.
    most
        Most rows that are shown.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""
    details: Sequence[Section | None] = ()
    total: int | None = None
    where: str = "the run's tables"
    folded: bool = False
    most: int = MOST_ROWS

    @property
    def count(self) -> int:
        """How many rows there are in all."""
        return len(self.rows) if self.total is None else self.total


@dataclass(frozen=True)
class Widget:
    """A part that a script of its own builds in the page: a file of ``templates``, and its data."""

    script: str
    data: Any


@dataclass(frozen=True)
class Section:
    """One part of the report: a heading, lines of text, charts, tables and a widget.

    ``how`` says how to read it, below the heading; ``folded`` is what one clicks to open its
    charts, where they are not open. ``tables_first``: its tables are above its text.
    ``needs_fit``: it is about a fit, so the page of a run that scored leaves it out. ``measures``:
    it counts labels, so the page of a score of rows that the fit has read leaves it out.
    """

    title: str
    text: str = ""
    plots: Sequence[Spec] = ()
    grids: Sequence[Grid] = field(default_factory=tuple)
    widget: Widget | None = None
    how: str = ""
    folded: str = ""
    needs_fit: bool = False
    measures: bool = False
    tables_first: bool = False


@dataclass(frozen=True)
class Findings:
    """What the report says: the main finding, its parts, and numbers for run.json.

    Attributes
    ----------
    headline
        The main finding in one sentence.
    sections
        The parts of the report. The first chart among them opens the page.
    results
        Numbers for run.json.
    warnings
        What the user should know before a decision.
    top
        The most telling rows, for the run's page.
    tiles
        Two to five numbers of the head: what was found, how sure, compared with what.
    next_steps
        What to do with the result.
    inputs
        Tables of what was read, where the input names other files.
    row
        What a row of the input is.
    predicted
        How many rows of a score have which prediction, for where it measures nothing new.
    with_fit
        What adds to a score that measures nothing what its fit measured, by its results.
    limits
        What the page says next to "No warnings".
    notes
        What else is worth knowing, but changes no decision.
    used
        Values that the run found for settings that were empty, or that it did not use.
    """

    headline: str
    sections: Sequence[Section]
    results: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    top: Sequence[dict[str, Any]] = ()
    tiles: Sequence[Tile] = ()
    next_steps: Sequence[NextStep] = ()
    inputs: Sequence[Grid] = ()
    row: str = "row"
    predicted: str = ""
    with_fit: Callable[[Findings, Mapping[str, Any]], Findings | None] | None = None
    limits: str = ""
    notes: tuple[str, ...] = ()
    used: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """All that a page shows, in its order; ``name`` begins the names of its downloads."""

    name: str
    kicker: str
    headline: str
    sections: Sequence[Section]
    tiles: Sequence[Tile] = ()
    warnings: Sequence[str] = ()
    notes: Sequence[str] = ()
    next_steps: Sequence[NextStep] = ()
    footer: str = ""
    unwarned: str = ""  # in the place of warnings


def render(
    record: RunRecord,
    findings: Findings,
    more: Sequence[Section] = (),
    *,
    run: str = "RUN",
    trace: Section | None = None,
    sweeping: float = 0.0,
    defaults: Mapping[str, str] = _NO_DEFAULTS,
) -> str:
    """Return the report of a run as HTML.

    Parameters
    ----------
    record
        The record of the run.
    findings
        What the pipeline found.
    more
        Parts that every pipeline has, after the findings.
    run
        The run's address, for commands.
    trace
        How the fit went: its text and its chart.
    sweeping
        Seconds that its sweeps took.
    defaults
        What settings that are empty mean; see `flows.settings.base.RunSettings.defaults`.
    """
    known = {"partitions": f"{record.partitions:,}", **findings.used}
    known = {
        name: f"{value} (default)" if name in defaults else value
        for name, value in known.items()
        if name not in record.changed
    }
    used = f"{_cell(record.rows_kept)} of {_cell(record.rows_read)} {findings.row}s used"
    finished = record.finished.strftime("%Y-%m-%d %H:%M")
    of_fit = ""  # a score's parts quote the warnings of its fit
    if count := sum(one.text.count("\nThe fit's own warning: ") for one in more):
        of_fit = f" about these {findings.row}s; the fit has {count:,} (The fit that was applied)"
    of_fit += f"; {findings.limits}" * bool(findings.limits)
    shown = Page(
        name=f"{record.pipeline}-{record.run_id}",
        kicker=f"vbflows · {record.pipeline} · {finished} UTC · {used}",
        headline=findings.headline,
        sections=[
            *(
                replace(one, text=one.text.replace(_RUN, run))
                for one in findings.sections
                if not (record.fitted and one.needs_fit)
            ),
            *more, _inputs(record, findings),
            _settings(record, {**defaults, **known}, trace, sweeping),
        ],
        tiles=[*findings.tiles, _used(record, findings.row)],
        warnings=record.warnings,
        notes=findings.notes,
        next_steps=[
            replace(step, command=step.command.replace(_RUN, shlex.quote(run), 1))
            for step in (*findings.next_steps, *_NEXT_STEPS)
            if record.elbo is not None or not step.needs_fit
        ][:MOST_STEPS],
        footer=_footer(record), unwarned=f"No warnings{of_fit}.",
    )  # fmt: skip
    return html(shown)


def html(page: Page) -> str:
    """Return a page as HTML that needs nothing else."""
    # Workers load this module and write no page.
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    pages = Environment(
        loader=PackageLoader("flows.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    lead, lead_part, sections = _with_lead(page.sections)
    links = [(f"see {one.title}", f"#part-{n}", one.title) for n, one in enumerate(sections, 1)]

    def linked(text: str) -> Markup:
        """Return a text in which what it names to see is a link to that part."""
        found = Markup.escape(text)
        for words, place, title in links:
            link = Markup('see <a href="{}">{}</a>').format(place, title)
            found = found.replace(Markup.escape(words), link)
        return found

    charts = lead is not None or any(_has_chart(section) for section in sections)
    widgets = {s.widget.script for s in sections if s.widget is not None}
    names = [*(["vega.js"] if charts else []), "report.js", *sorted(widgets)]
    folder = files("flows.report").joinpath("templates")
    scripts = [folder.joinpath(name).read_text(encoding="utf-8") for name in names]
    return pages.get_template("report.html").render(
        page=page, lead=lead, lead_part=lead_part, sections=sections, terms=terms_in(_texts(page)),
        pattern=pattern, cell=_cell, exact=_exact, linked=linked,
        scripts=[Markup(text) for text in scripts], digests=[_digest(text) for text in scripts],
    )  # fmt: skip


def _with_lead(sections: Sequence[Section]) -> tuple[Spec | None, int, list[Section]]:
    """Take the first chart out of its section, which goes if it was all; return its number."""
    for place, section in enumerate(sections):
        if section.plots and not section.folded:
            rest = replace(section, plots=section.plots[1:])
            before, after = sections[:place], sections[place + 1 :]
            if not (rest.text or rest.plots or rest.grids or rest.widget):
                return section.plots[0], 0, [*before, *after]
            return section.plots[0], place + 1, [*before, rest, *after]
    return None, 0, list(sections)


def _has_chart(section: Section) -> bool:
    return bool(section.plots) or any(
        opened is not None and _has_chart(opened)
        for grid in section.grids
        for opened in grid.details
    )


def _texts(page: Page) -> list[str]:
    """Return the texts of a page in which terms are explained."""
    texts = [page.headline, *page.warnings, *page.notes]
    texts += [text for tile in page.tiles for text in (tile.label, tile.note)]
    for section in page.sections:
        texts += [section.title, section.text, section.how]
        texts += [str(plot["description"]) for plot in section.plots]
        for grid in section.grids:
            texts += [*grid.columns, grid.caption]
    return texts


def _used(record: RunRecord, row: str) -> Tile:
    """Say how many rows were used, and what most of the others lack."""
    value = f"{_cell(record.rows_kept)} of {_cell(record.rows_read)}"
    left = record.rows_read - record.rows_kept
    rows = [one for one in record.dropped if one.count <= left]
    if not rows:
        test = record.results.get("test_rows", 0)
        free = record.results.get("unlabelled_rows", 0)
        rest = record.rows_kept - test - free
        own = ((rest, "fitted"), (test, "held out"))
        if record.fitted:
            own = ((rest, ""), (test, "with a label"))
        parts = (*own, (free, "without a label (predicted)"))
        said = ", ".join(f"{_cell(count)} {what}" for count, what in parts if count and what)
        return Tile(f"{row}s used", value, said if test or free else f"no {row} was left out")
    most = max(rows, key=lambda one: one.count)
    named = ", ".join([_cell(most.count), *most.examples[: most.count == 1]])
    return Tile(f"{row}s used", value, f"not used: {most.reason} ({named})")


def _inputs(record: RunRecord, findings: Findings) -> Section:
    read = [(file.url, file.rows, file.size) for file in record.inputs[:_MOST_FILES]]
    of = f"{findings.row}s" + " in the files it names" * bool(findings.inputs)
    columns = ("file", of, "bytes")
    grids = [Grid(columns, read, total=len(record.inputs), where="run.json")]
    grids += findings.inputs
    lost = [(one.count, len(one.examples[:2])) for one in record.dropped]
    if lost and not (lost == [(1, 1)] and record.rows_read > record.rows_kept):  # else the tile's
        rows = [(one.reason, one.count, ", ".join(one.examples[:5])) for one in record.dropped]
        grids.append(Grid(("why", "how many", "for example"), rows, "Rows and values not used"))
    text = "\n".join(note for note in record.notes if note not in findings.notes)
    return Section("Input files", text, grids=grids)


def _settings(
    record: RunRecord, defaults: Mapping[str, object], trace: Section | None, sweeping: float
) -> Section:
    def grid(settings: dict[str, Any], caption: str) -> Grid:
        rows = [(name, defaults.get(name, in_words(value))) for name, value in settings.items()]
        return Grid(("setting", "value"), rows, caption, folded=True)

    count, of_fit = len(record.changed), ", those of the fit" if record.fitted else ""
    parts = f"{record.partitions:,} partition{'' if record.partitions == 1 else 's'}"
    memory = f"{record.peak_memory_bytes / 2**20:,.0f} MiB of memory at most"
    text = f"{fit_in_words(record, brief=True)}; {parts}; {_time(record, sweeping)}; {memory}."
    return Section(
        "Settings and resources",
        text[0].upper() + text[1:],
        trace.plots if trace else (),
        folded=trace.title if trace else "",
        grids=[
            *([grid(record.changed, f"Settings that were given ({count})")] * bool(count)),
            grid(record.settings, f"All settings ({len(record.settings)}{of_fit})"),
        ],
        how="The same settings, files and versions give the same result.",
    )


def _time(record: RunRecord, sweeping: float) -> str:
    """Say what a run took, and how much of that its sweeps took: those of all its attempts."""
    whole = f"{record.seconds:.1f} s in all"
    if not sweeping:
        return whole
    if sweeping > record.seconds:
        return f"{whole} since the run was resumed; {sweeping:.1f} s for all sweeps"
    return f"{whole}, {sweeping:.1f} s of them for the sweeps"


def in_words(value: object) -> object:
    """Return a setting as a reader wants it.

    >>> in_words({"label": "diagnosis"}), in_words(["a", "b"]), in_words(None)
    ('label=diagnosis', 'a, b', 'none')
    >>> in_words({"features": ",".join(f"f{i}" for i in range(64))})
    'features=64: f0, f1, f2, ...'
    """
    if isinstance(value, Mapping):
        parts = ((name, _first_of(str(one).split(","))) for name, one in value.items())
        return ", ".join(f"{name}={one}" for name, one in parts) or "none"
    if isinstance(value, (list, tuple)):
        return _first_of([str(one) for one in value]) or "none"
    return "none" if value is None else value


def _first_of(names: Sequence[str]) -> str:
    """Return names, or their number and the first of many; run.json has all."""
    if len(names) <= MOST_NAMES:
        return ", ".join(name.strip() for name in names)
    return f"{len(names):,}: {', '.join(name.strip() for name in names[:3])}, ..."


MOST_NAMES = 8
"""Names in a setting that are shown one by one."""
_NEXT_STEPS = (
    NextStep("See the run and the names of its tables on a terminal:", f"vbflows show {_RUN}"),
    NextStep(
        "After a change of the settings or the data, compare the two runs:",
        f"vbflows compare {_RUN} OTHER_RUN --report compare.html",
    ),
)


def _footer(record: RunRecord) -> str:
    made_by = ", ".join(f"{name} {record.versions[name]}" for name in ("vbflows", "python"))
    source = storage.source_in_words(record.source)
    return f"Run {record.run_id} · source {source} · {made_by}"


def _digest(script: str) -> str:
    """Return the digest by which the page's policy lets a script run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _exact(value: object) -> str | None:
    """Return a number without rounding, for sorting and the download; None for what is text."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return repr(float(value)) if isinstance(value, float) else str(value)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    return "" if value is None else str(value)
