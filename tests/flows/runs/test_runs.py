"""Runs as things: listed, compared, pruned, their tables shown; by the real commands."""

import csv
import json
import os
import shutil
from operator import itemgetter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.cli import main
from flows.cli.output import print_csv
from flows.keywords.schema import KEYWORDS
from flows.read.rows import rows_of
from flows.records import json_files
from flows.records.runs import RUN, RunPaths, open_run
from flows.runs.resume import Request
from tests.flows.commands import run


def listed(capsys, target, *words):
    code, out, err = run(capsys, "runs", target, "--json", *words)
    assert code == 0, err
    return json.loads(out)


@pytest.fixture(scope="module")
def three(tmp_path_factory):
    """Three runs of which the last took up what the second had kept."""
    folder = tmp_path_factory.mktemp("three")

    def go(*words):
        with pytest.raises(SystemExit) as stopped:
            main(list(words))
        assert stopped.value.code == 0

    go("simulate", "keywords", str(folder / "in"), "--rows", "40")
    arguments = ("keywords", str(folder / "in"), str(folder / "out"), "--set", "keyphrases=12")
    ids = []
    since = ["--since", "latest"]
    for more in (["--set", "fdr=0.2"], since, [*since, "--max-iter", "999"]):
        go(*arguments, *more)
        ids.append(json.loads((folder / "out" / "latest.json").read_text())["run_id"])
    return folder / "out", ids


@pytest.fixture
def target(three, tmp_path):
    """A copy that a test may prune, under the name that kept partitions stand by."""
    place, ids = three
    kept = tmp_path / "kept"
    shutil.copytree(place, kept)
    yield place, ids
    shutil.rmtree(place)
    shutil.copytree(kept, place)


@pytest.mark.thorough
def test_runs_are_listed_newest_first(three, capsys):
    place, ids = three
    printed = listed(capsys, place)
    assert printed["latest"] == ids[-1]
    states = {one["run_id"]: one["state"] for one in printed["runs"]}
    assert states == {ids[0]: "finished", ids[1]: "finished", ids[2]: "latest"}
    (first,) = [one for one in printed["runs"] if one["run_id"] == ids[0]]
    assert first["changed"] == {"keyphrases": 12.0, "fdr": 0.2}
    assert first["rows"] == 40
    assert [one["run_id"] for one in printed["runs"]] == ids[::-1]
    code, out, _ = run(capsys, "runs", place)
    assert code == 0
    assert all(run_id in out for run_id in ids)
    assert "fdr=0.2" in out


def test_a_target_of_another_pipeline_is_refused_and_left_as_it_is(target, capsys, tmp_path):
    place, ids = target
    assert run(capsys, "simulate", "features", tmp_path / "in", "--rows", 20)[0] == 0
    names = sorted(os.listdir(place / "runs"))
    code, _, err = run(capsys, "features", tmp_path / "in", place)
    assert (code, f"found runs of keywords (the latest is {ids[-1]})" in err) == (2, True)
    assert sorted(os.listdir(place / "runs")) == names
    assert json.loads((place / "latest.json").read_text())["run_id"] == ids[-1]


def test_what_is_no_target_is_refused(tmp_path, capsys):
    code, _, err = run(capsys, "runs", tmp_path)
    assert (code, "a target with runs" in err) == (2, True)
    for wrong in ("10", "keep=0", "keep=x", "keep=\u00b2", "drop=3"):
        code, _, err = run(capsys, "runs", tmp_path, "--prune", wrong)
        assert (code, "write --prune keep=10" in err) == (2, True)


def test_every_column_of_a_table_is_explained_once(three, capsys):
    place, _ = three
    meanings = {column.name: column.meaning for column in KEYWORDS.columns}
    code, out, _ = run(capsys, "show", place, "keywords", "--columns", "list", "--json")
    columns = json.loads(out)["columns"]
    assert (code, {one["name"]: one["meaning"] for one in columns}) == (0, meanings)
    code, out, _ = run(capsys, "show", place, "keywords", "--columns", "rank,observed")
    explained = [line.partition(": ")[0] for line in out.splitlines()[-3:-1]]
    assert explained == ["rank", "observed (known)"]
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("folders", "found", "remedy"),
    [
        ((), "no such folder", "give the TARGET of a run"),
        (("out",), "a folder without runs", "vbflows PIPELINE SOURCE"),
        (("out", "out/runs", "out/runs/a"), "runs that have not finished", "--resume RUN_ID"),
    ],
)
def test_a_folder_without_a_finished_run_says_what_to_do(tmp_path, capsys, folders, found, remedy):
    for name in folders:
        (tmp_path / name).mkdir()
    code, _, err = run(capsys, "show", tmp_path / "out")
    assert (code, found in err, remedy in err) == (2, True, True)


def test_rows_of_a_table_are_shown(three, capsys):
    place, _ = three
    code, out, _ = run(capsys, "show", place)
    assert code == 0
    assert f"vbflows show {place} TABLE prints rows of one:\n" in out
    assert f"rows: vbflows show {place} keywords --new --selected\n" in out
    words = ("show", place, "keywords", "--rows", "7", "--sort")
    code, out, _ = run(capsys, *words, "rank", "--json")
    rows = json.loads(out)["rows"]
    folder = open_run(str(place))[0].table("keywords")
    ranks = sorted(pq.read_table(folder)["rank"].to_pylist())
    assert [row["rank"] for row in rows] == ranks[:-8:-1]
    code, out, _ = run(capsys, *words, "-rank", "--json")
    assert [row["rank"] for row in json.loads(out)["rows"]] == ranks[:7]
    code, out, _ = run(capsys, *words[:5], "--json")
    shown = [(not row["observed"], row["probability"]) for row in json.loads(out)["rows"]]
    all_rows = pq.read_table(folder, columns=["observed", "probability"]).to_pylist()
    ranked = sorted(((not r["observed"], r["probability"]) for r in all_rows), reverse=True)
    assert shown == ranked[:7]
    assert any(row["observed"] for row in all_rows)
    every = pq.read_table(folder).num_rows
    assert json.loads(out)["count"] == every
    code, out, _ = run(capsys, *words[:5])
    assert out.splitlines()[-1] == (
        f"7 of {every:,} rows, those that the input listed last; --rows {every} prints all"
    )
    code, out, _ = run(capsys, "show", place, "ask", "--rows", "3")
    assert len(out.splitlines()) > 4
    assert "expected: keyphrases that the model expects" in " ".join(out.split())
    for wrong, meant in ((("keyword",), "keywords"), (("keywords", "--sort", "rnak"), "rank"),
                         (("keywords", "--sort", "-prob"), "probability")):  # fmt: skip
        code, _, err = run(capsys, "show", place, *wrong)
        assert (code, f"did you mean {meant}?" in err) == (2, True)


def test_the_report_is_opened_in_a_browser(three, tmp_path, monkeypatch, capsys):
    target, opened = three[0], tmp_path / "opened"
    (tmp_path / "xdg-open").write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    (tmp_path / "xdg-open").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert run(capsys, "show", target, "--open")[0] == 0
    assert opened.read_text().strip() == open_run(str(target))[0].file("report.html")
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    code, _, said = run(capsys, "show", target, "--open")
    assert (code, "a browser on this machine" in said) == (2, True)


def test_a_table_is_printed_as_csv(three, capsys):
    place, _ = three
    folder = open_run(str(place))[0].table("keywords")
    _, out, _ = run(capsys, "show", place, "--csv")  # of the first table every row
    found = list(csv.reader(out.splitlines()))
    table = pq.read_table(folder)
    assert found[0] == table.column_names
    assert sorted(row[0] for row in found[1:]) == sorted(table["doc_id"].to_pylist())
    words = ("--columns", "doc_id,rank", "--where", "rank<3", "--rows", "2", "--sort", "-rank")
    _, out, _ = run(capsys, "show", place, "keywords", "--csv", *words)
    assert [row[1] for row in csv.reader(out.splitlines())] == ["rank", "1", "1"]
    code, _, err = run(capsys, "show", place, "--csv", "--json")
    assert (code, "one of --csv and --json" in err) == (2, True)


def test_cells_of_several_values_or_none_are_written_in_csv(capsys):
    print_csv(pa.table({"a": [["x", "y, z"], []], "b": [None, 0.1]}))
    assert capsys.readouterr().out == 'a,b\n"x; y, z",\n,0.1\n'


def test_a_column_that_is_named_twice_is_printed_once(three, capsys):
    words = ("show", three[0], "keywords", "--csv", "--rows", "1", "--columns", "rank, words,rank")
    heads, cells = run(capsys, *words)[1].splitlines()
    assert (heads, cells.count(",")) == ("rank,words", 1)


def test_no_rows_say_which_condition_none_holds_and_what_is_there(three, capsys):
    place, _ = three
    name = pq.read_table(open_run(str(place))[0].table("keywords"))["doc_id"][0].as_py()
    for where, said in (
        (("doc_id=nothing at all",), "no rows: no doc_id is nothing at all; there are "),
        (("words=1", f"doc_id={name[:-1]}"), f"; did you mean {name[:5]}"),
        (("probability>2",), "no rows with probability>2"),
    ):
        options = [part for one in where for part in ("--where", one)]
        code, out, _ = run(capsys, "show", place, "keywords", *options)
        assert (code, said in out) == (0, True), out


def test_options_of_rows_without_a_table_are_of_the_first_and_refused_with_a_list(three, capsys):
    place, _ = three
    options = ("--where", "rank=1"), ("--columns", "term"), ("--new",), ("--selected",)
    options += ("--rows", "3"), ("--sort", "rank")
    for option in options:
        shown = run(capsys, "show", place, *option)
        assert shown == run(capsys, "show", place, "keywords", *option)
        assert shown[0] == 0
    for option in (options[0], *options[2:]):
        code, out, err = run(capsys, "show", place, "keywords", "--columns", "list", *option)
        assert (code, out) == (2, "")
        assert "--columns list: expected no condition and no order" in err
        assert f"found {option[0]}" in " ".join(err.split())


def test_a_run_lists_the_columns_of_all_its_tables(three, capsys):
    place, _ = three
    code, out, _ = run(capsys, "show", place, "--columns", "list")
    assert code == 0
    assert "\nkeywords:\n" in out
    assert "doc_id (document): text: name of the document" in " ".join(out.split())
    code, out, _ = run(capsys, "show", place, "--columns", "list", "--json")
    assert {"ask", "keywords"} <= set(json.loads(out)["tables"])
    code, out, _ = run(capsys, "show", place)
    assert "keywords (" in out
    assert "): Every candidate (one to four words) of every document" in out
    code, _, err = run(capsys, "show", f"{place}/runs/20200101T000000-abcdef")
    assert (code, ": no run 20200101T000000-abcdef; the latest is " in err) == (2, True)


def test_rows_are_filtered_by_conditions_that_all_hold(three, capsys):
    place, _ = three
    every = pq.read_table(open_run(str(place))[0].table("keywords")).to_pylist()
    name = every[0]["doc_id"]

    def shown(*options, table="keywords"):
        words = ("show", place, table, "--rows", "100000", "--json")
        code, out, err = run(capsys, *words, *options)
        return json.loads(out)["rows"] if code == 0 else err

    def same(rows, holds):
        key = itemgetter("doc_id", "term")
        assert sorted(rows, key=key) == sorted(filter(holds, every), key=key)
        assert 0 < len(rows) < len(every)

    same(shown("--where", f"doc_id={name}"), lambda row: row["doc_id"] == name)
    both = ("--where", f"doc_id = {name}", "--where", "probability>0.01", "--where", "words<2")
    same(
        shown(*both),
        lambda row: row["doc_id"] == name and row["probability"] > 0.01 and row["words"] < 2,
    )
    same(shown("--new"), lambda row: not row["observed"])
    same(shown("--selected"), lambda row: row["selected"])
    same(shown("--where", "observed=yes", "--selected"), lambda row: row["observed"])
    assert shown("--where", "term=") == []
    for options, said in (
        (("--where", "term==x"), "expected COLUMN=VALUE, COLUMN<VALUE or COLUMN>VALUE"),
        (("--where", "rank"), "expected COLUMN=VALUE, COLUMN<VALUE or COLUMN>VALUE"),
        (("--where", "rnak=1"), "did you mean rank?"),
        (("--where", "rank=x"), "expected a number, found 'x'"),
        (("--where", "observed=maybe"), "expected yes or no, found 'maybe'"),
    ):
        assert said in shown(*options)
    assert "expected a column observed for --new" in shown("--new", table="ask")


@pytest.mark.thorough
def test_pruning_keeps_what_since_needs(target, capsys):
    place, ids = target
    code, out, _ = run(capsys, "runs", place, "--prune", "keep=1")
    # The latest run took up partitions that stand in the second one's folder.
    assert (code, out) == (0, f"removed {ids[0]}\n1 run removed\n")
    assert sorted(os.listdir(place / "runs")) == sorted(ids[1:])
    code, out, _ = run(capsys, "keywords", place.parent / "in", place, "--since", "latest",
                       "--set", "keyphrases=12", "--json")  # fmt: skip
    assert code == 0
    assert not any("again" in warning for warning in json.loads(out)["warnings"])


def test_pruning_keeps_the_latest_and_what_is_not_finished(target, capsys):
    place, ids = target
    (place / "latest.json").write_text(
        json.dumps({"run_id": ids[0], "pipeline": "keywords"})
    )  # as after a run was published again
    unfinished = place / "runs" / "20200101T000000-aaaaaa" / "work"
    unfinished.mkdir(parents=True)
    request = Request(pipeline="keywords", settings={"keyphrases": 7}, since=ids[1], inputs={})
    json_files.write(str(unfinished / "request.json"), request)
    storage.own(str(unfinished.parent), RUN)
    storage.own(str(place / "runs" / "20200101T000000-bbbbbb"), RUN)  # a removal that was stopped
    (place / "runs" / "not a run").mkdir()
    changed = {one["run_id"]: one["changed"] for one in listed(capsys, place)["runs"]}
    assert changed["20200101T000000-aaaaaa"] == {"keyphrases": 7}
    printed = listed(capsys, place, "--prune", "keep=1")
    assert printed["removed"] == ["20200101T000000-bbbbbb"]
    assert {ids[0], ids[1], ids[2], "20200101T000000-aaaaaa", "not a run"} == set(
        os.listdir(place / "runs")
    )


def test_pruning_leaves_what_no_run_made(target, capsys, tmp_path):
    place, ids = target
    runs = place / "runs"
    (runs / "20190101T000000-aaaaaa").mkdir()
    (runs / "20190101T000000-aaaaaa" / "thesis.tex").write_text("mine")
    (runs / "20190102T000000-aaaaaa").write_text("a file")
    elsewhere = tmp_path / "elsewhere" / "20190103T000000-aaaaaa"
    shutil.copytree(runs / ids[0], elsewhere)
    (runs / "20190103T000000-aaaaaa").symlink_to(elsewhere)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    (runs / ids[0] / "link").symlink_to(mine)
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    printed = listed(capsys, place, "--prune", "keep=1")
    assert printed["removed"] == [ids[0]]
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert (runs / "20190101T000000-aaaaaa" / "thesis.tex").read_text() == "mine"
    assert (runs / "20190102T000000-aaaaaa").read_text() == "a file"
    assert (runs / "20190103T000000-aaaaaa").is_symlink()
    assert (elsewhere / "run.json").exists()
    assert not (runs / ids[0]).exists()
    for path in runs.glob("2019*"):
        path.unlink() if not path.is_dir() or path.is_symlink() else shutil.rmtree(path)


@pytest.mark.parametrize("link", [False, True])
def test_a_folder_that_no_run_made_is_not_resumed(tmp_path, capsys, link):
    source, out = tmp_path / "in", tmp_path / "out"
    run(capsys, "simulate", "features", source, "--rows", "20")
    work = out / "runs" / "thesis" / "work"
    work.parent.mkdir(parents=True)
    mine = tmp_path / "mine" if link else work
    mine.mkdir()
    if link:
        storage.own(str(work.parent), RUN)
        work.symlink_to(mine)
    for file in (mine / "notes.tex", work.parent / "notes.tex"):
        file.write_text("mine")
    words = ("features", source, out, "--resume", "thesis")
    code, _, err = run(capsys, *words)
    assert (code, "which no run made, or a link" in err) == (2, True)
    for file in (mine / "notes.tex", work.parent / "notes.tex"):
        assert file.read_text() == "mine"


def test_pruning_is_taken_up_where_it_was_stopped(target, capsys, monkeypatch):
    from flows import storage
    from flows.runs import listing as runs

    place, ids = target
    for run_id in ids[1:]:
        shutil.rmtree(place / "runs" / run_id / "kept")
    delete = storage.delete

    def stops(url):
        delete(url)
        raise storage.StorageError("the store is gone")

    monkeypatch.setattr(storage, "delete", stops)
    with pytest.raises(storage.StorageError):
        runs.prune(str(place), 1)
    monkeypatch.undo()
    assert not (place / "runs" / ids[0] / "run.json").exists()
    assert [one["state"] for one in listed(capsys, place)["runs"]][-1] == "remains"
    assert listed(capsys, place, "--prune", "keep=1")["removed"] == ids[:2]
    assert os.listdir(place / "runs") == [ids[2]]


def test_of_a_part_only_what_is_shown_or_counted_is_read(tmp_path, monkeypatch):
    """Rows with the largest probability are in one part of three: of the others one column."""
    paths = RunPaths(str(tmp_path), "r1")
    for part in range(3):
        rows = {"id": [f"{part}-{i}" for i in range(4)], "x": [part] * 4}
        probability = [0.1 * part + 0.01 * i for i in range(4)]
        table = pa.table({**rows, "probability": probability})
        storage.write_table(paths.table("rows", part), table)
    read, original = [], storage.read_table
    monkeypatch.setattr(
        storage, "read_table", lambda url, columns: read.append(columns) or original(url, columns)
    )
    found, count = rows_of(paths, "rows", "", 2, "x,id", ["probability>0"])
    assert (found["id"].to_pylist(), count) == (["2-3", "2-2"], 11)
    assert found.column_names == ["x", "id"]
    assert read == [["probability"]] * 3 + [["x", "id"]]
    found, count = rows_of(paths, "rows", "-x", 5, "id")
    assert found["id"].to_pylist() == ["0-0", "0-1", "0-2", "0-3", "1-0"]
    assert count == 12
