"""The house in numbers: lines of product, what one run passes, frames down to a local step.

``python -m benchmarks.house`` simulates a small input of every family and runs it in this process:
its figures are counts, so they do not hang on the machine. Import statements are not passed
through; comprehensions and lambdas count with the function that they stand in.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
ROOTS = ("flows", "vbmodels")
SWEEPS = 400
FAMILIES = {
    "keywords": ["--set", "keyphrases=4"], "bags": [], "variants": [],
    "features": [], "experts": [],
}  # fmt: skip


@dataclass
class Passed:
    """What a run passes."""

    functions: set[tuple[str, str, int]] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    frames: int = 0  # on the way from the command to the first local step, both counted

    def profile(self, frame: FrameType, event: str, _: Any) -> None:
        """Note a call of ours."""
        code = frame.f_code
        if event != "call" or not _ours(code.co_filename) or code.co_name == "<module>":
            return
        self.files.add(code.co_filename)
        if not code.co_name.startswith("<"):
            self.functions.add((code.co_filename, code.co_name, code.co_firstlineno))
        if code.co_name == "local_step" and not self.frames:
            self.frames = _depth(frame)


def _ours(name: str) -> bool:
    return any(name.startswith(str(ROOT / root)) for root in ROOTS)


def _depth(frame: FrameType | None) -> int:
    """Count our frames from ``cli.main`` on; libraries between them are not ours to shorten."""
    found = 0
    while frame is not None:
        found += _ours(frame.f_code.co_filename)
        frame = frame.f_back
    return found


def run(words: list[str]) -> Passed:
    """Run a command in this process, and note what it passes."""
    from flows.cli import main

    passed = Passed()
    before = sys.argv
    sys.argv = ["vbflows", *words]
    threading.setprofile(passed.profile)
    sys.setprofile(passed.profile)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            main()
    except SystemExit as end:
        if end.code:
            raise
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
        sys.argv = before
    return passed


def lines(root: str) -> tuple[int, int, int]:
    """Return lines, lines without blanks and docstrings, and files of a root."""
    total = bare = files = 0
    for path in sorted((ROOT / root).rglob("*.py")):
        text = path.read_text()
        files += 1
        total += len(text.splitlines())
        bare += sum(1 for line in text.splitlines() if line.strip()) - _docstrings(text)
    return total, bare, files


def _docstrings(text: str) -> int:
    found = 0
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            span = text.splitlines()[first.lineno - 1 : first.end_lineno]
            found += sum(1 for line in span if line.strip())
    return found


def main() -> None:
    """Print the tables."""
    print("| root | files | lines | without blanks and docstrings |\n|---|---|---|---|")
    for root in ROOTS:
        total, bare, files = lines(root)
        print(f"| {root} | {files} | {total:,} | {bare:,} |")
    table = ["| one run | files | functions | frames to a local step |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as folder:
        for name, more in FAMILIES.items():
            source = f"{folder}/{name}"
            run(["simulate", name, source, "--rows", "40"])
            passed = run(
                [name, source, f"{folder}/{name}-out", *more, "--json",
                 "--workers", "0", "--max-iter", str(SWEEPS)]
            )  # fmt: skip
            table.append(
                f"| {name} | {len(passed.files)} | {len(passed.functions)} | {passed.frames} |"
            )
    print("\n".join(table))


if __name__ == "__main__":
    main()
