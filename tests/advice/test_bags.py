"""Commands that pages, warnings and checks of bags name, run as they stand, and what they bring."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.advice.commands import obey, page_of, results_of, steps_of
from tests.answers.bag_runs import OF_LABEL, slides, with_label, write_sources
from tests.answers.keep import command
from tests.flows.bags.bag_files import instances, table_of
from tests.flows.commands import run, succeed

HELD_OUT, VMMIC = "held_out", "vmmic"


def figures_of(target):
    return results_of(target)["test"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sources of the kept runs, and a fit with held-out slides."""
    place = tmp_path_factory.mktemp("slides")
    write_sources(place)
    succeed(*command("bags", HELD_OUT, place))
    return place


def test_all_that_a_fit_advises_runs_and_new_bags_are_predicted(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    score, *shown = steps_of(folder / HELD_OUT)
    assert score.startswith("vbflows score ")
    obey(capsys, score, "new_labels.parquet")
    assert figures_of(folder / "scored")["better"]
    for one in (*shown, *steps_of(folder / "scored")):
        assert one.startswith("vbflows show ")
        assert len(obey(capsys, one).splitlines()) > 3


def test_a_fit_that_is_not_tested_says_how_to_test_it(folder, capsys):
    """A model that predicts no bag without itself: bags are held out, and figures are there."""
    succeed(*command("bags", VMMIC, folder))
    assert figures_of(folder / VMMIC) is None
    [again] = [one for one in steps_of(folder / VMMIC) if "held_out=0.3" in one]
    obey(capsys, again)
    assert figures_of(folder / VMMIC)["rows"] > 10


def test_more_bags_with_a_label_make_a_useless_model_useful(tmp_path):
    """What "Do not act on these predictions" advises, twice."""
    for n, better in ((14, False), (120, True)):
        _, malignant, _ = slides(n, 2)
        words = np.array(["benign", "malignant"])[malignant]
        path, target = tmp_path / f"{n}.parquet", tmp_path / f"t{n}"
        pq.write_table(with_label(words, n=n, seed=2), path)
        succeed("bags", path, target, *OF_LABEL, "--set", "model=embedding")
        assert figures_of(target)["better"] is better
        assert ("label more bags" in page_of(target)) is not better


def test_a_model_that_cannot_learn_from_empty_bags_names_one_that_can(tmp_path, capsys):
    empty = pa.table({
        "bag_id": ["e1", "e2"], "instance_id": pa.array([None] * 2, pa.string()),
        "label": pa.array([1, 1], pa.int8()),
        "features": pa.array([None] * 2, pa.list_(pa.float64())),
    })  # fmt: skip
    path = tmp_path / "in.parquet"
    pq.write_table(pa.concat_tables([instances(30), empty]), path)
    for model, said in (("gp_probit", True), ("auto", False)):
        code, out, err = run(
            capsys, "bags", path, tmp_path / model, "--set", f"model={model}",
            *(("--set", "leak=false") if said else ()),
        )  # fmt: skip
        assert code == 0, err
        assert ("take --set model=auto" in out + err) is said
    chances = table_of(tmp_path / "auto", "bags").to_pandas().set_index("bag_id").probability
    assert chances[["e1", "e2"]].min() > 0.0


@pytest.mark.parametrize(
    ("kind", "label", "said", "given"),
    [
        ("number", "thickness", "--set threshold=NUMBER", "threshold=2.5"),
        ("levels", "grade", "--set positive=LEVEL,LEVEL", "positive=medium,high"),
    ],
)
def test_a_number_or_a_level_can_be_two_classes(folder, tmp_path, capsys, kind, label, said, given):
    words = (folder / f"{kind}.parquet", "--column", "bag_id=slide", "--column", f"label={label}")
    code, out, err = run(capsys, "check", "bags", *words)
    assert code == 0
    assert said in out + err
    succeed("bags", words[0], tmp_path / "t", *words[1:], "--set", given, "--set",
            "model=embedding")  # fmt: skip
    assert results_of(tmp_path / "t")["kind"] == "label"
