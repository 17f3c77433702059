"""Any store that fsspec knows, by a protocol of the test's own, without a network."""

import hashlib
import io
from typing import ClassVar

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.spec import AbstractFileSystem

from flows import storage
from flows.cli import main
from flows.storage.objects.inputs import fingerprint_of


class Shelf(AbstractFileSystem):
    """A store as the one behind ``hf://`` is: versions are marked by a digest, not by a time."""

    protocol = "shelf"
    cachable = False
    files: ClassVar[dict[str, bytes]] = {}

    def ls(self, path, detail=True, **_):
        path = self._strip_protocol(path).rstrip("/")
        found = []
        for name, data in self.files.items():
            if name == path:
                digest = hashlib.sha256(data).hexdigest()
                found.append({"name": name, "size": len(data), "type": "file", "blob_id": digest})
            elif name.startswith(f"{path}/"):
                child, deeper, _ = name.removeprefix(f"{path}/").partition("/")
                if deeper:
                    found.append({"name": f"{path}/{child}", "size": 0, "type": "directory"})
                else:
                    found += self.ls(name)
        if not found:
            raise FileNotFoundError(path)
        unique = {one["name"]: one for one in found}
        return list(unique.values()) if detail else sorted(unique)

    def _open(self, path, mode="rb", **_):
        if mode != "rb":
            raise NotImplementedError("a shelf is for reading")
        return io.BytesIO(self.files[self._strip_protocol(path)])


@pytest.fixture
def shelf(monkeypatch):
    fsspec.register_implementation("shelf", Shelf, clobber=True)
    monkeypatch.setattr(Shelf, "files", {})
    return Shelf.files


def parquet(columns):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def test_a_folder_of_another_store_is_read_as_any(shelf, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "copies"))
    shelf["datasets/me/corpus/a/one.parquet"] = parquet(
        {"doc_id": ["a"], "text": ["cats and a cat"], "keywords": [["cat"]]}
    )
    shelf["datasets/me/corpus/two.csv"] = b"doc_id,text,keywords\nb,dogs and a dog,dog\n"
    shelf["datasets/me/corpus/README"] = b"no table"
    found = storage.expand("shelf://datasets/me/corpus", storage.SUFFIXES)
    assert [f.url for f in found] == [
        "shelf://datasets/me/corpus/a/one.parquet", "shelf://datasets/me/corpus/two.csv",
    ]  # fmt: skip
    with pytest.raises(SystemExit) as stopped:
        main(["check", "keywords", "shelf://datasets/me/corpus", "--json"])
    assert stopped.value.code == 0
    assert '"rows": 2' in capsys.readouterr().out.replace('"rows":2', '"rows": 2')


def test_a_version_is_known_by_the_stores_own_mark(shelf):
    url = "shelf://datasets/me/a.parquet"
    shelf["datasets/me/a.parquet"] = b"one"
    (before,) = storage.expand(url, storage.SUFFIXES)
    assert before.fingerprint == fingerprint_of(url)
    shelf["datasets/me/a.parquet"] = b"two"  # as long as before
    with pytest.raises(storage.StorageError, match="has changed since this run first read it"):
        storage.refuse_changed(url, before.fingerprint)
