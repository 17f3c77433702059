"""Small objects of a store: fetched once, held within a bound, and refused in another version."""

import os

import fsspec
import pyarrow as pa
import pytest

from flows import storage
from flows.storage.errors import ChangedError
from flows.storage.objects import contents
from tests.faults import stores
from tests.faults.proxy import Proxy

NAMES = [f"{i}.txt" for i in range(12)]


@pytest.fixture
def objects(tmp_path, monkeypatch):
    """Twelve objects of a thousand bytes in a store, and the proxy before it."""
    (tmp_path / "s3" / "in").mkdir(parents=True)
    for name in NAMES:
        (tmp_path / "s3" / "in" / name).write_bytes(name.encode().ljust(1000))
    server = stores.Rclone(tmp_path / "s3")
    proxy = Proxy(server.port)
    stores.enter(monkeypatch, proxy.url)
    yield storage.expand("s3://in", [".txt"]), proxy
    storage.small_files.release()
    proxy.close()
    server.kill()


def fetched(proxy):
    return sum(line.startswith("GET") and ".txt" in line for line in proxy.seen)


def test_objects_are_fetched_side_by_side_and_once(objects):
    files, proxy = objects
    with storage.sharing(files):
        storage.fetch_ahead(file.url for file in files)
        read = [contents.small_content(file.url) for file in files]
    assert [one[:1000].split()[0].decode() for one in read] == sorted(NAMES)
    assert fetched(proxy) == len(NAMES)
    assert all(storage.small_files.has_seen(file) for file in files)


def test_no_more_is_held_than_the_bound(objects, monkeypatch):
    files, proxy = objects
    monkeypatch.setattr(contents, "HELD", 3500)
    with storage.sharing(files):
        storage.fetch_ahead(file.url for file in files)
        assert fetched(proxy) == 3
        for file in files:
            contents.small_content(file.url)
    held = storage.small_files._held
    assert sum(file.size for file in held) == storage.small_files._size == 3000


def test_what_the_check_fetched_goes_along_with_a_task(objects, monkeypatch):
    files, proxy = objects
    monkeypatch.setattr(contents, "SENT", 10_500)
    with storage.sharing(files):
        storage.fetch_ahead(file.url for file in files)
        sent = storage.small_files.to_send(files)
    storage.small_files.release()  # as in another process
    with storage.sharing(files, sent):
        read = [contents.small_content(file.url) for file in files]
        assert all(storage.small_files.has_seen(file) for file in files)
    assert [one.split()[0].decode() for one in read] == sorted(NAMES)
    assert fetched(proxy) == len(NAMES) + 2  # what was too much
    assert not storage.small_files.has_seen(files[0])


def test_another_version_is_refused(objects, tmp_path):
    files, _ = objects
    path = tmp_path / "s3" / "in" / NAMES[0]
    path.write_bytes(b"other".ljust(1000))
    os.utime(path, ns=(1, 10**18))
    with storage.sharing(files), pytest.raises(ChangedError, match=r"0\.txt has changed"):
        contents.small_content("s3://in/0.txt")


def test_an_arrow_file_is_read_from_what_was_fetched(monkeypatch):
    sink = pa.BufferOutputStream()
    table = pa.table({"a": [1, 2]})
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    store = fsspec.filesystem("memory")
    store.pipe_file("/in/x.arrow", sink.getvalue().to_pybytes())
    (file,) = storage.expand("memory://in/x.arrow", [".arrow"])
    with storage.sharing([file]):
        assert contents.small_content(file.url)
        monkeypatch.setattr(type(store), "_open", pytest.fail)
        assert storage.read_table(file.url).equals(table)
    storage.small_files.release()
