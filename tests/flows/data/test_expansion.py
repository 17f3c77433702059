"""Compressed inputs that grow beyond measure are refused by their size, with a setting."""

import gzip

import numpy as np
import pytest

from flows import storage
from flows.cli import main
from flows.storage import StorageError
from flows.storage.objects import staging


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    monkeypatch.setattr(staging, "FREE", 2**16)
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "staging"))
    monkeypatch.delenv(staging.SETTING, raising=False)


def zeros(rows):
    return "a,b\n" + "1,2\n" * rows


def packed_csv(path):
    path.write_bytes(gzip.compress(zeros(200_000).encode()))


def packed_hdf5(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_dataset("features", data=np.zeros((10**5, 10)), compression="gzip")


BOMBS = {"x.csv.gz": packed_csv, "x.h5": packed_hdf5}


@pytest.mark.parametrize("name", list(BOMBS))
def test_a_file_that_grows_too_far_is_refused(tmp_path, name, monkeypatch):
    BOMBS[name](tmp_path / name)
    with pytest.raises(StorageError) as caught:
        storage.read_table(str(tmp_path / name))
    text = str(caught.value)
    assert name in text
    assert "grows to more than" in text
    assert "raise VBFLOWS_INPUT_GIB (GiB)" in text
    assert "\n" not in text


@pytest.mark.parametrize("name", list(BOMBS))
def test_those_who_mean_it_set_the_limit(tmp_path, name, monkeypatch):
    BOMBS[name](tmp_path / name)
    monkeypatch.setenv(staging.SETTING, "0.1")
    assert storage.read_table(str(tmp_path / name)).num_rows >= 10**5
    monkeypatch.setenv(staging.SETTING, "much")
    (tmp_path / name).touch()  # what was read of it before is another version's
    with pytest.raises(StorageError, match=r"number of GiB above 0 in VBFLOWS_INPUT_GIB"):
        storage.read_table(str(tmp_path / name))


def test_an_ordinary_compressed_file_is_read(tmp_path):
    rng = np.random.default_rng(0)
    text = "a,b\n" + "".join(f"{x:.6f},{x:.3f}\n" for x in rng.standard_normal(30_000))
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert storage.read_table(str(path)).num_rows == 30_000


def test_the_command_ends_with_2(tmp_path, capsys):
    path = tmp_path / "rows.csv.gz"
    packed_csv(path)
    with pytest.raises(SystemExit) as ended:
        main(["experts", str(path), str(tmp_path / "out"), "--workers=0"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "rows.csv.gz" in said
    assert "VBFLOWS_INPUT_GIB" in said
