"""Bags in files of arrays, in HDF5."""

import json

import h5py
import numpy as np
import pytest

from flows import storage
from flows.bags.family import FAMILY
from flows.bags.schema import INSTANCES_IN
from flows.bags.settings import BagSettings
from flows.storage import StorageError
from flows.storage.file_options import NOTES
from flows.storage.formats.arrays import opened
from tests.flows.commands import check_file, read_part

BAGS = {"a": [[1.0, 2.0], [3.0, 4.0]], "b": [[5.0, 6.0]], "c": np.zeros((0, 2))}
LABELS = {"a": 1, "b": 0, "c": 0}


@pytest.fixture(autouse=True)
def own_copies(tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))


def read(source, settings=None):
    """Check files and read them, as a run does both; return features by bag, and labels."""
    settings = settings or BagSettings()
    files = storage.expand(str(source), FAMILY.suffixes)
    checked = [check_file(FAMILY, file, settings) for file in files]
    assert [fault for one in checked for fault in one.faults] == []
    assert FAMILY.validate_dataset(files, checked) == []
    assert FAMILY.require_labels(files, checked) == []
    headers = [FAMILY.read_header(file, settings) for file in files]
    (part,) = FAMILY.plan(files, headers, settings)
    rows = read_part(part, INSTANCES_IN.of(settings)).to_pylist()
    bags = {row["bag_id"]: [] for row in rows}
    labels = {row["bag_id"]: row["label"] for row in rows if row["label"] is not None}
    for row in rows:
        if row["features"] is not None:
            bags[row["bag_id"]].append(row["features"])
    return bags, labels


def write_labels(folder):
    """Write the labels of arrays that have none."""
    lines = ["bag_id,label,features", *(f"{name},{label}," for name, label in LABELS.items())]
    (folder / "labels.csv").write_text("\n".join(lines))


def wanted():
    return {name: np.asarray(bag).tolist() for name, bag in BAGS.items()}


def test_an_array_a_bag_with_the_labels_in_a_table(tmp_path):
    with h5py.File(tmp_path / "bags.h5", "w") as file:
        file["n"] = 3
        for name, bag in BAGS.items():
            file[name] = np.asarray(bag, np.float32)
    write_labels(tmp_path)
    assert read(tmp_path) == (wanted(), LABELS)


def test_a_table_of_arrays_by_the_users_names(tmp_path):
    table = {
        "features": np.concatenate([np.asarray(bag) for bag in BAGS.values()]),
        "patient": np.array(["a", "a", "b"]),
        "relapse": np.array([True, True, False]),
        "place": np.zeros((3, 2)),
    }
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, array in table.items():
            file[name] = array.astype("S") if array.dtype.kind == "U" else array
    settings = BagSettings(columns={"bag_id": "patient", "label": "relapse"})
    bags, labels = read(tmp_path / "x.h5", settings)
    assert bags == {name: bag for name, bag in wanted().items() if bag}
    assert labels == {"a": 1, "b": 0}
    with opened(str(tmp_path / "x.h5")) as (schema, _):
        assert json.loads(schema.metadata[NOTES]) == ["left out: place"]


def test_a_file_a_bag_and_a_group_a_bag(tmp_path):
    for name, bag in BAGS.items():
        with h5py.File(tmp_path / f"{name}.hdf5", "w") as file:
            file["features"], file["label"] = np.asarray(bag), LABELS[name]
    assert read(tmp_path) == (wanted(), LABELS)
    with h5py.File(tmp_path / "all.h5", "w") as file:
        for name, bag in BAGS.items():
            group = file.create_group(name)
            group["features"] = np.asarray(bag)
            group.attrs["label"] = LABELS[name]
    assert read(tmp_path / "all.h5") == (wanted(), LABELS)


def test_what_is_damaged_is_refused(tmp_path):
    (tmp_path / "empty.h5").touch()
    (tmp_path / "text.h5").write_text("no HDF5")
    with h5py.File(tmp_path / "whole.h5", "w") as file:
        file["features"] = np.zeros((500, 20))
    (tmp_path / "cut.h5").write_bytes((tmp_path / "whole.h5").read_bytes()[:3000])
    for name in ("empty.h5", "text.h5", "cut.h5"):
        with pytest.raises(StorageError, match=f"cannot read .*{name} as arrays: "):
            storage.read_table(str(tmp_path / name))


def test_masked_columns_of_an_anndata_have_missing_cells(tmp_path):
    """As pandas' Int64, boolean and string columns are written."""
    masked = {"age": [41, 7, 43], "smokes": [True, True, False], "site": [b"x", b"", b"y"]}
    with h5py.File(tmp_path / "cells.h5ad", "w") as file:
        file.attrs["encoding-type"] = "anndata"
        file["X"] = np.ones((3, 2), np.float32)
        obs = file.create_group("obs")
        obs.attrs["_index"] = "_index"
        obs["_index"] = [b"a", b"b", b"c"]
        for name, values in masked.items():
            obs[f"{name}/values"], obs[f"{name}/mask"] = values, [False, True, False]
    rows = storage.read_table(str(tmp_path / "cells.h5ad"))
    assert [rows[name].to_pylist() for name in masked] == [
        [41, None, 43],
        [True, None, False],
        ["x", None, "y"],
    ]
