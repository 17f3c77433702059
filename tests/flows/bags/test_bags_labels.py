"""Labels of any two values: which is positive is said by the user, and by the report."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.bags.family import FAMILY
from flows.bags.input.labels import FoundLabels, refusal
from flows.bags.schema import instances_in
from flows.bags.settings import BagSettings
from flows.settings import load
from tests.flows.bags.bag_files import fitted, table_of, written
from tests.flows.commands import check_file, read_part
from vbmodels.tables.cells import number_of


@pytest.fixture(scope="module")
def bags():
    rng = np.random.default_rng(0)
    sizes = rng.integers(2, 5, 40)
    x = [rng.standard_normal((size, 2)) for size in sizes]
    y = [int((bag[:, 0] > 0.8).any()) for bag in x]
    names = np.repeat([f"b{i:02d}" for i in range(40)], sizes)
    return names, np.repeat(y, sizes), np.concatenate(x)


def write(path, bags, spell):
    names, label, features = bags
    table = {"bag_id": names, "label": [spell(one) for one in label], "features": list(features)}
    if path.suffix == ".csv":
        lines = ["bag_id,label,features"]
        lines += [f"{n},{w},{';'.join(map(repr, map(float, f)))}"
                  for n, w, f in zip(*table.values(), strict=True)]  # fmt: skip
        path.write_text("\n".join(lines))
    else:
        pq.write_table(pa.table(table), path)
    return path


SPELLINGS = {
    "plain.parquet": (int, None),
    "words.csv": (lambda one: "relapse" if one else "none", "relapse"),
    "signs.parquet": (lambda one: 2 * int(one) - 1, "1"),
    "flags.parquet": (bool, "true"),
    "others.parquet": (lambda one: "no" if one else "yes", "no"),
    "several.csv": (lambda one: ("low", "medium", "high")[one * (1 + one % 2)], "medium,high"),
    "numbers.csv": (lambda one: 7.5 if one else 2.25, 7.5),
    "grades.parquet": (lambda one: 3 if one else 1, 2),
}


@pytest.mark.parametrize("name", SPELLINGS)
def test_labels_are_read_as_the_user_means_them(name, bags, tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))
    spell, positive = SPELLINGS[name]
    source = write(tmp_path / name, bags, spell)
    key = "positive" if isinstance(positive, str) else "threshold"
    settings = load(BagSettings, None, [] if positive is None else [f"{key}={positive}"])
    (file,) = storage.expand(str(source), FAMILY.suffixes)
    assert check_file(FAMILY, file, settings).faults == ()
    (part,) = FAMILY.plan([file], [FAMILY.read_header(file, settings)], settings)
    assert read_part(part, instances_in(settings))["label"].to_pylist() == bags[1].tolist()


@pytest.mark.parametrize("setting", ["positive=relapse", "threshold=1"])
def test_a_missing_label_is_no_negative_one(setting, tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))
    yes, no = ("relapse", "none") if setting.startswith("positive") else ("1.5", "0.5")
    lines = ["bag_id,label,x", f"a,{yes},1", "b,NA,2", f"c,{no},3"]
    (tmp_path / "in.csv").write_text("\n".join(lines))
    settings = load(BagSettings, None, [setting], columns={"features": "x"})
    (file,) = storage.expand(str(tmp_path / "in.csv"), FAMILY.suffixes)
    (part,) = FAMILY.plan([file], [FAMILY.read_header(file, settings)], settings)
    assert read_part(part, instances_in(settings))["label"].to_pylist() == [1, None, 0]


@pytest.mark.parametrize("names", [["1", "2", "inf"], ["1e400", "1"], ["nan", "1", "2"]])
def test_labels_that_are_no_finite_numbers_are_classes(names):
    labels = FoundLabels("in.csv", "label", names, [number_of(name) for name in names])
    assert "--set positive=" in str(refusal(labels))


@pytest.mark.parametrize("setting", [(), ("positive=responder",)])
def test_labels_that_differ_in_case_or_blanks_are_one(setting, bags, tmp_path, capsys):
    """Also where rows of one bag, and the files, write them in several ways."""
    names, label, features = bags
    spelt = (["Non-responder", "non-responder ", "NON-RESPONDER"], [" Responder", "responder"])
    words = [spelt[one][i % len(spelt[one])] for i, one in enumerate(label)]
    table = pa.table({"bag_id": names, "label": words, "features": list(features)})
    found = fitted(capsys, written(tmp_path, table), tmp_path / "t", "model=embedding", *setting)
    rows = table_of(tmp_path / "t", "bags").sort_by("bag_id")
    assert rows["label"].to_pylist() == [label[names == one][0] for one in sorted(set(names))]
    (said,) = [text for text in found["warnings"] if "differ in case" in text]
    for word in ("NON-RESPONDER", "non-responder", "Responder", "responder"):
        assert f"{word} ({[one.strip() for one in words].count(word)})" in said
