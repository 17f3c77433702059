"""Tables as they come: categories, gaps, dates and labels by any names, told and kept."""

from __future__ import annotations

import csv
import json
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.special import expit
from sklearn.metrics import log_loss

from flows.cli import main
from tests.flows.experts.runs import latest, rows_of
from tests.flows.experts.runs import run_told_in_a_line as run

QUICK = ["--set", "n_experts=1", "--set", "test_share=0.2"]
QUICK += ["--set", "baselines=false"]
EFFECT = {"car": 1.5, "bus": -1.5, "foot": 0.0}


def people(n=600, seed=0):
    """Rows whose chance hangs on a category, a number with gaps, a date and a yes."""
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
    with pytest.raises(SystemExit) as stopped:
        main(["experts", str(folder / "in.parquet"), str(folder / "out"), *QUICK])
    assert stopped.value.code == 0
    return folder / "out"


def test_a_table_as_it_comes_is_fitted_and_told(fitted):
    folder, record = latest(fitted)
    kept = json.loads((folder / "posterior" / "columns.json").read_text())
    kinds = {one["name"]: one["kind"] for one in kept["columns"]}
    assert kinds == {"by": "category", "age": "number", "since": "date", "member": "yes or no"}
    by, age = kept["columns"][:2]
    assert (by["levels"], sorted(by["reference"])) == (["car", "bus", "foot"], ["ski", "yak"])
    assert age["missing"]
    assert age["fill"] == pytest.approx(np.mean([a for a in people()["age"] if a is not None]))
    assert (kept["labels"], kept["left_out"]) == (["goes", "stays"], {"name": "category"})
    weights = {row["column"]: row for row in rows_of(folder, "experts").to_pylist()}
    assert weights["by = car"]["mean"] > 0.3 > -0.3 > weights["by = bus"]["mean"]
    assert weights["age (missing)"]["mean"] > 0.3
    said = " ".join(record["warnings"])
    assert "no level with 10 cells were left out: name." in said
    assert "Dates count as numbers, in days since 1970-01-01: since." in said
    assert "Rare levels have no column of their own and are the reference: by (2)." in said
    assert "Missing cells: age (" in said
    page = (folder / "report.html").read_text()
    assert "How the table was read" in page
    assert "log odds of the label stays" in page
    truth = np.array(people()["label"]) == "stays"
    assert log_loss(truth, rows_of(folder)["probability"].to_numpy()) < 0.57 < log_loss(
        truth, np.full(600, truth.mean())
    )  # fmt: skip


def as_csv(columns, path):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def test_text_and_partitions_change_nothing_of_how_it_is_read(fitted, tmp_path, capsys):
    """CSV with true and false and dates as text, cut in two files and five partitions."""
    columns = people()
    for name, rows in (("a", slice(0, 250)), ("b", slice(250, 600))):
        as_csv({n: c[rows] for n, c in columns.items()}, tmp_path / f"{name}.csv")
    code, said = run(
        capsys, "experts", tmp_path, tmp_path / "out", *QUICK, "--partitions", 5
    )  # fmt: skip
    assert code == 0, said
    mine, theirs = latest(tmp_path / "out")[0], latest(fitted)[0]
    one, other = (
        json.loads((f / "posterior" / "columns.json").read_text()) for f in (mine, theirs)
    )
    for kept in (one, other):
        del kept["sha256"]
        kept["columns"][1]["fill"] = pytest.approx(kept["columns"][1]["fill"])
        kept["columns"][2]["fill"] = pytest.approx(kept["columns"][2]["fill"])
        kept["columns"][3]["fill"] = pytest.approx(kept["columns"][3]["fill"])
    assert one == other
    pairs = zip(rows_of(mine).to_pylist(), rows_of(theirs).to_pylist(), strict=True)
    for a, b in pairs:
        assert a["probability"] == pytest.approx(b["probability"], abs=1e-6)


def test_a_table_twice_is_read_and_fitted_as_the_table(tmp_path, capsys):
    """The same table in two files: levels, form, tau, experts and probabilities are the same."""
    options = ["--set", "n_experts=4", "--set", "baselines=false"]
    found = []
    for name, files in (("once", "a"), ("twice", "ab")):
        for file in files:
            rows = people(300)
            rows["id"] = [f"{file}-{i}" for i in rows["id"]]
            (tmp_path / name).mkdir(exist_ok=True)
            pq.write_table(pa.table(rows), tmp_path / name / f"{file}.parquet")
        parts = ["--partitions", 3 if name == "twice" else 1]
        code, said = run(
            capsys, "experts", tmp_path / name, tmp_path / f"{name}-out", *options, *parts
        )
        assert code == 0, said
        folder, record = latest(tmp_path / f"{name}-out")
        kept = json.loads((folder / "posterior" / "columns.json").read_text())
        levels = [(one["name"], one["levels"], one["reference"]) for one in kept["columns"]]
        found.append((record, levels, rows_of(folder)["probability"].to_numpy()))
    (once, levels, p), (twice, levels_twice, p_twice) = found
    assert levels_twice == levels
    for key in ("form", "gain", "gain_se", "intercept_log_loss"):
        a, b = (record["results"]["additive"][key] for record in (once, twice))
        assert a == b if key == "form" else a == pytest.approx(b, abs=1e-5)
    assert twice["results"]["chosen"] == once["results"]["chosen"]
    assert twice["results"]["log_loss"] == pytest.approx(once["results"]["log_loss"], abs=1e-4)
    np.testing.assert_allclose(p_twice, np.tile(p, 2), atol=1e-4)
    assert any("Every row stands there 2 times" in warning for warning in twice["warnings"])
    assert not any("Every row stands there" in warning for warning in once["warnings"])


def test_a_mixed_table_goes_on_from_an_earlier_run(tmp_path, capsys):
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
    code, said = run(capsys, "experts", source, tmp_path / "out", *options, *since)
    assert code == 0, said
    write("b.parquet", slice(400, 600))
    code, said = run(capsys, "experts", source, tmp_path / "out", *options, *since)
    assert code == 0, said
    code, said = run(capsys, "experts", source, tmp_path / "anew", *options)
    assert code == 0, said
    (mine, _), (theirs, _) = latest(tmp_path / "out"), latest(tmp_path / "anew")
    page = (mine / "report.html").read_text()
    assert "Of 5 partitions 3 were taken up as they were and 2 were read." in page
    one, other = (
        json.loads((f / "posterior" / "columns.json").read_text()) for f in (mine, theirs)
    )
    assert "sled" in one["columns"][0]["levels"]
    for kept in (one, other):
        del kept["sha256"]
        for column in kept["columns"][1:]:
            column["fill"] = pytest.approx(column["fill"])
    assert one == other
    p, q = (dict(zip(*(t[n].to_pylist() for n in ("id", "probability")), strict=True))
            for t in (rows_of(mine), rows_of(theirs)))  # fmt: skip
    assert p.keys() == q.keys()
    np.testing.assert_allclose([p[i] for i in q], list(q.values()), atol=2e-3)


def test_new_rows_are_read_as_the_fit_was(fitted, tmp_path, capsys):
    """Levels never seen are the reference and are counted, as are gaps that are new."""
    columns = {n: c[:40] for n, c in people().items() if n not in ("name", "label")}
    columns["by"] = [*columns["by"][:37], "sled", "sled", None]
    columns["member"] = [None, *columns["member"][1:]]
    as_csv({n: ["" if v is None else v for v in c] for n, c in columns.items()}, tmp_path / "n.csv")
    code, said = run(capsys, "score", fitted, tmp_path / "n.csv", tmp_path / "out")
    assert code == 0, said
    folder, record = latest(tmp_path / "out")
    new = rows_of(folder)["probability"].to_numpy()
    old = rows_of(latest(fitted)[0])["probability"].to_numpy()[:40]
    np.testing.assert_allclose(new[1:37], old[1:37], rtol=1e-9)
    assert new[0] != old[0]
    told = " ".join(record["warnings"])
    assert "levels that the fit never saw count as the reference: by (2)." in told
    assert "Missing cells of columns that had none in the fit" in told
    assert "by (1), member (1)" in told
    as_csv({**columns, "age": ["old"] * 40}, tmp_path / "odd.csv")
    code, said = run(capsys, "score", fitted, tmp_path / "odd.csv", tmp_path / "o")
    assert code == 2
    assert "column age: expected cells that are each a number, as in the fit, found 'old'" in said
    as_csv({**columns, "label": ["left"] * 40}, tmp_path / "labels.csv")
    code, said = run(capsys, "score", fitted, tmp_path / "labels.csv", tmp_path / "o")
    assert code == 2
    assert "column label: expected labels of the fit: goes, stays, found left" in said


def test_settings_say_what_is_a_category_a_gap_and_positive(tmp_path, capsys):
    rng = np.random.default_rng(1)
    zone = rng.integers(1, 4, 200)
    label = np.where(rng.random(200) < expit(3.0 * (zone == 2) - 1.0), "sick", "well")
    rating = np.where(np.arange(200) % 9 == 0, "?", rng.integers(1, 6, 200).astype(str))
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"zone": zone, "rating": rating, "label": label}), path)
    more = ["--set", 'categories=["zone"]', "--set", 'missing=["?"]', "--set", "positive=sick"]
    code, said = run(capsys, "experts", path, tmp_path / "out", *QUICK, *more)
    assert code == 0, said
    folder, record = latest(tmp_path / "out")
    assert record["results"]["labels"] == ["well", "sick"]
    kept = json.loads((folder / "posterior" / "columns.json").read_text())
    zone, rating = kept["columns"]
    assert (zone["kind"], sorted(zone["levels"])) == ("category", ["1", "2", "3"])
    assert (rating["kind"], rating["missing"], rating["cells"]) == ("number", True, [177, 23])
    code, said = run(capsys, "experts", path, tmp_path / "o", *QUICK, "--set", "positive=ill")
    assert code == 2
    assert "settings, column positive: expected one of sick and well, found ill" in said
    code, said = run(capsys, "experts", path, tmp_path / "o", *QUICK, "--set", 'categories=["zon"]')
    assert code == 2
    assert "settings, column categories: expected columns out of zone, rating, found zon" in said


def test_a_table_without_a_column_that_can_be_used_is_refused(tmp_path, capsys):
    columns = people(60)
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({n: columns[n] for n in ("name", "label")}), path)
    code, said = run(capsys, "experts", path, tmp_path / "out", *QUICK)
    assert code == 2
    assert "expected at least one column that predicts, found none with cells, or levels" in said
