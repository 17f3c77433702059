"""Pages and terminal texts of kept answers, compared with kept words; UPDATE=1 writes them anew.

A folder of a family holds answers of real small runs as ``KIND.json``: the run's ``run.json`` as it
was published. The words of its page and of its text on a terminal are ``KIND.html.snap`` and
``KIND.txt.snap``. Read the difference of a snapshot as its reader would, then keep it.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

from flows.data.runs import RunPaths, RunRecord
from flows.report import render
from flows.report.answers import of_results
from flows.report.commands import Commands
from flows.report.render import Shown

HERE = Path(__file__).parent
ODD = re.compile(r"-0\.?0*(?![\d.])(?= |\)|$)|\bNone\b|\bnan\b|\binf\b|\bUndefined\b")


def kept(family: str) -> list[Path]:
    return sorted(HERE.joinpath(family).glob("*.json"))


def shown(path: Path, settings, answer=None) -> Shown:
    """Return what is shown of a kept run, or of it with another answer."""
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields.pop("sha256", None)
    record = RunRecord(**fields)
    return of_record(record, of_results(settings, record.results) if answer is None else answer)


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
    return "\n".join(filter(None, lines)) + "\n"


def compare(path: Path, form: str, said: str) -> None:
    """Compare words with those that are kept, and look for what no reader should see."""
    snapshot = path.with_suffix(f".{form}.snap")
    if os.environ.get("UPDATE"):
        snapshot.write_text(said, encoding="utf-8")
    assert said == snapshot.read_text(encoding="utf-8")
    odd = ODD.search(said)
    assert odd is None, said[max(odd.start() - 60, 0) : odd.end() + 20]
