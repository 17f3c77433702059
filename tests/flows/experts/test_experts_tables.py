"""Tables as they come: categories, gaps, dates and labels by any names, reported and kept."""

import csv
import json
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from tests.flows.commands import refused, setting_args, succeed
from tests.flows.experts.runs import latest, probabilities_of, rows_of

QUICK = setting_args("n_experts=1", "test_share=0.2", "baselines=false")
EFFECT = {"car": 1.5, "bus": -1.5, "foot": 0.0}


def people(n=600, seed=0):
    """Rows whose probability depends on a category, a number with gaps, a date and a yes."""
    rng = np.random.default_rng(seed)
    by = rng.choice(["car", "bus", "foot", "ski", "yak"], n, p=[0.4, 0.3, 0.28, 0.01, 0.01])
    age = rng.normal(40.0, 10.0, n).round(1)
    days = rng.integers(0, 1000, n)
    member = rng.random(n) < 0.5
    gone = rng.random(n) < 0.15
    chance = expit(
        np.array([EFFECT.get(b, 0.0) for b in by]) + 0.08 * (age - 40.0) * ~gone + 1.5 * gone
        + 0.003 * (days - 500.0) + 1.0 * member - 0.5
    )  # fmt: skip
    day = date(2020, 1, 1)
    return {
        "id": [f"r{i}" for i in range(n)],
        "by": by.tolist(),
        "age": [None if g else a for g, a in zip(gone.tolist(), age.tolist(), strict=True)],
        "since": [day + timedelta(int(d)) for d in days],
        "member": member.tolist(),
        "name": [f"N{i:04d}x" for i in range(n)],
        "label": np.where(rng.random(n) < chance, "stays", "goes").tolist(),
    }


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("people")
    pq.write_table(pa.table(people()), folder / "in.parquet")
    succeed("experts", folder / "in.parquet", folder / "out", *QUICK)
    return folder / "out"


@pytest.mark.thorough
def test_a_table_as_it_comes_is_fitted_and_described(fitted):
    folder, _ = latest(fitted)
    kept = json.loads((folder / "posterior" / "columns.json").read_text())
    kinds = {one["name"]: one["kind"] for one in kept["columns"]}
    assert kinds == {"by": "category", "age": "number", "since": "date", "member": "yes or no"}
    by, age = kept["columns"][:2]
    assert (by["levels"], sorted(by["reference"])) == (["car", "bus", "foot"], ["ski", "yak"])
    assert age["missing"]
    assert age["fill"] == pytest.approx(np.mean([a for a in people()["age"] if a is not None]))
    assert kept["labels"] == ["goes", "stays"]
    assert {name: one["kind"] for name, one in kept["left_out"].items()} == {"name": "category"}
    additive = [row for row in rows_of(folder, "experts").to_pylist() if row["expert"] == 0]
    weights = {row["column"]: row for row in additive}
    assert weights["by = car"]["mean"] - weights["by = bus"]["mean"] > 2.0  # the reference is rare
    assert weights["age (missing)"]["mean"] > 0.3
    truth = np.array(people()["label"]) == "stays"
    assert log_loss(truth, probabilities_of(folder)) < 0.57 < log_loss(
        truth, np.full(600, truth.mean())
    )  # fmt: skip


def columns_of(folder):
    """Return how a run read its columns, sums to rounding."""
    kept = json.loads((folder / "posterior" / "columns.json").read_text())
    del kept["sha256"]
    for column in kept["columns"][1:]:
        column["fill"] = pytest.approx(column["fill"])
    return kept


def as_csv(columns, path):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.mark.thorough
def test_a_mixed_table_goes_on_from_an_earlier_run(tmp_path):
    """A file more, with a level and a gap that the first had not: read as all of it at once."""
    source = tmp_path / "in"
    source.mkdir()
    rows = people()
    rows["by"] = rows["by"][:400] + ["sled" if b == "car" else b for b in rows["by"][400:]]
    rows["member"] = [*rows["member"][:590], *[None] * 10]

    def write(name, part):
        pq.write_table(pa.table({n: c[part] for n, c in rows.items()}), source / name)

    write("a.parquet", slice(0, 400))
    options = [*QUICK, "--set", "rows_per_partition=150"]
    since = ["--since", "latest"]
    succeed("experts", source, tmp_path / "out", *options, *since)
    write("b.parquet", slice(400, 600))
    succeed("experts", source, tmp_path / "out", *options, *since)
    succeed("experts", source, tmp_path / "again", *options)
    (mine, _), (theirs, _) = latest(tmp_path / "out"), latest(tmp_path / "again")
    kept = columns_of(mine)
    assert "sled" in kept["columns"][0]["levels"]
    assert kept == columns_of(theirs)
    names = ("id", "probability_stays")
    p, q = (dict(zip(*(t[name].to_pylist() for name in names), strict=True))
            for t in (rows_of(mine), rows_of(theirs)))  # fmt: skip
    assert p.keys() == q.keys()
    np.testing.assert_allclose([p[i] for i in q], list(q.values()), atol=2e-3)


@pytest.mark.thorough
def test_new_rows_are_read_as_the_fit_was(fitted, tmp_path, capsys):
    """Levels never seen are the reference and are counted, as are gaps that are new."""
    columns = {n: c[:40] for n, c in people().items() if n not in ("name", "label")}
    columns["by"] = [*columns["by"][:37], "sled", "sled", None]
    columns["member"] = [None, *columns["member"][1:]]
    as_csv({n: ["" if v is None else v for v in c] for n, c in columns.items()}, tmp_path / "n.csv")
    succeed("score", fitted, tmp_path / "n.csv", tmp_path / "out")
    folder, record = latest(tmp_path / "out")
    new = probabilities_of(folder)
    old = probabilities_of(latest(fitted)[0])[:40]
    np.testing.assert_allclose(new[1:37], old[1:37], rtol=1e-9)
    assert new[0] != old[0]
    said = " ".join(record["warnings"])
    assert "Levels that the fit never saw count as the reference: by (2)." in said
    assert "Missing cells of columns without any in the fit" in said
    assert "by (1), member (1)" in said
    as_csv({**columns, "age": ["old"] * 40}, tmp_path / "odd.csv")
    said = refused(capsys, "score", fitted, tmp_path / "odd.csv", tmp_path / "o")
    assert "column age: expected cells that are each a number, as in the fit, found 'old'" in said
    as_csv({**columns, "label": ["left"] * 40}, tmp_path / "labels.csv")
    said = refused(capsys, "score", fitted, tmp_path / "labels.csv", tmp_path / "o")
    assert "column label: expected labels of the fit: goes, stays, found left" in said


@pytest.mark.thorough
def test_settings_say_what_is_a_category_a_gap_and_positive(tmp_path, capsys):
    rng = np.random.default_rng(1)
    zone = rng.integers(1, 4, 200)
    label = np.where(rng.random(200) < expit(3.0 * (zone == 2) - 1.0), "sick", "well")
    rating = np.where(np.arange(200) % 9 == 0, "?", rng.integers(1, 6, 200).astype(str))
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"zone": zone, "rating": rating, "label": label}), path)
    more = ["--set", 'categories=["zone"]', "--set", 'missing=["?"]', "--set", "positive=sick"]
    succeed("experts", path, tmp_path / "out", *QUICK, *more)
    folder, record = latest(tmp_path / "out")
    names = record["results"]["names"]
    assert (names["negative"], names["positive"]) == ("well", "sick")
    kept = json.loads((folder / "posterior" / "columns.json").read_text())
    zone, rating = kept["columns"]
    assert (zone["kind"], sorted(zone["levels"])) == ("category", ["1", "2", "3"])
    assert (rating["kind"], rating["missing"], rating["cells"]) == ("number", True, [177, 23])
