"""Storage on the real local file system and fsspec's memory store; S3 has its own tests."""

import os
import threading

import pyarrow as pa
import pytest

from flows import storage
from flows.faults import InputError
from flows.storage import StorageError
from flows.storage.errors import storage_errors
from tests.faults.seam import Seam

TABLE = pa.table({"a": [1, 2, 3], "b": ["x", "y", None]})


@pytest.fixture(params=["local", "memory"])
def root(request, tmp_path):
    if request.param == "local":
        yield str(tmp_path)
    else:
        url = f"memory://{tmp_path.name}"
        yield url
        storage.delete(url)


def test_bytes_and_tables_come_back(root):
    storage.write_bytes(storage.join(root, "deep", "er.bin"), b"abc")
    storage.write_table(storage.join(root, "t", "x.parquet"), TABLE)
    assert storage.read_bytes(storage.join(root, "deep", "er.bin")) == b"abc"
    assert storage.read_table(storage.join(root, "t", "x.parquet")).equals(TABLE)
    assert storage.read_table(storage.join(root, "t", "x.parquet"), ["b"]).column_names == ["b"]
    assert storage.names(root) == ["deep", "t"]
    assert [b.num_rows for b in storage.read_batches(f"{root}/t/x.parquet", 2)] == [2, 1]


def test_delete_is_recursive_and_forgiving(root):
    storage.write_bytes(storage.join(root, "d", "e", "f"), b"1")
    storage.delete(storage.join(root, "d"))
    storage.delete(storage.join(root, "d"))
    assert not storage.exists(storage.join(root, "d", "e", "f"))
    assert storage.names(storage.join(root, "d")) == []


def test_create_writes_once(root):
    url = storage.join(root, "lock")
    assert storage.create_bytes(url, b"first")
    assert not storage.create_bytes(url, b"second")
    assert storage.read_bytes(url) == b"first"


def test_half_of_an_object_is_not_copied(tmp_path, monkeypatch):
    source, target = str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")
    storage.write_table(source, TABLE)
    with monkeypatch.context() as patch:
        Seam(fail_at=1, fault="short read").enter(patch)
        with pytest.raises(
            storage.TransientStorageError, match=r"a\.parquet: it has .* bytes, got"
        ):
            storage.copy(source, target)
    assert not os.path.exists(target)


def test_expand_orders_by_name_and_leaves_out_the_hidden(root):
    for name in ("b.parquet", "a.parquet", "c.csv", ".hidden.parquet", "_metadata.parquet"):
        storage.write_bytes(storage.join(root, "in", name), b"12345")
    found = storage.expand(storage.join(root, "in"), [".parquet"])
    assert [file.url.rsplit("/", 1)[-1] for file in found] == ["a.parquet", "b.parquet"]
    assert {file.size for file in found} == {5}
    assert storage.expand(f"{root}/in/*.csv", [".parquet"])[0].url.endswith("c.csv")
    assert storage.read_bytes(found[0].url) == b"12345"


def test_a_changed_file_has_another_fingerprint(tmp_path):
    path = tmp_path / "x.parquet"
    path.write_bytes(b"1")
    before = storage.expand(str(path), [])[0].fingerprint
    assert storage.expand(str(path), [])[0].fingerprint == before
    path.write_bytes(b"2")
    os.utime(path, (1, 1))
    assert storage.expand(str(path), [])[0].fingerprint != before


@pytest.mark.parametrize("part", ["..", "a/../../b", "/etc", "", "a\x00b", "a\nb", "a\\b"])
def test_names_cannot_leave_the_folder(part):
    with pytest.raises(StorageError, match="cannot be the name"):
        storage.join("/target", part)


def test_a_reader_sees_the_old_bytes_or_the_new(tmp_path):
    url = str(tmp_path / "latest.json")
    old, new = b"a" * 200_000, b"b" * 200_000
    storage.write_bytes(url, old)
    seen: set[bytes] = set()
    stop = threading.Event()

    def read() -> None:
        while not stop.is_set():
            seen.add(storage.read_bytes(url))

    reader = threading.Thread(target=read)
    reader.start()
    for i in range(40):
        storage.write_bytes(url, new if i % 2 else old)
    stop.set()
    reader.join()
    assert seen <= {old, new}


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(StorageError, match=r"cannot read .*nope: there is no such file or folder"):
        storage.read_bytes(str(tmp_path / "nope"))
    with pytest.raises(StorageError, match="no input found"):
        storage.expand(str(tmp_path / "*.parquet"), [".parquet"])
    with pytest.raises(StorageError, match="no such file"):
        storage.expand(str(tmp_path / "absent"), [".parquet"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full for a full disk")
def test_a_full_disk_has_its_sentence(tmp_path, monkeypatch):
    real_open = open

    def full(path, mode="r", *args, **kwargs):
        target = "/dev/full" if str(path).endswith(".part") else path
        return real_open(target, mode, *args, **kwargs)

    monkeypatch.setattr("builtins.open", full)
    with pytest.raises(StorageError, match="no space is left there"):
        storage.write_bytes(str(tmp_path / "x"), b"1" * 100_000)


def test_a_folder_that_is_a_file_has_its_sentence(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InputError, match="cannot write") as caught:
        storage.check_writable(str(tmp_path / "file"), "runs")
    assert "probe" not in str(caught.value)


def test_a_check_of_a_target_that_was_killed_is_gone_with_the_next(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "remove", interrupts)
        with pytest.raises(KeyboardInterrupt):
            storage.check_writable(str(tmp_path))
    assert len(os.listdir(tmp_path)) == 1
    storage.check_writable(str(tmp_path))
    assert os.listdir(tmp_path) == []


def interrupts(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    "said",
    [
        "When reading information for key 'features/table.parquet' in bucket 'in': AWS Error "
        "NETWORK_CONNECTION during HeadObject operation: curlCode: 52, Server returned nothing",
        "Could not open 'a/table.parquet': the connection was reset",
    ],
)
def test_a_store_that_does_not_answer_damages_no_file_by_its_name(said):
    with (
        pytest.raises(storage.TransientStorageError),
        storage_errors("read", "s3://in/table.parquet"),
    ):
        raise OSError(said)
    with pytest.raises(storage.DamagedError), storage_errors("read", "s3://in/table.parquet"):
        raise OSError("Couldn't deserialize thrift: TProtocolException: Invalid data")


def test_a_web_address_that_gives_nothing_says_what_to_do():
    error = FileNotFoundError("x.csv")
    said = "the server does not give it; download it"
    with pytest.raises(StorageError, match=said), storage_errors("read", "https://host/x.csv"):
        raise error
