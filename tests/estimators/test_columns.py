"""The table of columns of an estimator is that of the command."""

import csv
import json
import random
import re
import warnings

import pandas as pd
import pytest

from tests.conftest import SHARED_DATA
from tests.flows.commands import run
from vbmodels.estimators import LatentFeatures, MixtureOfExperts
from vbmodels.estimators.base import ColumnWarning

CASES = SHARED_DATA.parent / "cases" / "tables"


def written(path):
    """Write a CSV of what people type: each column of another kind."""
    rng = random.Random(0)
    draw = {
        "price": lambda i: f"€ {i % 9 + 1}.{rng.randint(100, 999)},{rng.randint(10, 99)}",
        "share": lambda i: rng.choice(["#N/A", "?", f"{i % 90},{i % 7} %"]),
        "day": lambda i: f"{rng.randint(1, 28):02}.{rng.randint(1, 12):02}.2020",
        "zip": lambda i: rng.choice(["02139", "10001", "90210"]),
        "code": lambda i: rng.choice(["4", "4.0", " 4", "1", "n.a.", "2"]),
        "agree": lambda i: rng.choice(["agree", "Disagree", "neutral", ""]),
        "smoker": lambda i: rng.choice(["Yes", "n"]),
        "seen": lambda i: rng.choice(["1", ""]),
        "note": lambda i: f"free text of row {i}, which nobody else wrote in these words",
        "row": str,
        "one": lambda i: "x",
        "none": lambda i: "",
        "label": lambda i: rng.choice(["yes", "no"]),
    }
    table = {name: [cell(i) for i in range(120)] for name, cell in draw.items()}
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([list(table), *zip(*table.values(), strict=True)])
    return path


def of_command(capsys, pipeline, path, *options):
    _, out, err = run(capsys, "check", pipeline, path, "--json", *options)
    found = json.loads(out)
    assert not found["error"], err
    for one in found["columns"]:
        one["reason"] = one["reason"]["kind"] if one["reason"] else ""
    return {one["name"]: one for one in found["columns"]}


def of_estimator(fit):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = fit().columns_
    said = " ".join(str(w.message) for w in caught if w.category is ColumnWarning)
    for one in found.to_dict("records"):
        assert (f"{one['name']} ({one['used']})" in said) == bool(one["reason"])
    return {one["name"]: one for one in found.to_dict("records")}


def text_of(path, **options):
    return pd.read_csv(path, dtype=str, keep_default_na=False, **options)


def source(name, tmp_path):
    if name == "written":
        return written(tmp_path / "written.csv")
    if not CASES.is_dir():
        pytest.skip(f"the cases are not next to the repository: expected the folder {CASES}")
    return CASES / name


@pytest.mark.parametrize("name", ["decimal_comma.csv", "excel_na.csv", "leadzero.csv", "written"])
def test_experts_read_a_table_as_the_command_does(name, tmp_path, capsys):
    path = source(name, tmp_path)
    theirs = of_command(capsys, "experts", path)
    table = text_of(path, sep=";" if name.startswith("decimal") else ",")
    model = MixtureOfExperts(1, inference="cavi", max_iter=5, random_state=0)
    ours = of_estimator(lambda: model.fit(table.drop(columns="label"), table["label"]))
    theirs.pop("label")
    assert ours == theirs


@pytest.mark.parametrize("name", ["likert_text.csv", "icd_blank.csv", "mixed_yesno.csv", "written"])
def test_features_read_a_table_as_the_command_does(name, tmp_path, capsys):
    path = source(name, tmp_path)
    theirs = of_command(capsys, "features", path)
    model = LatentFeatures(1, inference="multinomial", max_iter=5, random_state=0)
    ours = of_estimator(lambda: model.fit(text_of(path)))
    for one in (*theirs.values(), *ours.values()):
        # Only the command describes features by the order of answers.
        one["read_as"] = re.sub(r"(, | \()[^,()]* to [^,()]*", "", one["read_as"])
        one["read_as"] = one["read_as"].removeprefix("ordered ").replace("category)", "category")
    assert ours == theirs
