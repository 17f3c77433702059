"""Memory runs out: one sentence with the stage, exit 1, and no wait; on real limits."""

import subprocess
import sys
import time

import pytest

from tests.faults import pipelines

COMMAND = """
import resource, sys
from flows.cli import main
import flows.run, flows.runs.begin
import numpy, pandas, pyarrow.parquet, scipy.linalg, psutil
from flows.catalogue import pipeline_named

extra, least = (int(word) << 20 for word in sys.argv[1:3])
if not least:
    pipeline_named("features")

used = psutil.Process().memory_info().vms
flows.runs.begin.HEADROOM = least
resource.setrlimit(resource.RLIMIT_AS, (used + extra, used + extra))
main(sys.argv[3:])
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return pipelines.simulate("features", str(tmp_path_factory.mktemp("data")))


def run(source, target, extra, least):
    words = ["features", source, str(target), "--workers=0"]
    begun = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", COMMAND, str(extra), str(least), *words],
        capture_output=True,
        text=True,
        timeout=280,
    )
    return ended, time.monotonic() - begun


@pytest.mark.parametrize("extra", [80, pytest.param(250, marks=pytest.mark.thorough)])
def test_too_little_memory_to_begin_is_said_at_once(source, tmp_path, extra):
    """With less, the libraries abort the process without a sentence, or spin."""
    ended, _ = run(source, tmp_path / "out", extra, 512)
    assert ended.returncode == 1, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("vbflows: ")]
    assert len(lines) == 1
    assert "too little memory to begin: ulimit -v" in lines[0]
    assert "and a run needs 512 MiB" in lines[0]
    assert "should not have happened" not in ended.stderr
    assert not (tmp_path / "out").exists()


def test_memory_that_runs_out_in_a_stage_is_a_sentence(source, tmp_path):
    for extra in (4, 12, 24):
        ended, _ = run(source, tmp_path / f"out{extra}", extra, 0)
        if ended.returncode >= 0:
            break  # else a library that was refused memory has ended the process by a signal
    assert ended.returncode == 1, ended.stderr
    # The stage that had begun last; memory may run out before the first.
    *begun, _ = ended.stderr.splitlines()
    where = f" in the stage {begun[-1]} (" if begun else "; "
    assert f"vbflows: memory ran out{where}" in ended.stderr
    assert (
        "use fewer workers (--workers) or more memory, or more partitions (--partitions) in a "
        "new run" in ended.stderr
    )
    assert "should not have happened" not in ended.stderr
