"""The demo, as `make demo` runs it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow  # half a minute: all packages of this environment
def test_the_demo_prints_what_matters(tmp_path):
    # A terminal, so that there is a bar; and no cache of fonts yet.
    script = shutil.which("script")
    if script is None:
        pytest.skip("script, which makes a terminal, is not installed")
    command = f"{sys.executable} -m flows.entry demo"
    done = subprocess.run(
        [script, "-qec", command, "/dev/null"], cwd=tmp_path, capture_output=True, text=True,
        check=False, timeout=280,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MPLCONFIGDIR": str(tmp_path / "fonts"),
             "COLUMNS": "80", "TERM": "xterm"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    # What a terminal shows in the end: escape sequences gone, and what was written over.
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stdout).replace("\r\n", "\n").split("\n")
    lines = [line.rpartition("\r")[2] for line in lines]
    assert lines[0].startswith("Finding keyphrases of installed Python packages")
    heading = next(i for i, line in enumerate(lines) if line.startswith("document "))
    assert not any("\u2501" in line for line in lines[heading:])
    text = "\n".join(lines)
    for odd in (
        "Matplotlib",
        "font",
        "refect",
        "Traceback",
        "elbo",
        "LaTeX",
        "warning: Nothing is",
    ):
        assert odd not in text
    report = re.search(r"^report (\S+)$", text, re.MULTILINE)
    assert report
    assert Path(report[1]).exists()
