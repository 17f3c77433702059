"""Columns whose answers have an order: found, named by the user, and described by direction."""

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

from flows.features.meaning import NamePart, features_of, meaning_sums
from tests.flows.commands import printed, refused, setting_args, succeed
from tests.flows.experts.runs import latest, written
from vbmodels.features.forms import Stability

AGREE = ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"]
OFTEN = ["never", "rarely", "sometimes", "often", "always"]


def likert(rows=300, seed=0):
    """A quarter of the rows agrees more with cheap and fast, and seldom complains."""
    rng = np.random.default_rng(seed)
    z = rng.random(rows) < 0.25

    def answers(up, words):
        place = np.clip(rng.normal(1.3 + up * z, 0.6).round(), 0, 4).astype(int)
        return [words[p] for p in place]

    points = np.clip(rng.normal(1.5 + 2 * z, 0.7).round(), 0, 4).astype(int) + 1
    return z, {
        "id": [f"r{i}" for i in range(rows)],
        "cheap": answers(2.2, AGREE),
        "fast": answers(2.2, AGREE),
        "kind": answers(2.0, AGREE),
        "complains": answers(2.0, OFTEN),
        "points": [str(p) for p in points],
        "colour": [str(c) for c in rng.choice(["red", "green", "blue"], rows)],
        "remark": [f"what person {i} wrote of it in many words" for i in range(rows)],
    }


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ordered")
    source = written(folder, likert()[1])
    succeed("features", source, folder / "out", *setting_args("n_features=3", "tol=1e-4"))
    return latest(folder / "out")


def test_a_feature_is_described_by_the_direction_of_its_answers(found):
    _, record = found
    (feature,) = record["results"]["features"]
    named = {one["scale"]: one for one in feature["name"]}
    assert set(named) == {"agreement", "frequency", "numbers"}
    assert all(one["more"] for one in named.values())
    assert named["numbers"]["columns"] == ["points"]
    assert 0.15 < feature["share"]["value"] < 0.35  # the rarer side, whichever the search found
    of = {one["column"]: one["answers"] for one in feature["changes"]}
    assert of["colour"] is None
    assert of["cheap"]["with_it"] - of["cheap"]["without_it"] > 1.5


def test_what_is_ordered_and_what_is_free_text_is_said(found):
    used = {one["name"]: one for one in found[1]["columns"]}
    assert "(never to always)" in used["complains"]["read_as"]
    assert "(1 to 5)" in used["points"]["read_as"]
    assert used["points"]["read_as"].startswith("ordered category")
    assert used["colour"]["read_as"] == "category"
    assert used["remark"]["used"].startswith("left out: text")


@pytest.mark.parametrize(("ordered", "has"), [("none", set()), ("points", {"points"})])
def test_the_user_says_which_columns_are_ordered(tmp_path, capsys, ordered, has):
    source = written(tmp_path, likert(60)[1])
    printed(capsys, "check", "features", source, "--set", f"ordered={ordered}", "--json")
    succeed("features", source, tmp_path / "out", "--set", f"ordered={ordered}",
            *setting_args("n_features=1", "starts=1", "max_iter=61"))  # fmt: skip
    columns = latest(tmp_path / "out")[1]["columns"]
    assert {c["name"] for c in columns if "ordered" in c["read_as"]} == has


def test_a_column_without_an_order_is_refused(tmp_path, capsys):
    source = written(tmp_path, likert(60)[1])
    said = refused(capsys, "features", source, tmp_path / "out", "--set", "ordered=colour")
    assert "colour" in said
    assert "ordered=colour:LOW,...,HIGH" in said
    said = refused(capsys, "features", source, tmp_path / "out", "--set", "ordered=color")
    assert "colour" in said


def test_names_are_shown_without_tags_and_without_the_question_they_begin_with(tmp_path):
    _, columns = likert(120)
    named = {f"<p>How do you rate &ndash; <b>{n}</b></p>": columns[n] for n in ("cheap", "fast")}
    source = written(tmp_path, named | {"How do you rate - it is kind": columns["kind"]})
    succeed("features", source, tmp_path / "out",
            *setting_args("n_features=1", "starts=1", "max_iter=90"))  # fmt: skip
    (feature,) = latest(tmp_path / "out")[1]["results"]["features"]
    (part,) = feature["name"]
    assert (part["scale"], part["more"]) == ("agreement", True)
    assert sorted(part["columns"]) == ["cheap", "fast", "it is kind"]
    assert feature["changes"][0]["column"] in [*named, "How do you rate - it is kind"]


def test_answers_at_both_ends_are_described_by_a_category():
    """The feature moves answers from the middle to both ends: the mean has no direction."""
    from flows.features.input.categories import Column

    rng = np.random.default_rng(0)
    nu = (rng.random((600, 1)) < 0.4).astype(float)
    levels = np.array([3, 3])
    # Categories in the order 2, 1, 3: with the feature 1 or 3, without it 2.
    mean = np.array([[-2.0, 4.0], [0.0, 0.0]] * 2)
    weights = mean + 0.03 * rng.standard_normal((20, *mean.shape))
    ordered = ("1", "2", "3")
    columns = [Column(n, ("2", "1", "3"), (360, 120, 120), 0, ordered=ordered, scale="numbers")
               for n in ("a", "b")]  # fmt: skip
    sums = meaning_sums(
        nu, weights, lambda rows: np.tile(nu[rows] > 0.5, (20, 1, 1)), levels,
        np.arange(600), np.ones(600), 600,
    )  # fmt: skip
    (one,) = features_of(sums, columns, Stability(None, 0), whole=False)
    assert one.name == (NamePart("", "2", False, tuple(c.shown for c in one.changes), False),)
    assert all(change.moved is None for change in one.changes)
    for change in one.changes:
        assert_allclose([change.with_it, change.without_it], [0.12, 0.88], atol=0.01)
    assert pa.array(columns[0].points).to_pylist() == [2.0, 1.0, 3.0]
