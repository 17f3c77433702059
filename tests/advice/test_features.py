"""Commands that pages of features name, run as they stand."""

from __future__ import annotations

import re
import shlex
from html import unescape

import pytest

from flows.data import storage
from flows.data.runs import open_run
from tests.answers.feature_runs import command, write_sources
from tests.flows.commands import printed, succeed


def steps_of(target) -> list[str]:
    """Return the commands below "What to do next"."""
    place, _ = open_run(str(target))
    page = unescape(storage.read_bytes(place.file("report.html")).decode())
    [steps] = re.findall(r'<ol class="steps">(.*?)</ol>', page, re.DOTALL)
    return re.findall(r"<code>(.*?)</code>", steps)


def obey(capsys, said: str, new: str = "") -> str:
    """Run a command as a page has it, its new file named; return what it prints."""
    program, *words = shlex.split(said.replace("NEW_FILE", new))
    assert program == "vbflows"
    return printed(capsys, *words)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_sources(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_that_a_fit_and_its_score_advise_runs(folder, capsys):
    """Ten starts in place of two tell of how many each feature was found by."""
    succeed(*command(folder, "undecided"))
    rows, weights, again, score = steps_of(folder / "undecided")
    assert "feature_1" in obey(capsys, rows)
    assert "ratio" in obey(capsys, weights)
    obey(capsys, score, "duties.parquet")
    for one in steps_of(folder / "scored"):
        assert "feature_1" in obey(capsys, one)
    obey(capsys, again)
    assert open_run(str(folder / "undecided"))[1].results["starts"] == 10
    assert not any("starts=10" in one for one in steps_of(folder / "undecided"))
