"""Tables as people have them: weights of rows, names in other letters, later cells, a folder.

How a check reads each column, or what it refuses, is recorded: tests/sentences/shapes.py.
"""

import json
import random
import re
import shlex

import pytest

from tests.flows.commands import run
from tests.sentences.shapes import PLAIN, answers, text_of

QUICK = {"experts": ("--set", "baselines=no", "--set", "n_experts=1"), "features": ()}


def test_new_data_with_a_name_in_other_letters_says_which_is_meant(tmp_path, capsys):
    for name, heading in (("fit", "bmi"), ("new", "BMI")):
        (tmp_path / f"{name}.csv").write_text(text_of(PLAIN, (heading, "z", "label")))
    code, _, err = run(capsys, "experts", tmp_path / "fit.csv", tmp_path / "out", *QUICK["experts"])
    assert code == 0, err
    code, _, err = run(capsys, "score", tmp_path / "out", tmp_path / "new.csv", tmp_path / "new")
    assert code == 2
    said = "1 of the 2 columns of the fitted run of experts is missing: bmi; if BMI is bmi"
    assert f"{said}, rename it" in " ".join(err.split())


def weighted_rows(n=300):
    """Return rows of x, z, q1 to q4, a weight of 1, 2 or 3, and a label that goes with x."""
    rng = random.Random(0)
    rows = []
    for _ in range(n):
        x, one = rng.gauss(0, 1), rng.random() < 0.4
        items = ["ab"[one ^ (rng.random() < 0.05)] for _ in range(4)]
        yes = rng.random() < 1.0 / (1.0 + 2.718 ** (2.0 * x))
        rows.append([x, rng.gauss(0, 1), *items, 3 if one else rng.choice([1, 2]), "yn"[yes]])
    return rows


@pytest.mark.parametrize("pipeline", ["experts", "features"])
def test_rows_are_weighted_and_the_effective_size_is_said(pipeline, tmp_path, capsys):
    rows = weighted_rows()
    path = tmp_path / "t.csv"
    path.write_text(text_of(rows, ("x", "z", "q1", "q2", "q3", "q4", "w", "label")))
    out = tmp_path / "out"
    options = ("--json", *QUICK[pipeline])
    code, said, err = run(capsys, pipeline, path, out, "--column", "weight=w", *options)
    assert code == 0, err
    found = json.loads(said)
    weights = [r[6] for r in rows]
    effective = sum(weights) ** 2 / sum(w * w for w in weights)
    assert any(f"effective sample size of {effective:,.0f}" in w for w in found["warnings"])
    if pipeline == "experts":
        assert found["results"]["counts"]["effective"] == pytest.approx(effective)
    else:
        text = found["text"]
        assert f"effective sample size {effective:,.0f}" in text
    assert [c["used"] for c in found["columns"] if c["name"] == "w"] == ["weight of the row"]
    unweighted = text_of(
        [[*r[:6], r[7]] for r in rows], ("x", "z", "q1", "q2", "q3", "q4", "label")
    )
    (tmp_path / "new.csv").write_text(unweighted)
    code, _, err = run(capsys, "score", out, tmp_path / "new.csv", tmp_path / "new")
    assert code == 0, err


@pytest.mark.parametrize("pipeline", ["experts", "features"])
def test_a_weight_that_is_no_number_is_named(pipeline, tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text(text_of([[*weighted_rows()[0][:6], "heavy", "y"]] * 9, "xzabcdwl"))
    code, _, err = run(capsys, pipeline, path, tmp_path / "out", "--column", "weight=w")
    assert code == 2
    assert "column w, row 1: expected a number, found 'heavy'" in err


@pytest.mark.parametrize("pipeline", ["experts", "features"])
def test_weights_of_a_file_with_semicolons_may_have_decimal_commas(pipeline, tmp_path, capsys):
    cells = [
        ["a" if i % 3 else "b", "uv"[i % 4 < 2], f"{1 + i % 2},5", "yn"[i % 5 < 2]]
        for i in range(60)
    ]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(";".join(row) for row in [["p", "q", "w", "label"], *cells]))
    code, said, err = run(capsys, "check", pipeline, path, "--column", "weight=w")
    assert code == 0, err
    assert "an effective sample size of 56" in said + err  # 60 of 1.5 and 2.5
    path.write_text(path.read_text().replace("2,5", ".", 1))
    code, _, err = run(capsys, "check", pipeline, path, "--column", "weight=w")
    assert code == 2
    assert err.count("expected a number") == 1
    path.write_text(path.read_text().replace("2,5", "2.5"))
    code, _, err = run(capsys, "check", pipeline, path, "--column", "weight=w")
    assert code == 2
    assert "column w, row 1: expected a number, found '1,5'" in err


def test_what_is_advised_of_a_column_can_be_pasted_whatever_its_name(tmp_path, capsys):
    """And cells that say in German that there is no number are missing."""
    name, rows = "Alter (in Jahren)", [[f"{i}.5", "yn"[i % 2]] for i in range(60)]
    path = tmp_path / "t.csv"
    rows[3][0] = "#NV"
    path.write_text(text_of(rows, (name, "label")))
    assert run(capsys, "check", "experts", path)[0] == 0
    rows[5][0], rows[6][0] = "alt", "jung"
    path.write_text(text_of(rows, (name, "label")))
    code, _, err = run(capsys, "check", "experts", path)
    assert code == 2
    advised = shlex.split(re.search(r"--set '?categories=[^']*'?", err)[0])
    assert advised == ["--set", f"categories={name}"]


def test_shares_of_features_are_of_the_population_where_rows_are_weighted(tmp_path, capsys):
    """Every row with the feature weighs 3, others 1 or 2; the same weight for all says nothing."""
    rows = [[*r, 7.0] for r in weighted_rows()]
    names = ("x", "z", "q1", "q2", "q3", "q4", "w", "label", "one")
    path = tmp_path / "t.csv"
    path.write_text(text_of(rows, names))
    found = {}
    for name in ("w", "one"):
        rest = ",".join({"x", "z", "label", "w", "one"} - {name})
        code, said, err = run(
            capsys, "features", path, tmp_path / name, "--column", f"weight={name}",
            "--exclude", rest, "--json",
        )  # fmt: skip
        assert code == 0, err
        found[name] = json.loads(said)
    code, said, err = run(
        capsys, "features", path, tmp_path / "plain", "--exclude", "x,z,label,w,one", "--json"
    )
    assert code == 0, err
    plain = json.loads(said)
    assert found["one"]["elbo"] == pytest.approx(plain["elbo"], rel=1e-12)
    heavy = sum(r[6] for r in rows if r[2:6].count("b") > 2) / sum(r[6] for r in rows)
    share = found["w"]["results"]["features"][0]["share"]["value"]
    assert min(abs(share - heavy), abs(share - 1.0 + heavy)) < 0.02
    assert abs(heavy - sum(r[2:6].count("b") > 2 for r in rows) / len(rows)) > 0.1


def test_a_later_cell_with_another_decimal_sign_is_refused_with_its_row(
    tmp_path, monkeypatch, capsys
):
    """What the first rows of bags show holds for all, in whatever pieces they are read."""
    monkeypatch.setattr("flows.bags.input.roles.LOOKED", 8)
    path = tmp_path / "t.csv"
    cells = ["1,234" if i > 30 else f"{i % 9},5" for i in range(60)]
    rows = [f'b{i // 2},{i // 2 % 2},"{cell}"' for i, cell in enumerate(cells)]
    path.write_text("\n".join(["bag_id,label,x", *rows, ""]))
    options = ["--set", "model=embedding"]
    _, out, _ = run(capsys, "check", "bags", path, *options, "--set", "partitions=2")
    assert "a decimal comma: 60 cells of x" in out
    assert "'1,234' in row 32 of t.csv (28 more cells like it) is read as 1.234" in out
    path.write_text(path.read_text().replace('"8,5"', "0.5"))
    code, _, err = run(capsys, "check", "bags", path, *options)
    text = " ".join(err.split())
    assert code == 2
    assert "column x, row 9" in text
    assert "with a decimal comma as in the first rows, found '0.5'" in text
    assert "--set decimal=." in text


def test_a_folder_takes_endings_in_capitals_and_says_what_it_leaves(tmp_path, capsys, caplog):
    for name in ("a.csv", "B.CSV", "notes.txt", "README.md"):
        (tmp_path / name).write_text(answers())
    (tmp_path / "~$a.xlsx").write_bytes(b"lock")
    code, out, err = run(capsys, "check", "experts", tmp_path)
    text = " ".join((out + err).split())
    assert code == 0, text
    assert "120 rows in 2 files" in text
    assert "notes.txt in the folder" in caplog.text


def with_commas(path, separator, weights):
    """Write a table whose numbers have a decimal comma, and return where it is."""
    lines = [separator.join(["x", "label", "w"])]
    for i, weight in enumerate(weights):
        cells = [f"{i % 7},5", "yn"[i % 2], weight]
        lines.append(separator.join(f'"{cell}"' for cell in cells))
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("separator", "weight", "more"),
    [
        (";", "1,234", ()),
        ("\t", "1,5", ()),
        ("\t", "0,823", ()),
        (",", "1,2345", ()),
        ("\t", "1,234", ("--set", "decimal=,")),
    ],
)
def test_weights_may_have_a_decimal_comma(separator, weight, more, tmp_path, capsys):
    path = with_commas(tmp_path / "table.csv", separator, [weight, "2"] * 60)
    options = ("--json", "--column", "weight=w", *QUICK["experts"], *more)
    code, said, err = run(capsys, "experts", path, tmp_path / "out", *options)
    assert code == 0, err
    weights = [float(weight.replace(",", ".")), 2.0]
    effective = 60 * sum(weights) ** 2 / sum(w * w for w in weights)
    assert json.loads(said)["results"]["counts"]["effective"] == pytest.approx(effective)


def test_a_comma_that_may_set_thousands_apart_is_no_number(tmp_path, capsys):
    path = with_commas(tmp_path / "table.csv", "\t", ["1,234", "2"] * 60)
    code, _, err = run(capsys, "check", "experts", path, "--column", "weight=w")
    assert code == 2
    assert "column w, row 1: expected a number, found '1,234'" in err


def test_a_column_that_a_strict_check_refuses_is_left_out_as_it_says(tmp_path, capsys):
    path = tmp_path / "t.csv"
    path.write_text(
        text_of([[f"{i % 9}.5", "x", "yn"[i % 2]] for i in range(60)], ("a", "b (alt)", "label"))
    )
    code, _, err = run(capsys, "check", "experts", path, "--strict")
    assert code == 2
    advised = shlex.split(re.search(r"exclude it \((.*)\)", err)[1])
    assert advised == ["--exclude", "b (alt)"]
    assert run(capsys, "check", "experts", path, "--strict", *advised)[0] == 0
