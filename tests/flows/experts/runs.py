"""What tests of pipelines over tables share: the command, and what a run leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.cli import main


def run(capsys, *arguments):
    """Run the command; return its exit code and what it printed, in one line."""
    capsys.readouterr()  # of earlier commands
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return stopped.value.code, " ".join((captured.out + captured.err).split())


def succeed(*arguments):
    """Run a command that must succeed."""
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    assert stopped.value.code == 0


def printed(capsys, *arguments):
    """Return what a command that must succeed prints, in one line."""
    code, said = run(capsys, *arguments)
    assert code == 0, said
    return said


def refused(capsys, *arguments):
    """Return what a command that must exit with 2 prints, in one line."""
    code, said = run(capsys, *arguments)
    assert code == 2, said
    return said


def setting_args(*settings):
    """Return settings NAME=VALUE as arguments."""
    return [part for setting in settings for part in ("--set", setting)]


def written(folder, columns, name="in.parquet"):
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def latest(target):
    """Return the folder of the latest run below a target, and its record."""
    run_id = json.loads((Path(target) / "latest.json").read_text())["run_id"]
    folder = Path(target) / "runs" / run_id
    return folder, json.loads((folder / "run.json").read_text())


def rows_of(folder, name="rows"):
    """Return a table of a run, of all partitions."""
    return pa.concat_tables(pq.read_table(p) for p in sorted((folder / name).glob("*.parquet")))
