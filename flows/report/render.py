"""Pages and texts from a typed answer: data in, words from `templates`.

A family has a folder there, or in the templates of its own package: ``words.jinja`` with the macro
``headline`` and, where it has any, ``caveat``, ``warnings`` and ``first_rows``, rows for a terminal
and Prefect's page, the headings first and a tab between cells (a page that imports it gets it
escaped); and what it adds to the common ``page.html.jinja`` and ``terminal.txt.jinja``, under these
names.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import BaseModel

from flows import storage
from flows.escape import escaped
from flows.records.runs import RunPaths, RunRecord, fit_in_words
from flows.report import figures, plots
from flows.report.commands import Commands
from flows.report.glossary import pattern, terms_in
from flows.report.plots import Spec
from flows.tables.column_table import summary as column_summary

if TYPE_CHECKING:
    from jinja2 import Environment

WORDS, ESCAPED = "/words.jinja", "/words.html.jinja"
_SCRIPTED = re.compile(r'<div class="widget" data-script="([\w.]+)"')
_MARKUP = re.compile(r"<(script|style|tbody|code)\b.*?</\1>|<[^>]+>", re.DOTALL)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]#|~!>])")


class Link(str):
    """A cell that leads to another page."""

    url: str

    def __new__(cls, text: str, url: str) -> Link:
        """Show ``text``, which leads to ``url``."""
        made = super().__new__(cls, text)
        made.url = url
        return made


@dataclass(frozen=True)
class News:
    """What is new since the run that this one went on from.

    Attributes
    ----------
    run_id
        That run.
    added, changed, gone
        Names of files.
    partitions, reused
        How many there are, and how many were not read again.
    warm
        Whether the fit started from that run's posterior.
    """

    run_id: str
    added: tuple[str, ...]
    changed: tuple[str, ...]
    gone: tuple[str, ...]
    partitions: int
    reused: int
    warm: bool


@dataclass(frozen=True)
class AppliedFit:
    """The fit that a score applies; ``report`` leads to its page."""

    run_id: str
    headline: str
    warnings: Sequence[str]
    report: str


@dataclass(frozen=True)
class Shown:
    """A run's answer with what every page says of a run.

    Attributes
    ----------
    family, answer, record
        Name of the family, its typed answer, and the record of the run.
    commands
        Commands that name the run.
    report, rows
        Address of the page, and the command that lists the rows; empty without.
    news, fit, trace
        What is new, the fit that was applied, and the chart of the bound, where there is one.
    meant
        What settings mean that are empty, by name.
    page_data
        What only the page shows: see `flows.family.Family.page_data`.
    """

    family: str
    answer: Any
    record: RunRecord
    commands: Commands
    report: str
    rows: str = ""
    news: News | None = None
    fit: AppliedFit | None = None
    trace: Spec | None = None
    meant: Mapping[str, object] = field(default_factory=dict)
    page_data: Any = None


def page(shown: Shown) -> str:
    """Return the report of a run: one page that needs nothing else."""
    return _render(shown, "page.html.jinja")


def terminal(shown: Shown) -> str:
    """Return what the command prints of a run: blanks there are plain."""
    said = _render(in_lines(replace(shown, page_data=None)), "terminal.txt.jinja")
    return said.strip("\n").replace("\u00a0", " ")


def markdown(shown: Shown) -> str:
    """Return the summary on Prefect's page."""
    return _render(shown, "prefect.md.jinja")


def in_lines(value: Any) -> Any:
    """Return a value whose texts break no line and no column of a terminal: see `escaped`."""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, BaseModel):
        return value.model_copy(update=in_lines(dict(value)))
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: in_lines(getattr(value, f.name)) for f in fields(value) if f.init}
        return replace(value, **changed)
    if isinstance(value, Mapping):
        return {in_lines(key): in_lines(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(in_lines(v) for v in value)
    return value


def template(name: str, **context: Any) -> str:
    """Render a template that is of no run."""
    return environment().get_template(name).render(context).strip("\n")


def headline(family: str, answer: Any, commands: Commands) -> str:
    """Return what was found, how much of it and how sure, in at most 90 characters."""
    return figures.plain(say(family, "headline", answer, commands))


def caveat(family: str, answer: Any, commands: Commands) -> str:
    """Return the first reservation that applies; empty without."""
    return figures.plain(say(family, "caveat", answer, commands))


def warnings(family: str, answer: Any, commands: Commands) -> list[str]:
    """Return what to know before a decision, one sentence or two each."""
    return lines_of(family, "warnings", answer, commands)


def lines_of(family: str, macro: str, *given: Any) -> list[str]:
    """Return what a macro of a family's ``words.jinja`` says, one line each."""
    lines = say(family, macro, *given).splitlines()
    return [figures.plain(line) for line in lines if line.strip()]


def say(family: str, macro: str, answer: Any, *more: Any) -> str:
    """Return what a macro of a family's words makes of an answer; nothing without the macro."""
    words = environment(_package(answer)).get_template(f"{family}/words.jinja").module
    function = getattr(words, macro, None)
    return "" if function is None else str(function(answer, *more))


def _package(answer: Any) -> str:
    """Return the package that has an answer's templates; ours those of plain values."""
    package = type(answer).__module__.partition(".")[0]
    return "flows" if package == "builtins" else package


def _render(shown: Shown, name: str) -> str:
    record = shown.record
    source = storage.source_in_words(record.source)
    versions = [f"{name} {record.versions.get(name, '')}" for name in ("vbflows", "python")]
    context = {
        "a": shown.answer,
        "record": record,
        "run": shown.commands,
        "headline": record.headline,
        "caveat": caveat(shown.family, shown.answer, shown.commands),
        "first_rows": say(shown.family, "first_rows", in_lines(shown.answer)).strip("\n"),
        "ended": fit_in_words(record),
        "file": f"{record.pipeline}-{record.run_id}",
        "report": shown.report,
        "rows": shown.rows,
        "news": shown.news,
        "fit": shown.fit,
        "trace": shown.trace,
        "meant": shown.meant,
        "page_data": shown.page_data,
        "column_lines": column_summary(record.columns),
        "column_summary": "; ".join(column_summary(record.columns)),
        "unsaid": [loss for loss in record.dropped if not loss.is_warned_of],
        "toc": [],
        "kicker": f"vbflows · {record.pipeline} · {record.finished:%Y-%m-%d %H:%M} UTC",
        "warnings": record.warnings,
        "footer": f"Run {record.run_id} · source {source} · {', '.join(versions)}",
    }
    templates = environment(_package(shown.answer))
    return templates.select_template([f"{shown.family}/{name}", name]).render(context)


@cache
def environment(package: str = "flows") -> Environment:
    """Return the templates with their filters, and those of a package; made once."""
    from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
    from jinja2 import __version__ as version
    from jinja2.bccache import Bucket, FileSystemBytecodeCache

    class Compiled(FileSystemBytecodeCache):
        """Keeps compiled templates where Python keeps this module, if that can be written to."""

        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):
                super().dump_bytecode(bucket)

        def get_source_checksum(self, source: str) -> str:
            """Return that of a source and of our filters: a template has some results in it."""
            times = [os.stat(module).st_mtime_ns for module in (__file__, figures.__file__)]
            return super().get_source_checksum(f"{source}{times}")

    class Words(ChoiceLoader):
        """Finds words also by the name that a page has for them; a page keeps "95 %" together."""

        load = BaseLoader.load

        def get_source(self, environment: Environment, template: str) -> Any:
            source, *more = super().get_source(environment, template.replace(ESCAPED, WORDS))
            return (figures.unbroken(source) if ".html" in template else source, *more)

    class Escaping(Environment):
        """Escapes words in pages: what a macro returns to a page is taken to be markup."""

        def join_path(self, template: str, parent: str) -> str:
            return template.replace(WORDS, ESCAPED) if ".html" in parent else template

    loaders = [] if package == "flows" else [PackageLoader(package)]
    made = Escaping(
        loader=Words([PackageLoader("flows.report"), *loaders]),
        autoescape=lambda name: name is not None and ".html" in name,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        bytecode_cache=Compiled(str(Path(__file__).with_name("__pycache__")), f"%s.{version}"),
    )
    made.filters |= figures.FILTERS | {
        "digest": digest,
        "slug": lambda text: re.sub(r"\W+", "-", text.lower()).strip("-")[:40],
        "quoted": shlex.quote,
        "markdown": as_markdown,
        "markdown_table": as_markdown_table,
    }
    made.tests["below"] = lambda estimate: figures.verdict(estimate) == "below"
    made.globals |= {
        "plots": plots,
        "pattern": pattern,
        "headings": headings,
        "terms_in": lambda html: terms_in(_MARKUP.sub(" ", str(html))),
        "scripts_of": scripts_of,
    }
    return made


def scripts_of(html: str) -> list[Any]:
    """Return the scripts that a page's parts need: for charts, tables, and widgets by name."""
    from markupsafe import Markup

    folder = files("flows.report").joinpath("templates")
    charts = ["vega.js"] if "<figure" in html else []
    names = [*charts, "report.js", *sorted(set(_SCRIPTED.findall(html)))]
    return [Markup(folder.joinpath(name).read_text(encoding="utf-8")) for name in names]


def digest(script: str) -> str:
    """Return the digest by which the page's policy lets a script run."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def as_markdown(text: str) -> str:
    r"""Make text of unknown origin safe inside Markdown.

    >>> print(as_markdown("a|b <i> [x](javascript:y)"))
    a\|b &lt;i\> \[x\](javascript:y)
    """
    one_line = escaped(" ".join(text.split()))
    return _MARKDOWN.sub(r"\\\1", one_line.replace("&", "&amp;").replace("<", "&lt;"))


def as_markdown_table(text: str) -> str:
    r"""Return lines of cells with tabs between them, the headings first, as a table of Markdown.

    >>> print(as_markdown_table("bag\tP\nS1\t0.50"))
    | bag | P |
    | --- | --- |
    | S1 | 0.50 |
    """
    heads, *rows = ([as_markdown(cell) for cell in line.split("\t")] for line in text.splitlines())
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, ["---" for _ in heads], *rows))


def headings(table: str) -> dict[str, str]:
    """Return what heads the columns of a table, by their names.

    >>> headings("flows.keywords.schema:RANKED")["by_tf_idf"]
    'TF-IDF'
    """
    module, _, name = table.partition(":")
    columns = getattr(import_module(module), name).columns
    return {column.name: column.label or column.name.replace("_", " ") for column in columns}


def link_to_report(run: RunPaths, page: str) -> str:
    """Return a link from a page to a run's report where a browser can open it, else its name."""
    url = run.file("report.html")
    if storage.is_local(url) and storage.is_local(page):
        return Link("report", quote(os.path.relpath(url, os.path.dirname(page))))
    return Link("report", url) if url.startswith(("https://", "http://")) else url
