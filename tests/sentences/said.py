"""What commands say of inputs that are wrong or odd, as a table of cases gives it."""

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from flows.cli import main

FILE = Path(__file__).with_name("sentences.txt")
Files = Callable[[Path], object]
"""Writes the files of a case into a folder."""
Said = Callable[[Path], str]
"""Returns what is said of a case whose files are written into a folder."""


def nothing(folder: Path) -> None:
    """Write no file."""


def given(words: str, folder: Path) -> tuple[object, str, str]:
    """Give a command; return its exit code and what it prints, on both ways."""
    out, err = io.StringIO(), io.StringIO()
    code: object = None
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main([word.replace("@", str(folder)) for word in words.split()])
    except SystemExit as ended:
        code = ended.code
    said = [one.getvalue().replace(str(folder), "@") for one in (out, err)]
    assert "Traceback" not in said[1]
    return code, said[0], said[1]


def command(words: str, files: Files = nothing) -> Said:
    """Return a case: a command line, with ``@`` for the folder of its files."""

    def said(folder: Path) -> str:
        files(folder)
        code, out, err = given(words, folder)
        text = out + err
        begin = ("vbflows: ", "warning: ", "note: ", "Usage", "Error: ")
        lines = [x for x in text.splitlines() if x.startswith(begin)]
        return "\n".join([f"exit {code}", *lines])

    return said


def looked(words: str, files: Files = nothing) -> Said:
    """Return a case of a check: how each column is read, and what is said of the input."""

    def said(folder: Path) -> str:
        files(folder)
        _, out, _ = given(f"check {words} --json", folder)
        found = json.loads(out)
        lines = [f"exit {found['exit']}", *(found["error"] or "").splitlines()]
        if not found["error"]:
            lines.append(f"{found['rows']} rows in {found['files']} files")
            column = "{name}: {read_as}; {missing} missing; {holds}; {used}"
            lines += [column.format(**one) for one in found["columns"]]
            loss = "dropped: {count} of {of}, {reason}"
            lines += sorted(loss.format(**one) for one in found["dropped"])
            lines += [f"note: {one}" for one in found["notes"]]
        return "\n".join([*lines, *(f"warning: {one}" for one in found["warnings"])])

    return said


def table(words: str, columns: pa.Table | dict[str, object], *settings: str) -> Said:
    """Return a case of one table, ``@/in.parquet``, and settings NAME=VALUE."""
    words = " ".join([words, "@/in.parquet", *(f"--set {setting}" for setting in settings)])
    made = columns if isinstance(columns, pa.Table) else pa.table(columns)
    return command(words, lambda folder: pq.write_table(made, folder / "in.parquet"))


def text(words: str, content: str | bytes, name: str = "in.csv") -> Said:
    """Return a case of one file of text or bytes."""
    data = content.encode() if isinstance(content, str) else content
    return command(f"{words} @/{name}", lambda folder: (folder / name).write_bytes(data))


def nth(values: object, i: int, value: object) -> list[object]:
    """Return values with another one at a place."""
    found = list(values)  # type: ignore[call-overload]
    found[i] = value
    return found


def known() -> dict[str, str]:
    """Return what is recorded, by the names of the cases."""
    if not FILE.exists():
        return {}
    entries = FILE.read_text(encoding="utf-8").split("\n== ")[1:]
    pairs = (entry.split("\n", 1) for entry in entries)
    return {name: said.rstrip("\n") for name, said in pairs}
