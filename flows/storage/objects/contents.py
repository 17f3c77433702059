"""Small files of an object store: each comes whole with one request, and stays for later readers.

A footer, then the columns, then a look whether the file has changed are three requests and more. A
store says with the bytes which version they are of, so that one request is enough.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from itertools import accumulate
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from fsspec.asyn import sync

from flows.storage.objects.access import AT_ONCE, filesystem
from flows.storage.objects.inputs import (
    InputFile,
    fingerprint_of,
    refuse_changed,
    refuse_mark,
    version_mark,
)
from flows.storage.objects.retry import asks_storage, expect
from flows.storage.objects.urls import is_local

V = TypeVar("V")

SMALL = 8 * 2**20  # bytes of a file that is fetched whole
HELD = 256 * 2**20  # bytes of files that stay
SENT = 8 * 2**20  # bytes of files that go along with a task; Dask warns of more than 10 MB

_NOTHING: Mapping[InputFile, bytes] = MappingProxyType({})
_listed: ContextVar[Mapping[str, InputFile] | None] = ContextVar("listed", default=None)
_sent: ContextVar[Mapping[InputFile, bytes]] = ContextVar("sent", default=_NOTHING)


@contextmanager
def sharing(
    files: Iterable[InputFile], sent: Mapping[InputFile, bytes] = _NOTHING
) -> Iterator[None]:
    """Let readers in this context share what they read of these versions of files.

    ``sent`` is what another process has read of them (`Contents.to_send`).
    """
    token, sent_token = _listed.set({file.url: file for file in files}), _sent.set(sent)
    try:
        yield
    finally:
        _listed.reset(token)
        _sent.reset(sent_token)


def listed_file(url: str) -> InputFile | None:
    """Return the version of a file under which what is read of it may be shared."""
    files = _listed.get()
    return None if files is None else files.get(url)


def version_of(url: str) -> str:
    """Return what marks the version of a file: what is listed of it, else what is there now."""
    listed = listed_file(url)
    return fingerprint_of(url) if listed is None else listed.fingerprint


@dataclass
class Once(Generic[V]):
    """What the first thread makes while the others wait."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    made: V | None = None

    def get(self, make: Callable[[], V]) -> V:
        """Return it; of several threads one makes it."""
        with self.lock:
            if self.made is None:
                self.made = make()
            return self.made


class Contents:
    """The bytes of small files that one process holds, by their versions."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[InputFile, Once[bytes]] = OrderedDict()
        self._size = 0
        self._seen: set[InputFile] = set()

    def release(self) -> None:
        """Drop all of it."""
        with self._lock:
            self._held.clear()
            self._seen.clear()
            self._size = 0

    def get(self, file: InputFile) -> bytes:
        """Return the bytes of this version of a file.

        Raises `StorageError` if there is another version by now.
        """
        with self._lock:
            if file not in self._held:
                self._size += file.size
            once = self._held.setdefault(file, Once())
            self._held.move_to_end(file)
            while self._size > HELD and len(self._held) > 1:
                self._size -= self._held.popitem(last=False)[0].size
        data = once.get(lambda: _fetch(file.url, file.size, file.fingerprint))
        self._seen.add(file)
        return data

    def to_send(self, files: Iterable[InputFile]) -> dict[InputFile, bytes]:
        """Return what is held of some files, at most `SENT` bytes, so that it is not got twice."""
        with self._lock:
            held = (file for file in files if file in self._held and file in self._seen)
            return {file: self._held[file].made or b"" for file in _first([*held], SENT)}

    def has_seen(self, file: InputFile) -> bool:
        """Whether all that was read of a file is known to be of this version."""
        return file in self._seen or file in _sent.get()


small_files = Contents()  # of this process


def small_content(url: str) -> bytes | None:
    """Return the bytes of a small file of a store whose version is known; None of any other."""
    file = listed_file(url)
    if file is None or not _is_small(file):
        return None
    return _sent.get().get(file) or small_files.get(file)


def looks_at_once(files: Iterable[InputFile]) -> int:
    """Return how many files to look at at once: small ones of a store are mostly waited for."""
    return AT_ONCE if all(map(_is_small, files)) else 8


def fetch_ahead(urls: Iterable[str]) -> None:
    """Fetch small files of a store side by side, before they are read one after another.

    Of more than this process holds, the first ones.
    """
    files = [file for url in urls if (file := listed_file(url)) and _is_small(file)]
    first = [file.url for file in _first(files, HELD)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        fetches = [pool.submit(copy_context().run, small_content, url) for url in first]
        while fetches:
            fetches.pop().result()  # its bytes stay with `small_files` alone, which bounds them


def _is_small(file: InputFile) -> bool:
    return not is_local(file.url) and 0 < file.size <= SMALL


def _first(files: Sequence[InputFile], most: int) -> list[InputFile]:
    """Return the first files that have at most so many bytes together."""
    ends = accumulate(file.size for file in files)
    return [file for file, end in zip(files, ends, strict=True) if end <= most]


@asks_storage("read")
def _fetch(url: str, size: int, fingerprint: str) -> bytes:
    """Get a whole file, and refuse another version than the listed one."""
    fs, path = filesystem(url)
    expect(size)
    if "s3" not in fs.protocol:
        data = bytes(fs.cat_file(path))
        refuse_changed(url, fingerprint)
        return data
    data, info = sync(fs.loop, _get_object, fs, path)
    refuse_mark(url, fingerprint, version_mark(info))
    return data


async def _get_object(fs: Any, path: str) -> tuple[bytes, dict[str, Any]]:
    """Return an object of S3 and what marks its version, as a listing says it."""
    bucket, key, _ = fs.split_path(path)
    client = await fs.get_s3(bucket)
    answer = await client.get_object(Bucket=bucket, Key=key, **fs.req_kw)
    async with answer["Body"] as body:
        data = await body.read()
    marks = {name: answer.get(name) for name in ("ETag", "LastModified")}
    return data, {"size": len(data), **marks}
