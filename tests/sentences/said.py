"""What commands say of inputs that are wrong or odd, as a table of cases gives it."""

import io
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


def command(words: str, files: Files) -> Said:
    """Return a case: a command line, with ``@`` for the folder of its files."""

    def said(folder: Path) -> str:
        files(folder)
        printed = io.StringIO()
        code: object = None
        try:
            with redirect_stdout(printed), redirect_stderr(printed):
                main([word.replace("@", str(folder)) for word in words.split()])
        except SystemExit as ended:
            code = ended.code
        text = printed.getvalue().replace(str(folder), "@")
        assert "Traceback" not in text
        begin = ("vbflows: ", "warning: ", "note: ", "Usage")
        lines = [x for x in text.splitlines() if x.startswith(begin)]
        return "\n".join([f"exit {code}", *lines])

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
