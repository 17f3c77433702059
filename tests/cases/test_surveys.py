"""Surveys as they are exported: several answers in a cell, boxes to tick, and free text."""

import csv
import json
import warnings

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from flows.features.input.coding import read_dictionary
from flows.records.runs import RunPaths, latest_of
from tests.flows.commands import run
from tests.flows.experts.runs import latest
from vbmodels.estimators import LatentFeatures

HOW, WHY = "How do you travel? (select all that apply)", "Why so?"
OPTIONS = ("Bus", "Train", "Bicycle", "Car", "Walking")
QUICK = ("--set", "n_features=2", "--set", "starts=1")


def travellers(n=240, mark=", ", end="", seed=0):
    """Return who travels how: two kinds of people, of whom some write an answer of their own."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        one = rng.random() < 0.5
        given = [
            w for j, w in enumerate(OPTIONS) if rng.random() < (0.8 if (j < 3) == one else 0.1)
        ]
        given += [f"my own way {i}"] if rng.random() < 0.05 else []
        given = [] if rng.random() < 0.05 else given
        likes = "Agree" if one ^ (rng.random() < 0.1) else "Agree, not always"
        said = f"I have {i} things to say about this" if rng.random() < 0.3 else "all good"
        rows.append({HOW: mark.join(given) + end * bool(given), WHY: likes, "Any comments?": said})
    return rows


def written(path, rows):
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def checked(capsys, path, *more):
    code, said, err = run(capsys, "check", "features", path, "--json", *more)
    assert code == 0, err
    return json.loads(said)


@pytest.mark.parametrize(
    ("mark", "end"), [(", ", ""), (",", ""), (";", ";"), ("\n", ""), ("|", "")]
)
def test_every_answer_that_is_not_rare_is_a_column(mark, end, tmp_path, capsys):
    rows = travellers(mark=mark, end=end)
    found = checked(capsys, written(tmp_path / "t.csv", rows))
    columns = {one["name"]: one for one in found["columns"]}
    for option in OPTIONS:
        yes = sum(option in row[HOW] for row in rows)
        one = columns[f"{HOW} [{option}]"]
        gone = sum(not row[HOW] for row in rows)
        assert one["used"] == "yes"
        assert one["holds"] == f"yes {yes}, no {len(rows) - yes - gone}"
        assert one["missing"] == gone
    assert sum(name.startswith(HOW) for name in columns) == len(OPTIONS)
    assert columns[WHY]["read_as"] == "category"  # a comma within an answer
    assert columns["Any comments?"]["used"].startswith("left out: text")
    (said,) = [line for line in found["warnings"] if "several answers" in line]
    cells = sum(len(row[HOW].strip(mark).split(mark.strip(" "))) > 1 for row in rows)
    assert f"{cells} cells hold several answers, set apart by {mark.strip(' ')!r}" in said
    assert "5 answers are columns of yes and no" in said
    assert "my own way" in said


@pytest.mark.parametrize(
    "answers",
    [
        ["Agree", "Agree, strongly", "Disagree", "Disagree, strongly", "Neither"],
        ["Lyon, France", "Paris, France", "Bonn, Germany", "Berlin, Germany", "Malta"],
        ["Bachelor (B.A., B.S., etc.)", "Master (M.A., M.S., etc.)", "None", "Doctor"],
        ["Full-time, permanent", "Full-time, temporary", "Part-time, permanent", "Student"],
    ],
)
def test_a_mark_within_one_answer_sets_nothing_apart(answers, tmp_path, capsys):
    rng = np.random.default_rng(1)
    rows = [{"a": str(rng.choice(answers)), "b": "xy"[i % 2]} for i in range(100)]
    found = checked(capsys, written(tmp_path / "t.csv", rows))
    assert [one["name"] for one in found["columns"]] == ["a", "b"]
    assert not any("several answers" in line for line in found["warnings"])


def test_a_column_named_in_categories_stays_whole(tmp_path, capsys):
    path = written(tmp_path / "t.csv", travellers())
    found = checked(capsys, path, "--set", f"categories={HOW}")
    assert HOW in [one["name"] for one in found["columns"]]


def fitted(capsys, source, target, *more):
    code, _, err = run(capsys, "features", source, target, *QUICK, *more)
    assert code == 0, err
    return latest(target)[0]


def test_new_rows_are_split_as_in_the_fit_and_new_answers_are_said(tmp_path, capsys):
    rows = travellers()
    folder = fitted(capsys, written(tmp_path / "t.csv", rows), tmp_path / "out")
    before = pq.read_table(folder / "rows").to_pandas()
    again = [{**row, HOW: row[HOW].lower()} for row in rows[:60]]
    again[0][HOW] += ", helicopter"
    new = written(tmp_path / "t2.csv", again)
    code, said, err = run(capsys, "score", tmp_path / "out", new, tmp_path / "new", "--json")
    assert code == 0, err
    after = pq.read_table(latest(tmp_path / "new")[0] / "rows").to_pandas()
    np.testing.assert_allclose(after.iloc[:, 1:], before.iloc[:60, 1:])
    (line,) = [line for line in json.loads(said)["warnings"] if "never saw" in line]
    assert "helicopter" in line
    assert "my own way" not in line
    codes = written(tmp_path / "t3.csv", [{**row, HOW: "1,2"} for row in rows[:60]])
    code, _, err = run(capsys, "score", tmp_path / "out", codes, tmp_path / "odd")
    assert code == 2
    assert "'1'" in err


def test_partitions_and_later_files_do_not_change_which_columns_are_split(tmp_path, capsys):
    rows = travellers()
    rows.sort(key=lambda row: row[HOW].count(","))  # the first partition has no several answers
    whole = written(tmp_path / "t.csv", rows)
    files = tmp_path / "in"
    files.mkdir()
    written(files / "a.csv", rows[:120])
    fitted(capsys, whole, tmp_path / "one")
    fitted(capsys, files, tmp_path / "two", "--set", "partitions=2")
    written(files / "b.csv", rows[120:])
    more = ("--set", "partitions=3", "--since", "latest")
    fitted(capsys, files, tmp_path / "two", *more)
    known = [dictionary(tmp_path / name) for name in ("one", "two")]
    assert known[0] == known[1]
    assert sum(column.question == HOW for column in known[0]) == len(OPTIONS)


def dictionary(target):
    paths = RunPaths(str(target), latest_of(str(target)))
    return read_dictionary(paths, work=False)


BOXES = ("CARE[SQ001]", "CARE[SQ002]", "CARE[SQ003]")


def parents(n=300):
    rng = np.random.default_rng(2)
    rows = []
    for _ in range(n):
        has = rng.random() < 0.5
        boxes = {b: ("Y" if rng.random() < 0.4 else "") if has else "N/A" for b in BOXES}
        rows.append({"CHILDREN": "NY"[has], "ATT": f"A{rng.integers(1, 4)}", **boxes})
    return rows


def test_a_blank_box_is_a_no_and_one_that_was_not_asked_is_missing(tmp_path, capsys):
    rows = parents()
    found = checked(capsys, written(tmp_path / "t.csv", rows))
    columns = {one["name"]: one for one in found["columns"]}
    gone = sum(row["CHILDREN"] == "N" for row in rows)
    for box in BOXES:
        yes = sum(row[box] == "Y" for row in rows)
        assert columns[box]["holds"] == f"yes {yes}, no {len(rows) - yes - gone}"
        assert columns[box]["missing"] == gone
        assert columns[box]["used"] == "yes"
    assert any("Skipped questions are not filled" in line for line in found["warnings"])


def test_boxes_are_read_alike_in_any_partition_and_in_new_rows(tmp_path, capsys):
    rows = parents()
    rows.sort(key=lambda row: row["CHILDREN"])  # the first partition asks nobody
    path = written(tmp_path / "t.csv", rows)
    one = fitted(capsys, path, tmp_path / "one")
    two = fitted(capsys, path, tmp_path / "two", "--set", "partitions=4")
    tables = [pq.read_table(folder / "rows").to_pandas() for folder in (one, two)]
    known = [dictionary(tmp_path / name) for name in ("one", "two")]
    assert known[0] == known[1]
    new = written(tmp_path / "new.csv", rows[:20])
    code, _, err = run(capsys, "score", tmp_path / "one", new, tmp_path / "new")
    assert code == 0, err
    after = pq.read_table(latest(tmp_path / "new")[0] / "rows").to_pandas()
    np.testing.assert_allclose(after.iloc[:, 1:], tables[0].iloc[:20, 1:], rtol=1e-6)


def test_the_estimator_reads_surveys_as_the_command(tmp_path, capsys):
    rows = [{**one, **two} for one, two in zip(travellers(), parents(240), strict=True)]
    found = checked(capsys, written(tmp_path / "t.csv", rows))
    table = pd.DataFrame(rows)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LatentFeatures(2, random_state=0).fit(table)
    parts = ("name", "read_as", "missing", "holds", "used")
    assert [tuple(one[p] for p in parts) for one in found["columns"]] == [
        tuple(row) for row in model.columns_[[*parts]].itertuples(index=False)
    ]
    said = [str(one.message) for one in caught]
    assert [line for line in found["warnings"] if "several answers" in line] == [
        line for line in said if "several answers" in line
    ]
    filled = model.impute(table)[HOW]
    assert set(filled[table[HOW] != ""]) <= set(table[HOW])
    assert all(part in OPTIONS for cell in filled[table[HOW] == ""] for part in cell.split(", "))
    table.loc[0, HOW] = "BUS, helicopter"
    with pytest.warns(match="never saw.*helicopter"):
        model.transform(table)


AGREE = {
    "en": ["Strongly disagree", "Disagree", "Agree", "Strongly agree", "Not applicable"],
    "de": ["Stimme nicht zu", "Teils/teils", "Stimme zu", "Entfällt"],
    "es": ["Muy insatisfecho", "Insatisfecho", "Satisfecho", "Muy satisfecho", "No aplica"],
    "fr": ["Jamais", "Rarement", "Souvent", "Toujours", "Sans objet"],
}


@pytest.mark.parametrize("language", AGREE)
def test_what_does_not_apply_stands_beside_a_scale(language, tmp_path, capsys):
    words = AGREE[language]
    rng = np.random.default_rng(3)
    rows = [{f"q{d}": str(rng.choice(words)) for d in range(4)} for _ in range(200)]
    path = written(tmp_path / "t.csv", rows)
    found = checked(capsys, path)
    count = sum(row["q0"] == words[-1] for row in rows)
    first = f"ordered category (missing: {words[-1]!r} {count}"
    assert found["columns"][0]["read_as"] == f"{first}, {words[0]} to {words[-2]})"
    fitted(capsys, path, tmp_path / "out")
    known = dictionary(tmp_path / "out")
    assert all(set(column.ordered) == set(column.levels) == {*words[:-1]} for column in known)
    whole = checked(capsys, path, "--set", "categories=q0")
    assert words[-1] in whole["columns"][0]["holds"] or "5 levels" in whole["columns"][0]["holds"]
    assert LatentFeatures(1).fit(pd.DataFrame(rows)).categories_[0].count(words[-1]) == 0


def test_events_of_redcap_are_named_with_what_to_do(tmp_path, capsys):
    rows = [
        {"record_id": i, "redcap_event_name": event, "q1": "ab"[i % 2], "q2": "xyz"[i % 3]}
        for i in range(60)
        for event in ("baseline_arm_1", "month_3_arm_1")
    ]
    path = written(tmp_path / "t.csv", rows)
    code, _, err = run(capsys, "check", "features", path)
    assert code == 2
    assert "2 values: baseline_arm_1, month_3_arm_1" in err
    assert "a row for each value of record_id, a column for each of redcap_event_name" in err
    with pytest.raises(ValueError, match="redcap_event_name"):
        LatentFeatures(2).fit(pd.DataFrame(rows).astype(str))
    one = written(tmp_path / "one.csv", rows[::2])
    assert [c["used"] for c in checked(capsys, one)["columns"]][-2:] == ["yes", "yes"]


@pytest.mark.parametrize(("yes", "no"), [("1", "0"), ("Checked", "Unchecked")])
def test_boxes_of_redcap_are_yes_or_no(yes, no, tmp_path, capsys):
    rng = np.random.default_rng(4)
    rows = [{f"q3___{d}": yes if rng.random() < 0.4 else no for d in range(3)} for _ in range(80)]
    found = checked(capsys, written(tmp_path / "t.csv", rows))
    assert [one["read_as"] for one in found["columns"]] == ["yes/no"] * 3


def test_codes_of_several_answers_are_split_as_words_are(tmp_path, capsys):
    rng = np.random.default_rng(5)
    rows = [
        {"Q1": ",".join(code for code in "12345" if rng.random() < 0.5), "Q2": "ab"[i % 2]}
        for i in range(200)
    ]
    found = checked(capsys, written(tmp_path / "t.csv", rows))
    names = [one["name"] for one in found["columns"] if one["used"] == "yes"]
    assert sorted(names) == [*(f"Q1 [{code}]" for code in "12345"), "Q2"]
    with pytest.warns(match="Q1: .* cells hold several answers"):
        LatentFeatures(1).fit(pd.DataFrame(rows))


def test_long_names_are_shown_without_what_they_have_in_common(tmp_path, capsys):
    start = "Please rate each of the following statements about your work"
    rows = [
        {f"<p>{start} - <b>I like it</b></p>": "ab"[i % 2], f"{start} - It pays": "ab"[i % 3 % 2]}
        for i in range(40)
    ]
    code, said, _ = run(capsys, "check", "features", written(tmp_path / "t.csv", rows))
    assert code == 0
    assert [line.split("  ")[0] for line in said.splitlines()[2:4]] == ["I like it", "It pays"]


def test_what_is_written_beside_other_is_free_text(tmp_path, capsys):
    rng = np.random.default_rng(5)
    rows = [
        {
            "CARE[SQ001]": rng.choice(["Y", ""]),
            "CARE[SQ002]": rng.choice(["Y", ""]),
            "CARE[other]": f"aunt {i}" if i % 20 == 0 else "",
        }
        for i in range(200)
    ]
    columns = {
        one["name"]: one for one in checked(capsys, written(tmp_path / "t.csv", rows))["columns"]
    }
    assert columns["CARE[other]"]["used"].startswith("left out: text")
    assert columns["CARE[SQ001]"]["read_as"].startswith("yes/no")


SIZES = ["S", "M", "L", "XL"]


def test_an_order_is_given_by_naming_the_answers_from_low_to_high(tmp_path, capsys):
    rng = np.random.default_rng(6)
    rows = [
        {
            "size": str(rng.choice(SIZES)),
            "rank": str(rng.integers(1, 4)),
            "often": str(rng.choice(["Never", "Sometimes", "Always"])),
        }
        for _ in range(120)
    ]
    path = written(tmp_path / "t.csv", rows)
    fitted(capsys, path, tmp_path / "out", "--set", "ordered=size:S,M,L,XL,rank:3,2,1")
    size, rank, often = dictionary(tmp_path / "out")
    assert size.ordered == ("S", "M", "L", "XL")
    assert dict(zip(size.levels, size.points.tolist(), strict=True))["XL"] == 4.0
    assert rank.ordered == ("3", "2", "1")
    assert dict(zip(rank.levels, rank.points.tolist(), strict=True))["3"] == 1.0
    assert often.ordered == ("Never", "Sometimes", "Always")  # as without the setting
    code, _, err = run(capsys, "check", "features", path, "--set", "ordered=size:S,M,L")
    assert code == 2
    assert "ordered=size:LOW,...,HIGH" in err
    code, _, err = run(capsys, "check", "features", path, "--set", "ordered=sise:S,M,L,XL")
    assert code == 2
    assert "size" in err
