"""Commands say what is recorded; ``python -m tests.sentences`` records what they say now."""

import pytest

from tests.sentences.cases import CASES
from tests.sentences.said import known

RECORDED = known()


@pytest.mark.parametrize("name", CASES)
def test_what_is_said_is_what_is_recorded(name, tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "staging"))
    folder = tmp_path / "case"
    folder.mkdir()
    assert CASES[name](folder) == RECORDED[name]


def test_nothing_is_recorded_of_a_case_that_is_gone():
    assert list(RECORDED) == list(CASES)
