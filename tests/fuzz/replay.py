"""One case: a damaged file in its place, the command in a process of its own, what is wrong."""

import os
import re
import resource
import shutil
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.cli import main
from tests.faults import pipelines
from tests.fuzz.kinds import Kind

SECONDS = 60.0
MEMORY = 8 * 2**30
MOST_MESSAGE = 2000
LEAKED = re.compile(
    r"Traceback|this should not have happened|^\w*(Error|Exception): |0x[0-9a-f]{10}", re.MULTILINE
)


@dataclass(frozen=True)
class Outcome:
    """What a command did: its exit code, all it printed, and what is wrong with that."""

    code: int
    printed: str
    wrong: str = ""


def replay(kind: Kind, content: bytes) -> Outcome:
    """Run the command of a kind with a damaged file, where the inputs were made."""
    folder = kind.here
    shutil.copytree(kind.base, folder)
    try:
        (folder / kind.file).write_bytes(content)
        canary = folder / "canary"
        before = _tree(folder)
        arguments = [word.replace("@", str(folder)) for word in kind.command]
        code, printed = _forked(arguments, folder)
        wrong = _wrong(code, printed, folder, before, canary, arguments)
        if not wrong and not code and kind.name.endswith("-stopped"):
            wrong = "" if _published(kind) == _undamaged(kind) else "it published other bits"
        return Outcome(code, printed, wrong)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _published(kind: Kind) -> dict[str, Any]:
    """Return the bits of what the resume of a stopped run has published."""
    return pipelines.published({"target": str(kind.here / "stopped"), "run_id": kind.command[-1]})


_resumed: dict[Path, dict[str, Any]] = {}


def _undamaged(kind: Kind) -> dict[str, Any]:
    """Return the bits that the resume publishes where nothing is damaged."""
    if kind.base not in _resumed:
        shutil.rmtree(kind.here)
        shutil.copytree(kind.base, kind.here)
        arguments = [word.replace("@", str(kind.here)) for word in kind.command]
        code, printed = _forked(arguments, kind.here)
        assert code == 0, printed
        _resumed[kind.base] = _published(kind)
    return _resumed[kind.base]


def _wrong(
    code: int, printed: str, folder: Path, before: dict[str, bytes], canary: Path,
    arguments: list[str],
) -> str:  # fmt: skip
    """Say in what way a command did not behave; empty where it did."""
    if code not in (0, 1, 2):
        return f"it ended with {code}" if code >= 0 else f"a signal {-code} ended it"
    found = LEAKED.search(printed)
    if found:
        return f"it printed {found[0]!r}"
    long = max((len(line) for line in printed.splitlines()), default=0)
    if long > MOST_MESSAGE:
        return f"it printed a line of {long:,} characters"
    if code and not printed.strip():
        return "it failed without a word"
    if canary.exists():
        return "it executed what it read"
    after = _tree(folder)
    targets = [n for n in ("out", "fitted", "stopped") if str(folder / n) in arguments]
    if code == 2:
        new = sorted(p for p in after if p not in before and p.split("/")[0] in targets)
        if new:
            return f"it left {new[0]} and {len(new) - 1} more after exit 2"
        if (folder / "out").exists() and any((folder / "out").iterdir()):
            return f"it left {os.listdir(folder / 'out')} in the target after exit 2"
    if code == 0 and "out" in targets and not (folder / "out" / "latest.json").exists():
        return "it was done and published nothing"
    changed = [p for p in before if not p.startswith(tuple(targets)) and after.get(p) != before[p]]
    return f"it changed the input {changed[0]}" if changed else ""


def _tree(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes()
            for p in folder.rglob("*") if p.is_file()}  # fmt: skip


def _forked(arguments: list[str], folder: Path) -> tuple[int, str]:
    """Return exit code and output of a command run in a copy of this process."""
    said = folder.with_suffix(".said")
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if not child:
        _run(arguments, folder, said)
    deadline = time.monotonic() + SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            said.unlink(missing_ok=True)
            return -signal.SIGALRM, f"nothing for {SECONDS:.0f} s"
        time.sleep(0.002)
    printed = said.read_text("utf-8", "replace")
    said.unlink()
    return os.waitstatus_to_exitcode(status), printed


def _run(arguments: list[str], folder: Path, said: Path) -> None:
    code = 99
    try:
        out = os.open(said, os.O_WRONLY | os.O_CREAT)
        os.dup2(out, 1)
        os.dup2(out, 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        os.chdir(folder)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            main(arguments)
        except SystemExit as stopped:
            code = stopped.code if isinstance(stopped.code, int) else 98
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
