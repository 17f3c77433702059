"""`vbflows check`: what a run would say before its fit, with what it will take."""

import json
import os
import re
import threading
import time
from collections import deque
from dataclasses import replace
from types import SimpleNamespace

import numba
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import preview
from flows.catalogue import pipeline_named
from flows.cli import main
from flows.family import Checked
from flows.records.runs import Dropped, open_run, total_dropped
from flows.runs import checking
from tests.flows.bags.bag_files import instances, written
from tests.flows.commands import run
from vbmodels.core.cached_kernels import compiling

KEYS = {"error", "exit", "faults", "warnings"}


def checked(capsys, *words):
    code, out, _ = run(capsys, "check", *words, "--json")
    answer = json.loads(out)
    assert answer["exit"] == code
    assert set(answer) >= KEYS
    return answer


@pytest.fixture
def timed(monkeypatch):
    """Have a fit timed for as long as users have it timed; see tests/conftest.py."""
    monkeypatch.setattr(preview, "_MOST_SECONDS", 3.0)
    monkeypatch.setattr(preview, "_SWEEPS", 10)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    with pytest.raises(SystemExit):
        main(["simulate", "keywords", str(folder), "--rows", "60"])
    return folder


def rows(tmp_path, n=40, d=3, label=None, **columns):
    rng = np.random.default_rng(0)
    table = {f"x{i}": rng.normal(size=n) for i in range(d)} | columns
    table["label"] = rng.integers(0, 2, n).astype(float) if label is None else label
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table(table), path)
    return path


@pytest.mark.thorough
def test_the_run_says_what_the_check_said(tmp_path, capsys):
    """A constant column, one that repeats another, and fewer rows than columns."""
    same = np.arange(30.0) ** 2
    path = rows(tmp_path, 30, 32, flat=np.ones(30), a=same, b=same)
    answer = checked(capsys, "experts", path, "--set", "n_experts=2")
    said = " ".join(answer["warnings"])
    assert "Columns with one value predict nothing" in said
    assert "b (as a)" in said
    assert "the fit rests on its prior" in said
    code, out, err = run(capsys, "experts", path, tmp_path / "t", "--json",
                       "--set", "n_experts=2")  # fmt: skip
    assert code == 0, err
    assert set(answer["warnings"]) <= set(json.loads(out)["warnings"])
    record = open_run(str(tmp_path / "t"))[1]
    assert answer["partitions"] == record.partitions
    assert answer["rows"] == record.rows_read
    assert answer["dropped"] == [one.model_dump() for one in record.dropped]


def documents(folder):
    """Long texts, of few of which 100 words are most."""
    words = " ".join(f"word{chr(97 + i % 26)}{chr(97 + i // 26)} runs." for i in range(150))
    table = {
        "doc_id": [f"d{i}" for i in range(20)],
        "text": ["a cat sat on mats"] * 17 + [words] * 3,
        "keywords": [["cat"]] * 17 + [["wordaa"]] * 3,
    }
    pq.write_table(pa.table(table), folder / "texts.parquet")
    return folder / "texts.parquet"


def categories(folder):
    """Answers of 40 rows, 5 of which are blank."""
    given = [["no", "yes"][i % 3 == 0] if i >= 5 else None for i in range(40)]
    table = {f"q{j}": given[:5] + given[5 + j :] + given[5 : 5 + j] for j in range(3)}
    pq.write_table(pa.table(table), folder / "answers.parquet")
    return folder / "answers.parquet"


def bags(folder):
    """Twenty bags, three of which have no instances."""
    table = instances(20)
    empty = np.arange(60) >= 51
    features = pa.array(table["features"].to_pylist(), table["features"].type, mask=empty)
    table = table.set_column(3, "features", features).filter(
        pa.array(~empty | (np.arange(60) % 3 == 0))
    )
    return written(folder, table)


LOST = {
    "keywords": (documents, ("--set", "max_words=100"), "3 of 20 (15 %) not used: document cut",
                 "Raise max_words above 100"),
    "features": (categories, (), "5 of 40 (12 %) not used: row without any cell", "Delete blank"),
    "bags": (bags, (), "3 of 20 (15 %) not used: bag without instances", "by bag_id"),
    "experts": (lambda folder: rows(folder, label=[None] * 5 + [1.0, 0.0] * 17 + [1.0]), (),
                "5 of 40 rows (12 %) have no label", "check --column label="),
}  # fmt: skip


@pytest.mark.parametrize("pipeline", LOST)
def test_more_than_a_tenth_that_is_not_used_is_a_warning_with_the_cause(pipeline, tmp_path, capsys):
    make, options, said, cause = LOST[pipeline]
    path = make(tmp_path)
    warnings = checked(capsys, pipeline, path, *options)["warnings"]
    (warning,) = [one for one in warnings if said in one]
    assert cause in warning
    code, out, err = run(capsys, pipeline, path, tmp_path / "t", *options, "--strict", "--json")
    assert code == 2, err
    assert "(strict)" in out


def test_a_loss_that_a_warning_says_is_said_once():
    one = Dropped(reason="known phrase", count=6, of=15, by_family=True)
    other = Dropped(reason="blank", count=1, of=15)
    found = preview.Estimate(1, 40, (one, other), ("6 of 15 known phrases are absent.",), 1, 2**20,
                     seconds_to_read=1.0, most_sweeps=9)  # fmt: skip
    said = preview.in_lines(found)
    assert said[0] == "40 rows in 1 file, no errors, 1 warning, 1 row or value not used"
    assert [line for line in said if "not used:" in line] == ["not used: blank: 1"]
    [memory] = [line for line in said if line.startswith("memory: ")]
    assert memory.endswith(" MiB in one process")
    assert preview._memory(2**27).endswith("of which 128.0 MiB are data and local state")
    assert "KiB" not in memory


def test_a_loss_below_a_tenth_is_no_warning():
    lost = [Dropped(reason="blank", count=n, of=10, examples=["row 3"]) for n in (1, 1)]
    (total,) = total_dropped(lost)
    assert (total.count, total.of, total.is_large) == (2, 20, False)
    assert total.examples == ["row 3"]
    assert Dropped(reason="blank", count=3, of=20).is_large
    assert not Dropped(reason="blank", count=3).is_large


def test_nothing_is_left_behind(corpus, tmp_path, capsys, monkeypatch, timed):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, out, err = run(capsys, "check", "keywords", corpus)
    assert code == 0
    assert out.startswith("60 rows in 1 file, no errors, ")
    assert "\nwarning: " in out
    assert re.search(
        r"^time: about \S+ \w+ \(\S+ to \S+ \w+\) in one process, "
        r"\S+ \w+ of it the fit \((if it takes )?\d+ sweeps\)$",  # a busy machine times fewer
        out,
        re.M,
    )
    assert "ingest" in err
    assert os.listdir(tmp_path) == []


def test_a_fit_whose_sweeps_are_not_known_has_a_wider_range():
    found = preview.Estimate(1, 40, seconds_to_read=1.0, seconds_a_sweep=0.02,
                             most_sweeps=5000, seconds=6.5, memory_bytes=1)  # fmt: skip
    assert preview._time(found).startswith("time: about 6.5 s (3 to 30 s) in one process")
    assert preview._time(replace(found, sweeps=100)).startswith("time: about 6.5 s (3 to 10 s)")


def test_check_ends_with_the_command_of_the_fit(corpus, capsys):
    options = ("--set", "keyphrases=4", "--set", "stem=none", "--strict", "--column", "gold=g old")
    table = pq.read_table(next(corpus.glob("*.parquet")))
    pq.write_table(table.rename_columns([n.replace("gold", "g old") for n in table.column_names]),
                   path := corpus.parent / "named.parquet")  # fmt: skip
    code, out, err = run(capsys, "check", "keywords", path, "--quick", *options)
    assert code == 0, err
    said = "--set keyphrases=4 --set stem=none --column 'gold=g old' --strict"
    assert out.splitlines()[-1] == f"next: vbflows keywords {path} TARGET {said}"


def test_a_name_that_is_none_of_our_columns_is_refused(tmp_path, capsys):
    rows = "".join(f"{n % 5},{'ab'[n % 2]}\n" for n in range(40))
    (tmp_path / "in.csv").write_text(f"x,diagnosis\n{rows}")
    words = ("check", "experts", tmp_path / "in.csv", "--column")
    code, _, err = run(capsys, *words, "lable=diagnosis")
    said = "--column: experts has no column called lable; did you mean label?"
    assert (code, said in " ".join(err.split())) == (2, True), err
    code, _, err = run(capsys, *words, "held_out=x", "--column", "label=diagnosis")
    assert (code, "--set held_out=x?" in err) == (2, True), err
    code, _, err = run(capsys, *words, "size=x", "--column", "label=diagnosis")
    assert code == 0, err
    (tmp_path / "sheet.csv").write_text("sample,path\nann,a.bam\n")
    code, _, err = run(capsys, "check", "variants", tmp_path / "sheet.csv", "--column", "label=x")
    assert (code, "variants has no column called label" in " ".join(err.split())) == (2, True)


@pytest.mark.parametrize("name", ["keywords", "variants"])
def test_columns_of_fixed_names_are_a_short_table(name, tmp_path, capsys):
    assert run(capsys, "simulate", name, tmp_path / "in", "--rows", 30)[0] == 0
    code, out, err = run(capsys, "check", name, tmp_path / "in")
    assert code == 0, err
    heading, *rows = [" ".join(line.split()) for line in out.splitlines()[1:]]
    assert heading == "column read as used"
    wanted = {"keywords": "doc_id text doc_id", "variants": "pos whole number pos"}
    assert wanted[name] in rows


def test_a_column_that_could_name_the_rows_is_said(tmp_path, capsys):
    rows = "".join(f"s{n},{n % 3},{'xyz'[n // 2 % 3]}\n" for n in range(60))
    (tmp_path / "in.csv").write_text(f"student,a,b\n{rows}")
    code, out, err = run(capsys, "check", "features", tmp_path / "in.csv")
    assert code == 0, err
    assert "note: --column id=student takes student for names of rows" in out
    code, out, _ = run(capsys, "check", "features", tmp_path / "in.csv", "--column", "id=student")
    assert "student" in out
    assert "name of the row" in out


def test_equal_faults_share_a_line_with_their_count(tmp_path, capsys):
    for i in range(6):
        table = pa.table({"doc_id": [f"d{i}"], "body": ["some words"]})
        pq.write_table(table, tmp_path / f"{i}.parquet")
    code, out, err = run(capsys, "check", "keywords", tmp_path, "--json")
    assert code == 2
    assert len(json.loads(out)["faults"]) == 6
    (line,) = [line for line in err.splitlines() if line.startswith("vbflows:")]
    assert "6 times in 6 files" in line


def test_eight_files_are_looked_at_at_once_on_any_number_of_cores(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    together, family = threading.Barrier(8), pipeline_named("keywords")

    def look(file, settings):
        together.wait(60)
        return Checked(0, ())

    given = SimpleNamespace(
        files=[SimpleNamespace(url=str(n), fingerprint="") for n in range(8)],
        family=family,
        settings=family.settings(),
        on_progress=lambda name: None,
    )
    monkeypatch.setattr(family, "read_header", look)
    assert len(checking._headers(given)) == 8


class Cold:
    """An executor and a clock: the first sweep compiles for 40 seconds, others take .5."""

    def __init__(self, batch):
        self.batches, self.now = [batch], 0.0

    def process_time(self):
        return self.now

    def __call__(self, q, *, number, warm):
        self.now += 40.0 if number == 0 else 0.5

    def local_states(self, number):
        return [None]


def test_what_compiles_at_first_is_not_counted_for_every_sweep(monkeypatch):
    cold = Cold(None)
    monkeypatch.setattr(preview, "time", cold)
    monkeypatch.setattr(preview, "_SWEEPS", 10)
    first = preview._Stopwatch(cold)
    with pytest.raises(preview._Enough):
        deque(first(None, number=number, warm=None) for number in range(100))
    assert len(first.seconds) == 10
    assert preview._a_sweep(None, None, first, ended=True) == 0.5


def test_kernels_that_are_compiled_are_no_part_of_the_estimate():
    """The first check on a machine compiles for minutes; the run then finds the kernels."""
    with compiling(time.process_time) as seconds:
        assert seconds() == 0.0
        began = time.process_time()
        numba.njit(lambda x: x + 1.0)(1.0)
        taken = time.process_time() - began
    assert 0.0 < seconds() <= taken


def test_a_run_that_compiles_kernels_says_so_once():
    said = []
    with compiling(time.process_time, said.append):
        numba.njit(lambda x: x + 1)(1)
        numba.njit(lambda x: x + 2)(2)
    numba.njit(lambda x: x + 3)(3)
    assert said == ["compiling kernels, once"]


def test_the_estimate_counts_all_sweeps_of_a_small_fit_and_the_rest(tmp_path, capsys, timed):
    """The sweeps of a search cost more than its first ones, and the report takes time too."""
    path = rows(tmp_path, 60)
    answer = checked(capsys, "experts", path)
    code, out, err = run(capsys, "experts", path, tmp_path / "t", "--json")
    assert code == 0, err
    assert answer["sweeps"] == json.loads(out)["iterations"]
    assert answer["further_fits"] > 0.0, "fits that test this one"
    fits = (1.0 + answer["further_fits"]) * answer["sweeps"] * answer["seconds_a_sweep"]
    assert answer["seconds"] == pytest.approx(answer["seconds_to_read"] + fits + 3.5)
    lines = json.loads(out)["text"].splitlines()
    (summary,) = [line for line in lines if line.startswith("columns: ")]
    used = [one for one in answer["columns"] if one["used"] == "yes"]
    assert summary.startswith(f"columns: {len(used)} of {len(used)} used (")
    assert any(line.startswith("label: label (") for line in lines)
