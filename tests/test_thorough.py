"""The list of tests that are left to CI names tests that there are, and the rest ends in time."""

from __future__ import annotations

from pathlib import Path

from tests import thorough

ROOT = Path(__file__).resolve().parents[1]


def test_the_list_names_tests_that_there_are():
    for test in thorough.listed():
        path, *inside, name = test.partition("[")[0].split("::")
        # The tests of a contract class are those of its base, which stands elsewhere.
        where = ROOT / ("vbmodels/testing/contract.py" if inside else path)
        assert f"def {name}(" in where.read_text(encoding="utf-8"), test


def test_the_longest_go_but_never_a_harness():
    durations = {"tests/a.py::long": 900.0, "tests/fuzz/b.py::longer": 1200.0} | {
        f"tests/c.py::t{i}": 3.0 for i in range(100)
    }
    assert thorough.chosen(durations, 600.0) == ["tests/a.py::long"]
    assert thorough.chosen(durations, 800.0) == []
    assert len(thorough.chosen(durations, 450.0)) == 51
