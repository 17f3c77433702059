"""Text from data on a terminal: no escape, no turn of direction, nothing hidden, no markup."""

import io
import logging
import re
import sys

import pyarrow as pa
import pytest
from rich.console import Console

from flows import storage
from flows.cli import main
from flows.cli.output import Bar, Lines, line, out
from flows.escape import escaped
from flows.events import Message
from flows.records.runs import RUN, RunPaths, RunRecord, complete, mark_latest

HOSTILE = (
    "\x1b]0;title\x07\x1b[2J\x9b31m\x9d0;x\x9c\r\x08 \u202etxt.exe\u202c \u2066i\u2069 "
    "a\u200bb\u2060c\ufeffd p\u200caypal \U000e0041 [red]m[/red] [link=http://x.y]z[/link]"
)
_RAW = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200c\u202a-\u202e\u2060-\u2069\ufeff]")


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",  # Persian
        "PDF\u200cها",
        "क\u094d\u200dष",  # Hindi
        "👩\u200d🚀 ❤️ 👨\u200d👩\u200d👧",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",  # England's flag
        "שלום שַׁבָּת naïve 漢字 葛\U000e0100 a\u00a0b e\u0301",
        "[red] a:cat:b $x$ \\d",
    ],
)
def test_what_languages_and_emoji_need_stays(text):
    assert escaped(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x00\x7f\x85\x9b", r"\x1b[2J\x00\x7f\x85\x9b"),
        ("a\tb\r\nc", r"a\tb\r\nc"),
        ("\u202eexe\u202c \u2067\u2069 \u200f\u061c", r"\u202eexe\u202c \u2067\u2069 \u200f\u061c"),
        ("a\u200bb\u00adc\ufeff\u2060\u3164", r"a\u200bb\xadc\ufeff\u2060\u3164"),
        ("p\u200caypal\u200d", r"p\u200caypal\u200d"),
        ("\U000e0041\U000e0042", r"\U000e0041\U000e0042"),
        ("\ud800 \u2028", r"\ud800 \u2028"),
    ],
)
def test_what_moves_hides_or_turns_is_spelt_out(text, shown):
    assert escaped(text) == shown


def _clean(text):
    assert not _RAW.search(text), text
    assert "[red]" not in text or "[/red]" in text
    return text


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    found = capsys.readouterr()
    return stopped.value.code, _clean(found.out), _clean(found.err)


@pytest.fixture(autouse=True)
def _wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")
    out.cache_clear()


@pytest.fixture
def hostile_run(tmp_path):
    """A finished run all of whose text is hostile, as one from a foreign store may be."""
    paths = RunPaths(str(tmp_path / "target"), "20260101T000000-000001")
    record = RunRecord(
        run_id=paths.run_id, pipeline=f"keywords{HOSTILE}", source=HOSTILE, settings={"a": HOSTILE},
        versions={HOSTILE: HOSTILE}, started="2026-01-01T00:00:00Z",
        finished="2026-01-01T00:00:01Z", seconds=1.0, peak_memory_bytes=1, inputs=[], rows_read=1,
        rows_kept=1, dropped=[{"reason": HOSTILE, "count": 1}], partitions=1, workers=0, threads=1,
        iterations=1, converged=True, elbo=None, objective="bound", warnings=[HOSTILE],
        since=None, results={HOSTILE: HOSTILE}, headline=HOSTILE,
    )  # fmt: skip
    rows = pa.table({HOSTILE: [HOSTILE], "list": [[HOSTILE]]})
    storage.write_table(storage.join(paths.table("things"), "part-0.parquet"), rows)
    posterior = pa.table({"name": [HOSTILE], "index": [HOSTILE], "mean": [1.0], "sd": [0.5]})
    storage.write_table(storage.join(paths.root, "posterior", "parameters.parquet"), posterior)
    storage.own(paths.root, RUN)
    complete(paths, record)
    mark_latest(paths, record)
    return tmp_path / "target"


def test_a_hostile_run_is_shown_listed_and_compared(hostile_run, capsys):
    for words in (
        ("show", hostile_run),
        ("show", hostile_run, "things"),
        ("compare", hostile_run, hostile_run),
        ("runs", hostile_run),
    ):
        code, shown, err = run(capsys, *words)
        assert code == 0, err
        if words[0] != "runs":
            assert r"\x1b]0;title\x07\x1b[2J\x9b31m" in shown
            assert r"\u202etxt.exe" in shown
            assert "[red]m[/red] [link=http://x.y]z[/link]" in shown


def test_errors_and_progress_are_escaped(tmp_path, capsys):
    for words in (
        ("check", "keywords", tmp_path / "no\x1b[2Jfile\u202e.csv"),
        ("show", tmp_path / "no\x1b[2Jrun\x9b"),
        ("check", "keywords", "b\x1b[2J\u202e.csv"),
        ("check", "keywords", "a.csv", "--no\x1b[2J"),
        ("no\x1b[2J",),
    ):
        code, _, err = run(capsys, *words)
        assert code == 2
        assert r"\x1b[2J" in err
    for make in (Lines, Bar):
        shown = io.StringIO()
        listener = make(Console(file=shown, width=2000))
        listener.on_event(Message(HOSTILE))
        if isinstance(listener, Bar):
            listener.close()
        assert escaped(HOSTILE) in shown.getvalue()


def test_lines_and_the_log_are_escaped(capsys, monkeypatch):
    line(HOSTILE)
    assert _clean(capsys.readouterr().out) == escaped(HOSTILE) + "\n"
    with pytest.raises(SystemExit):
        main(["--version"])
    capsys.readouterr()
    record = logging.LogRecord("flows", logging.WARNING, "", 1, "read %s", (HOSTILE,), None)
    assert logging.lastResort is not None
    logging.lastResort.handle(record)
    assert _clean(capsys.readouterr().err) == f"read {escaped(HOSTILE)}\n"
    assert sys.stdout.isatty() is False


SECRETS = ("?pwd=canary", "?auth=canary", "#token=canary", ";pw=canary")


def test_a_secret_of_a_url_is_neither_printed_nor_recorded(tmp_path, capsys):
    """Whichever argument, setting or file it is in."""
    csv = tmp_path / "a.csv"
    csv.write_text("doc_id,text\na,b\n")
    sheet, target = tmp_path / "sheet.csv", tmp_path / "target"
    urls = [f"https://127.0.0.1:9/a.csv{secret}" for secret in SECRETS]
    for number, words in enumerate(
        (
            ("keywords", "URL", target),
            ("keywords", csv, "URL"),
            ("keywords", csv, target, "--scheduler", "URL"),
            ("keywords", csv, target, "--config", "URL"),
            ("keywords", csv, target, "--set", "stop_words=URL"),
            ("keywords", csv, target, "URL"),
            ("variants", sheet, target, "--set", "fasta=URL"),
            ("check", "keywords", "URL"),
            ("check", "variants", sheet),
            ("score", "URL", csv, target),
            ("show", "URL"),
            ("runs", "URL"),
            ("compare", "URL", "URL"),
            ("count", sheet, target),
        )
    ):
        url = urls[number % len(urls)]
        sheet.write_text(f"sample,replicate,path\na,1,{url}\n")
        given = [str(word).replace("URL", url) for word in words]
        code, shown, err = run(capsys, *given, *(("--json",) if number % 2 else ()))
        assert code in (1, 2), (given, shown, err)
        assert "canary" not in shown + err, (given, shown, err)
        assert not list(target.rglob("run.json"))
