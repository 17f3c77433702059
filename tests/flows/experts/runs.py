"""What tests of the experts pipeline share: the command, and what a run leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.cli import main


def run(capsys, *arguments):
    """Run the command; return its exit code and what it printed."""
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return stopped.value.code, captured.out + captured.err


def run_told_in_a_line(capsys, *arguments):
    """Run the command; return its exit code and what it printed, however it was wrapped."""
    code, text = run(capsys, *arguments)
    return code, " ".join(text.split())


def latest(target):
    """Return the folder of the latest run below a target, and its record."""
    run_id = json.loads((Path(target) / "latest.json").read_text())["run_id"]
    folder = Path(target) / "runs" / run_id
    return folder, json.loads((folder / "run.json").read_text())


def rows_of(folder, name="rows"):
    """Return a table of a run, of all partitions."""
    return pa.concat_tables(pq.read_table(p) for p in sorted((folder / name).glob("*.parquet")))
