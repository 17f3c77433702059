"""The report of a run: one self-contained HTML page, everything from the input escaped."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from flows.data.runs import RunRecord
from flows.report.plots import Spec

_OWN_PARTS = ("Input files", "Settings and resources")


@dataclass(frozen=True)
class Grid:
    """A table of the report: its columns, its rows of text or numbers, and a caption."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str = ""


@dataclass(frozen=True)
class Widget:
    """A part that a script of its own builds in the page: a file of ``templates``, and its data."""

    script: str
    data: Any


@dataclass(frozen=True)
class Section:
    """One part of the report: a heading, lines of text, charts, tables and a widget."""

    title: str
    text: str = ""
    plots: Sequence[Spec] = ()
    grids: Sequence[Grid] = field(default_factory=tuple)
    widget: Widget | None = None


@dataclass(frozen=True)
class Findings:
    """What the report says: the main finding, its parts, and numbers for run.json.

    Attributes
    ----------
    headline
        The main finding in one sentence.
    sections
        The parts of the report.
    results
        Numbers for run.json.
    warnings
        What the user should know.
    top
        The most telling rows, for the run's page.
    """

    headline: str
    sections: Sequence[Section]
    results: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    top: Sequence[dict[str, Any]] = ()


def render(record: RunRecord, headline: str, sections: Sequence[Section]) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    record
        The record of the run.
    headline
        The main finding in one sentence.
    sections
        The parts that are the pipeline's own, in order.
    """
    # Workers load this module and write no page.
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    pages = Environment(
        loader=PackageLoader("flows.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    names = ["vega.js"] if any(s.plots for s in sections) else []
    widgets = {s.widget.script for s in sections if s.widget is not None}
    scripts = [_script(name) for name in [*names, "report.js", *sorted(widgets)]]
    return pages.get_template("report.html").render(
        record=record, headline=headline, sections=sections, cell=_cell, exact=_exact,
        titles=[*(s.title for s in sections), *_OWN_PARTS],
        scripts=[Markup(text) for text in scripts], digests=[_digest(text) for text in scripts],
    )  # fmt: skip


def _script(name: str) -> str:
    return files("flows.report").joinpath("templates", name).read_text(encoding="utf-8")


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
    return str(value)
