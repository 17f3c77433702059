"""The one seam to storage, numbered call by call: the n-th stops the process, or fails.

A stop is what ``kill -9`` is: from then on every call of storage raises `Killed`, in every
thread and in every ``finally``, so that nothing can be tidied up.
"""

from __future__ import annotations

import builtins
import errno
import os
import threading
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.storage.formats import tables
from flows.storage.objects import inputs, staging
from flows.storage.objects import store as objects

FAULTS = ("no space", "I/O error", "short read")
_OF_WRITING = ("create", "write")


class Killed(BaseException):
    """The process is no more."""


class Seam:
    """Counts the calls of storage; stops the process or lets a call fail at a given place.

    Parameters
    ----------
    stop_at
        Number of the changing call (from 1) before which the process ends.
    half
        Whether that call is half done then, where it can be.
    fail_at, fault
        Number of the call, of all that the fault can befall, and one of `FAULTS`: a disk
        stays full, the others befall one call.

    Attributes
    ----------
    changes
        (kind, path) of every call that changed storage.
    befallen
        Number of calls that the fault could have befallen.
    """

    def __init__(
        self,
        stop_at: int | None = None,
        half: bool = False,
        fail_at: int | None = None,
        fault: str = "",
    ) -> None:
        self.stop_at, self.half = stop_at, half
        self.fail_at, self.fault = fail_at, fault
        self.changes: list[tuple[str, str]] = []
        self.befallen = 0
        self.dead = False
        self._lock = threading.RLock()

    def enter(self, patch: pytest.MonkeyPatch) -> Seam:
        """Stand between flows.storage and the file systems."""
        for module in (objects, inputs, staging):
            patch.setattr(module, "filesystem", _filesystem(self, module.filesystem))
        patch.setattr(objects, "os", _Os(self))
        patch.setattr(
            objects, "open", lambda path, mode="r": _open(self, path, mode), raising=False
        )
        patch.setattr(tables, "pq", _Parquet(self))
        patch.setattr(tables, "arrow", _arrow(self, tables.arrow))
        return self

    def alive(self) -> None:
        """Raise `Killed` where the process is no more."""
        if self.dead:
            raise Killed

    def change(
        self, kind: str, path: str, do: Callable[[], Any], half: Callable[[], Any] | None = None
    ) -> Any:
        """Make a call that changes storage."""
        with self._lock:
            self.alive()
            self.changes.append((kind, path))
            if len(self.changes) == self.stop_at:
                self.dead = True
                if self.half and half is not None:
                    half()
                raise Killed
            if self.fault == "no space" and kind in _OF_WRITING and self._befalls(for_good=True):
                raise OSError(errno.ENOSPC, "No space left on device", path)
            if self.fault == "I/O error" and self._befalls():
                raise OSError(errno.EIO, "Input/output error", path)
        return do()

    def look(self, path: str, do: Callable[[], Any], whole: bool = False) -> Any:
        """Make a call that changes nothing; `whole` if it returns all bytes of a file."""
        with self._lock:
            self.alive()
            if self.fault == "I/O error" and self._befalls():
                raise OSError(errno.EIO, "Input/output error", path)
            short = whole and self.fault == "short read" and self._befalls()
        found = do()
        return found[: len(found) // 2] if short else found

    def short(self) -> bool:
        """Whether the file that is opened now gives only its first half."""
        with self._lock:
            return self.fault == "short read" and self._befalls()

    def _befalls(self, for_good: bool = False) -> bool:
        self.befallen += 1
        if self.fail_at is None:
            return False
        return self.befallen >= self.fail_at if for_good else self.befallen == self.fail_at


def _filesystem(seam: Seam, original: Callable[[str], Any]) -> Callable[[str], Any]:
    def filesystem(url: str) -> tuple[Any, str]:
        fs, path = original(url)
        return _FileSystem(seam, fs), path

    return filesystem


class _FileSystem:
    """One of fsspec's file systems."""

    def __init__(self, seam: Seam, fs: Any) -> None:
        self._seam, self._fs = seam, fs

    def __getattr__(self, name: str) -> Any:
        self._seam.alive()
        return getattr(self._fs, name)

    def pipe_file(self, path: str, data: bytes, **options: Any) -> Any:
        return self._seam.change("write", path, lambda: self._fs.pipe_file(path, data, **options))

    def cp_file(self, source: str, path: str) -> Any:
        return self._seam.change("write", path, lambda: self._fs.cp_file(source, path))

    def rm_file(self, path: str) -> Any:
        return self._seam.change("delete", path, lambda: self._fs.rm_file(path))

    def rm(self, path: str, recursive: bool = False) -> Any:
        def half() -> None:
            found = self._fs.find(path)
            for name in found[: len(found) // 2]:
                self._fs.rm_file(name)

        return self._seam.change(
            "delete", path, lambda: self._fs.rm(path, recursive=recursive), half
        )

    def cat_file(self, path: str, **options: Any) -> Any:
        return self._seam.look(path, lambda: self._fs.cat_file(path, **options), whole=True)

    def info(self, path: str) -> Any:
        return self._seam.look(path, lambda: self._fs.info(path))

    def ls(self, path: str, **options: Any) -> Any:
        return self._seam.look(path, lambda: self._fs.ls(path, **options))


class _Os:
    """The module os as flows.storage.objects.store uses it."""

    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, number: int) -> None:
        """Wait for nothing: a killed process loses nothing that it has written."""

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        if not os.path.isdir(path):
            self._seam.change("create", path, lambda: os.makedirs(path, exist_ok=exist_ok))

    def replace(self, source: str, path: str) -> None:
        self._seam.change("rename", path, lambda: os.replace(source, path))

    def remove(self, path: str) -> None:
        self._seam.change("delete", path, lambda: os.remove(path))

    def rmdir(self, path: str) -> None:
        self._seam.change("delete", path, lambda: os.rmdir(path))


def _open(seam: Seam, path: str, mode: str) -> Any:
    if mode not in ("wb", "xb"):
        return seam.look(path, lambda: builtins.open(path, mode))
    return _Written(seam, path, seam.change("create", path, lambda: builtins.open(path, mode)))


class _Written:
    """A file that is written to."""

    def __init__(self, seam: Seam, path: str, file: Any) -> None:
        self._seam, self._path, self._file = seam, path, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Written:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, data: bytes) -> Any:
        return self._seam.change(
            "write",
            self._path,
            lambda: self._file.write(data),
            lambda: self._file.write(data[: len(data) // 2]),
        )


class _Parquet:
    """The module pyarrow.parquet as flows.storage.formats.tables uses it."""

    def __init__(self, seam: Seam) -> None:
        self._seam = seam

    def __getattr__(self, name: str) -> Any:
        return getattr(pq, name)

    def write_table(self, table: pa.Table, where: Any, **options: Any) -> None:
        if not isinstance(where, str):
            pq.write_table(table, where, **options)
            return

        def half() -> None:
            pq.write_table(table, where, **options)
            os.truncate(where, os.path.getsize(where) // 2)

        self._seam.change("write", where, lambda: pq.write_table(table, where, **options), half)


def _arrow(seam: Seam, original: Callable[[str], Any]) -> Callable[[str], Any]:
    def arrow(url: str) -> tuple[Any, str]:
        fs, path = seam.look(url, lambda: original(url))
        return (_Short(fs) if seam.short() else fs), path

    return arrow


class _Short:
    """One of Arrow's file systems that gives the first half of each file."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def open_input_file(self, path: str) -> pa.BufferReader:
        with self._fs.open_input_file(path) as file:
            return pa.BufferReader(file.read(file.size() // 2))

    open_input_stream = open_input_file
