"""Several files as the source: they are read together, or the command says what is wrong."""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.faults import pipelines
from tests.flows.commands import run

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tables(tmp_path):
    """Three files, of which the second has its columns in another order, the third others."""
    rng = np.random.default_rng(1)
    a, b, label = rng.integers(0, 5, 80), rng.normal(size=80), rng.integers(0, 2, 80)
    rows = list(zip(a, b, label, strict=True))
    files = [tmp_path / f"w{i}.csv" for i in (1, 2, 3)]
    files[0].write_text("a,b,label\n" + "".join(f"{x},{y:.3f},{z}\n" for x, y, z in rows[:40]))
    files[1].write_text("label,b,a\n" + "".join(f"{z},{y:.3f},{x}\n" for x, y, z in rows[40:]))
    files[2].write_text("a,label\n1,0\n")
    return files


def halves(name, folder, rows):
    """Draw data of a pipeline into two files."""
    table = pq.read_table(pipelines.simulate(name, str(folder.parent / "drawn"), rows))
    files = [folder / "a.parquet", folder / "b.parquet"]
    folder.mkdir()
    for file, part in zip(files, (table[: rows // 2], table[rows // 2 :]), strict=True):
        pq.write_table(part, file)
    return files


@pytest.mark.parametrize("pipeline", ["experts", "features"])
def test_several_files_are_checked_together(tables, capsys, pipeline):
    code, out, _ = run(capsys, "check", pipeline, tables[0], tables[1], "--quick")
    assert (code, "80 rows in 2 files" in out) == (0, True)
    code, _, err = run(capsys, "check", pipeline, *tables, "--quick")
    assert (code, "no column b, which" in err) == (2, True)
    assert "; give all files the same columns" in err


def test_a_file_that_is_given_twice_is_read_once(tables, capsys, caplog):
    words = ("check", "features", tables[0], tables[1].parent / "." / "w1.csv", "--quick", "--json")
    code, out, _ = run(capsys, *words)
    assert (code, json.loads(out)["rows"]) == (0, 40)
    assert f"{tables[0]} is given more than once and read once" in caplog.text


def test_what_is_missing_is_named(tables, capsys, tmp_path):
    code, _, err = run(capsys, "check", "features", tables[0], tmp_path / "none.csv")
    assert (code, f"{tmp_path / 'none.csv'}: there is no such file" in err) == (2, True)
    code, _, err = run(capsys, "features", tables[0], tables[1])
    assert (code, "TARGET, the last argument, is a folder" in err) == (2, True)
    code, _, err = run(capsys, "features", tables[0])
    assert (code, "Missing argument" in err) == (2, True)


def test_files_and_a_glob_of_them_have_the_same_bits(tmp_path, capsys):
    files = halves("features", tmp_path / "in", 40)
    pattern = str(tmp_path / "in" / "*.parquet")
    sources = {"glob": [pattern], "files": files[::-1]}
    found = {}
    for name, given in sources.items():
        words = [f"--set={k}={v}" for k, v in pipelines.SETTINGS["features"].items()]
        target = tmp_path / name
        code, out, err = run(capsys, "features", *given, target, *words, "--json")
        assert code == 0, err
        found[name] = pipelines.published(json.loads(out))
        record = json.loads((target / "runs" / json.loads(out)["run_id"] / "run.json").read_text())
        assert record["source"] == (pattern if name == "glob" else [str(f) for f in files[::-1]])
        assert [one["url"] for one in record["inputs"]] == [str(file) for file in files]
        code, out, _ = run(capsys, "show", target)
        assert code == 0
        scored = tmp_path / f"{name}-scored"
        code, _, err = run(capsys, "score", target, *given, scored)
        assert code == 0, err
    assert found["glob"] == found["files"]


def test_the_glob_of_the_readme_reaches_the_command(tmp_path):
    (line,) = re.findall(r"vbflows (keywords documents/\*.*)", (ROOT / "README.md").read_text())
    halves("keywords", tmp_path / "documents", 40)
    command = f"{sys.executable} -m flows.entry {line}"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    record = next((tmp_path / "results" / "runs").glob("*/run.json")).read_text()
    assert json.loads(record)["source"] == ["documents/a.parquet", "documents/b.parquet"]
