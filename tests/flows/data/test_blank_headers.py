"""A CSV whose columns have no name."""

import json

import pytest

from tests.flows.commands import printed


@pytest.fixture(autouse=True)
def own_copies(tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))


def test_a_table_with_blank_headers_is_read_and_scored(tmp_path, capsys):
    for name in ("fit.csv", "new.csv"):
        lines = [["", "q1", "q2", "q3", ""]]
        lines += [[i, "ab"[i % 2], "ab"[i // 2 % 2], "xy"[i // 3 % 2], ""] for i in range(60)]
        (tmp_path / name).write_text("".join(",".join(map(str, line)) + "\n" for line in lines))
    gone = "fit.csv: columns without a name or values are not read: 1."
    said = printed(capsys, "features", tmp_path / "fit.csv", tmp_path / "out", "--max-iter", 80)
    assert "fit.csv: 1 column has no name and is called column 1 here" in said
    assert gone in said
    record = json.loads(next((tmp_path / "out" / "runs").glob("*/run.json")).read_text())
    assert any(gone in warning for warning in record["warnings"])
    said = printed(capsys, "score", tmp_path / "out", tmp_path / "new.csv", tmp_path / "scores")
    assert "new.csv: 1 column has no name" in said
