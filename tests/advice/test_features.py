"""Commands that pages of features name, run as they stand."""

import pytest

from tests.advice.commands import obey, results_of, steps_of
from tests.answers.feature_runs import write_sources
from tests.answers.keep import command
from tests.flows.commands import succeed


@pytest.fixture
def folder(tmp_path, monkeypatch):
    write_sources(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_that_a_fit_and_its_score_advise_runs(folder, capsys):
    """Ten starts in place of two tell of how many each feature was found by."""
    succeed(*command("features", "undecided"))
    rows, weights, again, score = steps_of(folder / "undecided")
    assert "feature_1" in obey(capsys, rows)
    assert "ratio" in obey(capsys, weights)
    obey(capsys, score, "duties.parquet")
    for one in steps_of(folder / "scored"):
        assert "feature_1" in obey(capsys, one)
    obey(capsys, again)
    assert results_of(folder / "undecided")["starts"] == 10
    assert not any("starts=10" in one for one in steps_of(folder / "undecided"))
