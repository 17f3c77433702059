"""Copies of a row stay on one side of every hold-out, and a mixture of one is called so."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.experts.input.units import RowKeys, join_units
from flows.tables.names import digests_of
from tests.flows.commands import printed, run, setting_args, succeed
from tests.flows.experts.runs import latest, rows_of, written
from vbmodels.core.draws import hashed
from vbmodels.experts.rows import Rows
from vbmodels.experts.shared_rows import dealt
from vbmodels.tables.encoding import cell_keys

COPIES = 4


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """Write rows that occur four times each under different names, in two files."""
    rng = np.random.default_rng(4)
    x = np.repeat(rng.integers(0, 9, (80, 3)).astype(float), COPIES, axis=0)
    label = np.repeat(x[::COPIES, 0] + rng.normal(0, 3, 80) > 4, COPIES).astype(int)
    order = rng.permutation(len(x))
    folder = tmp_path_factory.mktemp("copies")
    for i, rows in enumerate(np.array_split(order, 2)):
        columns = {f"x{j}": x[rows, j] for j in ((0, 1, 2), (2, 0, 1))[i]}
        names = [f"row-{r}" for r in rows]
        pq.write_table(
            pa.table({"id": names, "label": label[rows], **columns}), folder / f"{i}.parquet"
        )
    _, of = np.unique(x, axis=0, return_inverse=True)
    return folder, [[f"row-{r}" for r in np.flatnonzero(of == k)] for k in range(of.max() + 1)]


@pytest.mark.parametrize("parts", [1, 3])
def test_copies_are_held_out_or_fitted_together(copies, tmp_path, parts):
    """Whatever the partitions, by the least name of the copies."""
    folder, names = copies
    more = setting_args("inference=cavi", "n_experts=1", "test_share=0.3", "baselines=no")
    succeed("experts", folder, tmp_path / "out", "--partitions", parts, *more)
    run, record = latest(tmp_path / "out")
    rows = rows_of(run)
    held = set(rows.filter(rows["held_out"])["id"].to_pylist())
    least = np.array([digests_of(of).min() for of in names])
    out = hashed(least, 3, 1)[0] < 0.3
    assert held == {name for of, one in zip(names, out, strict=True) if one for name in of}
    assert any("copies" in note and "320" in note for note in record["notes"])


def test_rows_of_few_columns_that_are_alike_are_no_copies(tmp_path):
    """Held out together they would say how combinations are predicted that no row has."""
    rng = np.random.default_rng(4)
    x = rng.integers(0, 2, (400, 3))
    label = (rng.random(400) < 0.2 + 0.6 * x[:, 0]).astype(int)
    columns = {f"x{j}": x[:, j].tolist() for j in range(3)}
    more = setting_args("test_share=0.3", "baselines=no")
    succeed("experts", written(tmp_path, {**columns, "label": label}), tmp_path / "out", *more)
    run, record = latest(tmp_path / "out")
    held = rows_of(run).to_pandas()["held_out"].to_numpy()
    for one in np.unique(x, axis=0):
        assert set(held[(x == one).all(1)]) == {False, True}
    assert not any("copies" in note for note in record["notes"])
    columns["of"] = [f"P{i // 10}" for i in range(400)]
    given = written(tmp_path, {**columns, "label": label}, "grouped.parquet")
    succeed("experts", given, tmp_path / "grouped", "--column", "group=of", *more)
    held = rows_of(latest(tmp_path / "grouped")[0]).to_pandas()["held_out"].to_numpy()
    assert 0.1 < held.mean() < 0.5
    assert set(held.reshape(40, 10).mean(1)) == {0.0, 1.0}


def patients(rng, label_of):
    """Return ten rows of each of 60 patients, whose columns say who it is and nothing else."""
    patient = np.repeat(np.arange(60), 10)
    x = np.repeat(rng.standard_normal((60, 3)), 10, axis=0) + 0.2 * rng.standard_normal((600, 3))
    columns = {f"x{j}": x[:, j] for j in range(3)}
    return {"patient": [f"P{p}" for p in patient], **columns, "label": label_of(patient)}


@pytest.mark.parametrize("numeric", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_rows_of_a_patient_are_asked_about_and_held_out_together(tmp_path, capsys, numeric):
    """Labels of patients that no column predicts look certain, until patients are held out."""
    rng = np.random.default_rng(2)
    columns = patients(rng, lambda patient: rng.integers(0, 2, 60)[patient])
    if numeric:
        columns["patient"] = [7 * int(name[1:]) % 61 for name in columns["patient"]]
    given = written(tmp_path, columns)
    more = setting_args("test_share=0.3")
    said = printed(capsys, "experts", given, tmp_path / "plain", *more)
    assert "Too good for rows of a new patient" in said
    assert "this model is better" not in said
    plain = latest(tmp_path / "plain")[1]
    assert plain["results"]["test"]["auroc"]["value"] > 0.9
    assert plain["results"]["repeated"] == "patient"
    assert any("--column group=patient" in text for text in plain["warnings"])
    assert not any("--exclude patient" in text for text in plain["warnings"])
    succeed("experts", given, tmp_path / "out", *more, "--column", "group=patient")
    run, record = latest(tmp_path / "out")
    rows = rows_of(run).to_pydict()
    sides = {(of, held) for of, held in zip(rows["group"], rows["held_out"], strict=True)}
    assert len(sides) == 60
    test = record["results"]["test"]
    assert test["auroc"]["low"] < 0.5 < test["auroc"]["high"]
    assert test["loss"]["value"] > 0.6
    new = written(tmp_path, {n: v for n, v in columns.items() if n != "patient"}, "new.parquet")
    succeed("score", tmp_path / "out", new, tmp_path / "scored")
    assert not test["better"]


@pytest.mark.parametrize("role", ["id", "sample"])
def test_rows_named_after_a_patient_are_asked_about_and_held_out_together(tmp_path, role):
    """Whatever the partitions; a patient is the first two parts of SUBJ-029_v3."""
    rng = np.random.default_rng(2)
    columns = patients(rng, lambda patient: rng.integers(0, 2, 60)[patient])
    visits = [f"SUBJ-{int(p[1:]):03d}_v{i % 10}" for i, p in enumerate(columns.pop("patient"))]
    order = rng.permutation(600)
    columns = {name: np.array(cells)[order] for name, cells in columns.items()}
    given = written(tmp_path, {role: np.array(visits)[order], **columns})
    more = setting_args("test_share=0.3", "baselines=no", "inference=cavi", "n_experts=1")
    succeed("experts", given, tmp_path / "plain", *more, "--partitions", 4)
    plain = latest(tmp_path / "plain")[1]
    assert plain["results"]["repeated"] == f"{role} (first 2 parts)"
    (asked,) = [text for text in plain["warnings"] if "begins alike" in text]
    advised = ["--set", "group_parts=2"]
    if role == "sample":
        advised = ["--column", "group=sample", *advised]
    assert " ".join(advised) in asked
    succeed("experts", given, tmp_path / "out", *more, *advised)
    run, record = latest(tmp_path / "out")
    rows = rows_of(run).to_pydict()
    sides = set(zip(rows["group"], rows["held_out"], strict=True))
    assert {group for group, _ in sides} == {f"SUBJ-{p:03d}" for p in range(60)}
    assert len(sides) == 60
    test = record["results"]["test"]
    assert test["auroc"]["low"] < 0.5 < test["auroc"]["high"]
    assert not record["results"]["repeated"]
    new = written(tmp_path, {n: v for n, v in columns.items() if n != "label"}, "new.parquet")
    succeed("score", tmp_path / "out", new, tmp_path / "scored")


@pytest.mark.parametrize(("parts", "names"), [(2, None), (9, "SUBJ-{}_v1"), (1, "SUBJ-{}_v1")])
def test_parts_of_names_that_make_no_groups_are_refused(tmp_path, capsys, parts, names):
    rng = np.random.default_rng(2)
    columns = {"x": rng.normal(size=60), "label": rng.integers(0, 2, 60)}
    if names:
        columns["id"] = [names.format(i) for i in range(60)]
    given = written(tmp_path, columns)
    code, _, err = run(capsys, "experts", given, tmp_path / "out", f"--set=group_parts={parts}")
    assert (code, "setting group_parts: expected several groups, found " in err) == (2, True), err
    assert not (tmp_path / "out").exists()


def test_classes_in_order_of_time_are_asked_about(tmp_path, capsys):
    """Labels that drift are alike from row to row; shuffled ones, and few, are so by chance."""
    rng = np.random.default_rng(8)
    drift = np.sin(np.arange(600) / 60)
    label = (drift + 0.7 * rng.normal(size=600) > 0).astype(int)
    columns = {"x": rng.normal(size=600), "label": label}
    given = written(tmp_path, columns)
    asked = "--set held_out=last tests later ones"
    assert asked in printed(capsys, "check", "experts", given)
    mixed = written(tmp_path, {**columns, "label": rng.permutation(label)}, "mixed.parquet")
    assert asked not in printed(capsys, "check", "experts", mixed)
    last = setting_args("held_out=last")
    assert asked not in printed(capsys, "check", "experts", given, *last)


def test_rows_whose_labels_are_alike_count_less():
    """By the design effect; the partitions and their order do not matter."""
    rng = np.random.default_rng(2)
    keys = RowKeys(
        *(np.arange(600),) * 2, np.repeat(np.arange(60), 10) + 1000, np.ones(600), np.zeros(600)
    )
    noise = replace(keys, label=rng.integers(0, 2, 600).astype(float))
    alike = replace(keys, label=np.repeat(rng.integers(0, 2, 60), 10).astype(float))
    assert join_units([noise], False).design_effect < 1.3
    assert join_units([alike], False).design_effect == pytest.approx(10.0)
    parts = [replace(alike, **{n: v[s] for n, v in vars(alike).items()})
             for s in (slice(0, 255), slice(255, 600))]  # fmt: skip
    one, two = join_units([alike], False), join_units(parts[::-1], False)
    assert np.array_equal(one.number, two.number)
    assert np.array_equal(one.name, two.name)


def test_folds_go_by_cells_and_draws_by_names():
    """A sampler that gave copies the same draws would not sample the posterior."""
    x = np.repeat(np.random.default_rng(1).normal(size=(50, 2)), COPIES, axis=0)
    key = np.arange(len(x))
    batch = Rows.of(x, np.ones(len(x)), key, group=cell_keys(x))
    folds = batch.fold(5).reshape(50, COPIES)
    assert np.all(folds == folds[:, :1])
    assert set(folds[:, 0]) == set(range(5))
    assert np.unique(batch.uniforms(1, 1)).size == len(x)


@pytest.mark.parametrize("wrong", [0, 4])
def test_a_column_that_holds_the_label_is_asked_about(tmp_path, wrong):
    """Also where it is another in 2 % of the rows."""
    rng = np.random.default_rng(5)
    label = rng.integers(0, 2, 200)
    left = 1 - label
    left[:wrong] = label[:wrong]
    given = written(tmp_path, {"label": label, "left": left, "age": rng.normal(50, 9, 200)})
    succeed("experts", given, tmp_path / "out", *setting_args("test_share=0.3"))
    warnings = " ".join(latest(tmp_path / "out")[1]["warnings"])
    assert "Is left known before the label is?" in warnings


def test_folds_hold_all_of_a_unit_and_every_class_is_in_every_fit():
    """Units of a class are dealt in turn; those without which a fit lacks a class have no fold."""
    rng = np.random.default_rng(3)
    label = np.repeat([0.0, 1.0, 2.0], [40, 12, 3])
    names = rng.permutation(10**6)[:55]
    names[-3:] = names[-1]
    own, folds = dealt(names, label, 0, False)
    of = folds[np.searchsorted(own, names)]
    assert np.bincount(of[:40]).tolist() == [8] * 5
    assert set(np.bincount(of[40:52], minlength=5)) <= {2, 3}
    assert set(of[-3:]) == {-1}
    again, same = dealt(names[::-1], label[::-1], 0, False)
    assert np.array_equal(again, own)
    assert np.array_equal(same, folds)


def test_a_row_that_weighs_nothing_and_that_no_fold_has_is_not_tested(tmp_path):
    rng = np.random.default_rng(1)
    group = np.arange(90) % 15
    label = np.where(group == 0, "a", np.where(group < 8, "b", "c"))
    given = {"x": rng.normal(size=90), "g": [f"g{k}" for k in group], "label": label}
    path = written(tmp_path, given | {"w": np.where(np.arange(90) % 9, 1.0, 0.0)})
    roles = ("--column", "group=g", "--column", "weight=w")
    succeed("experts", path, tmp_path / "out", *roles, *setting_args("baselines=no"))
    run, record = latest(tmp_path / "out")
    rows, tested = rows_of(run), rows_of(run, "tested")
    assert sorted(set(tested["label"].to_pylist())) == ["b", "c"]
    assert tested["id"].to_pylist() == rows.filter(rows["without_it"].is_valid())["id"].to_pylist()
    assert len(tested) == 84
    assert record["results"]["test"]["rows"] == np.count_nonzero(tested["weight"])


@pytest.mark.parametrize("kind", ["label", "number"])
def test_a_row_is_predicted_without_its_group_in_any_partitioning(tmp_path, kind):
    """Labels that groups alone have are not predicted, though the fit of all rows knows them."""
    rng = np.random.default_rng(2)
    given = patients(rng, lambda patient: rng.integers(0, 2, 60)[patient])
    if kind == "number":
        given["label"] = given["label"] + 0.01 * rng.standard_normal(600)
    path, without = written(tmp_path, given), []
    for parts in (1, 4):
        more = setting_args("n_experts=1", "gaussian_process=false", "baselines=no")
        target = tmp_path / f"out{parts}"
        succeed("experts", path, target, "--partitions", parts, "--column", "group=patient", *more)
        run, record = latest(target)
        rows, tested = rows_of(run), rows_of(run, "tested")
        assert tested["id"].to_pylist() == rows["id"].to_pylist()
        assert tested["this model"].to_pylist() == rows["without_it"].to_pylist()
        assert len(set(tested["unit"].to_pylist())) == 60
        assert not record["results"]["test"]["better"]
        without.append(rows["without_it"].to_numpy())
    np.testing.assert_allclose(*without, atol=1e-5)
