"""Pages and terminal texts of kept answers, compared with kept words; UPDATE=1 writes them anew.

A folder of a family holds answers of real small runs as ``KIND.json``: the run's ``run.json`` as it
was published. The words of its page and of its text on a terminal are ``KIND.html.snap`` and
``KIND.txt.snap``, of a table its first three rows. Read the difference of a snapshot as its reader
would, then keep it. ``python -m tests.answers.keep FAMILY KIND ...`` makes the runs anew.
"""

import json
import os
import re
from html import unescape
from pathlib import Path

from flows.catalogue import known
from flows.records.runs import RunPaths, RunRecord
from flows.report import render
from flows.report.answers import of_results
from flows.report.commands import Commands
from flows.report.render import Shown

HERE = Path(__file__).parent
FAMILIES = ("bags", "experts", "features", "keywords", "variants")
ODD = re.compile(r"-0\.?0*(?![\d.])(?= |\)|$)|\bNone\b|\bnan\b|\binf\b|\bUndefined\b")
ROWS = 3


def kept(family: str) -> list[str]:
    """Return the names of a family's kept runs."""
    return sorted(path.stem for path in HERE.joinpath(family).glob("*.json"))


ALL = [(family, name) for family in FAMILIES for name in kept(family)]


def shown(family: str, name: str, answer=None) -> Shown:
    """Return what is shown of a kept run, or of it with another answer."""
    fields = json.loads(HERE.joinpath(family, f"{name}.json").read_text(encoding="utf-8"))
    fields.pop("sha256", None)
    record = RunRecord(**fields)
    if answer is None:
        answer = of_results(known(family), record.results)
    return of_record(record, answer)


def of_record(record: RunRecord, answer) -> Shown:
    """Return what is shown of a record and its answer; the headline is made anew."""
    paths = RunPaths("out", record.run_id)
    files = [file.url for file in record.inputs]
    commands = Commands(record.pipeline, files, "out", paths.root, record.changed)
    record.headline = render.headline(record.pipeline, answer, commands)
    return Shown(record.pipeline, answer, record, commands, paths.file("report.html"))


def words(html: str) -> str:
    """Return a page as text, a line a block, without charts and scripts."""
    html = re.sub(r"<(script|style|nav|footer).*?</\1>|<!--.*?-->", "", html, flags=re.DOTALL)
    html = re.sub(r"</t[dh]>\s*<t[dh][^>]*>", " | ", html)
    html = re.sub(r"</(p|h1|h2|tr|dt|dd|li|caption|figcaption|summary|section|code)>", "\n", html)
    lines = (" ".join(line.split()) for line in re.sub(r"<[^>]+>", " ", html).splitlines())
    return unescape("\n".join(filter(None, lines)) + "\n")


def folded(html: str) -> str:
    """Return a page with the first rows of each table, the first opened, and terms alone."""
    found = 1
    while found:
        html, found = re.subn(r"<table(?:(?!<table).)*?</table>", _fold, html, flags=re.DOTALL)
    return re.sub(r"(?<=</dt>)<dd>[^<]*</dd>(?=\s*(<dt data-pattern|</dl></details>))", "", html)


def _fold(table: re.Match[str]) -> str:
    head, _, body = table[0].partition("<tbody>")
    first, *rows = re.split(r"(?=<tr>)", body)
    opened = re.compile(r'<tr class="detail">.*?</tr>', re.DOTALL)
    rows = [*rows[:1], *(opened.sub("", row) for row in rows[1:])]
    more = f"<p>... {len(rows) - ROWS} more rows</p>" * (len(rows) > ROWS)
    kept = re.sub(r"</t[dh]>\s*<t[dh][^>]*>", " | ", head + first + "".join(rows[:ROWS]))
    return re.sub(r"<t[^>]*>|</t[^r>][^>]*>|</td>", "", kept).replace("</tr>", "</p>") + more


def compare(family: str, name: str) -> None:
    """Compare words with those that are kept, and look for what no reader should see."""
    one = shown(family, name)
    page, text = render.page(one), render.terminal(one) + "\n"
    for form, said in (("html", words(folded(page))), ("txt", text)):
        snapshot = HERE / family / f"{name}.{form}.snap"
        if os.environ.get("UPDATE"):
            snapshot.write_text(said, encoding="utf-8")
        assert said == snapshot.read_text(encoding="utf-8")
    for said in (words(page), text, render.markdown(one)):
        odd = ODD.search(said)
        assert odd is None, said[max(odd.start() - 60, 0) : odd.end() + 20]


def check_headline(family: str, name: str, answer, count: int) -> None:
    """A headline has at most 90 characters, its count among them, whatever the answer holds."""
    said = shown(family, name, answer).record.headline
    assert 20 < len(said) <= 90, said
    assert not ODD.search(said)
    assert f"{count:,}" in said
