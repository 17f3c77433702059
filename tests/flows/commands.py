"""The command as tests run it."""

import json

import pytest

from flows.cli import main
from flows.tables import partition


def run(capsys, *arguments):
    """Return (exit code, stdout, stderr) of a command."""
    capsys.readouterr()  # of earlier commands
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return stopped.value.code, captured.out, captured.err


def succeed(*arguments):
    """Run a command that must succeed."""
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    assert stopped.value.code == 0


def printed(capsys, *arguments):
    """Return what a command that must succeed prints, in one line."""
    code, out, err = run(capsys, *arguments)
    assert code == 0, err
    return " ".join((out + err).split())


def refused(capsys, *arguments):
    """Return what a command that must exit with 2 says, in one line."""
    code, _, err = run(capsys, *arguments)
    assert code == 2, err
    return " ".join(err.split())


def answer(capsys, *arguments):
    """Return what a command that must succeed prints with --json."""
    code, out, err = run(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def setting_args(*settings):
    """Return settings NAME=VALUE as arguments."""
    return [part for setting in settings for part in ("--set", setting)]


def read_part(part, table):
    """Return a partition's rows as an ingest reads them."""
    return partition.merge([rows for _, rows in partition.check_rows(part, table)], table)


def check_file(family, file, settings):
    """Return the check of a whole file, as a check of a run adds it up."""
    header = family.read_header(file, settings)
    parts = [] if header.faults else family.plan([file], [header], settings)
    pieces = [piece for part in parts for piece in family.check(part, settings)]
    return family.merge(file, header, pieces, settings) if pieces else header
