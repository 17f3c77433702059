"""Digests of what a run makes for itself and reads again: a changed byte is never computed with.

Arrays and tables below ``runs/RUN_ID/work`` and ``kept`` end in a seal: a digest of every block,
and one of these. Its place is the file itself, so that one write has both. JSON files have a
checksum among their fields, and are not sealed. A published table must stay Parquet: its pages
have checksums, and what stands before its footer, where Parquet reads nothing, is a digest of that.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
from typing import Any

from flows.storage.errors import DamagedError

BLOCK = 2**16  # bytes under one digest, which a reader of a part fetches whole
_SIZE = 16  # bytes of a digest
_TAIL = struct.Struct(f"<Q{_SIZE}s8s")  # bytes of data, digest of the digests, mark
_MARK = b"vbflows\x01"
_FETCHED = 2**16  # bytes of a file's end, in which the seals of most files are
_WORKING = re.compile(r"/runs/\d{8}T\d{6}-[0-9a-f]{6}/(work|kept)/.*\.(npz|parquet)$")


def is_working(url: str) -> bool:
    """Whether a URL names what a run makes for itself and seals.

    >>> is_working("/target/runs/20260102T030405-0a1b2c/work/rows/part-00000.parquet")
    True
    >>> is_working("/target/runs/20260102T030405-0a1b2c/rows/part-00000.parquet")
    False
    """
    return _WORKING.search(url) is not None


_TABLE = re.compile(r"/runs/\d{8}T\d{6}-[0-9a-f]{6}/(?!work/|kept/).*\.parquet$")
_FOOTER_MARK = b"vbflows\x02"
_PARQUET_END = struct.Struct("<I4s")  # bytes of the footer, mark


def is_table(url: str) -> bool:
    """Whether a URL names a table that a run has published.

    >>> is_table("/target/runs/20260102T030405-0a1b2c/rows/part-00000.parquet")
    True
    """
    return _TABLE.search(url) is not None


def with_footer_seal(data: bytes) -> bytes:
    """Return a Parquet file with a digest of its footer."""
    start = len(data) - footer_size(data) + _SIZE + len(_FOOTER_MARK)
    return data[:start] + _FOOTER_MARK + _digest(data[start:]) + data[start:]


def footer_size(end: bytes) -> int:
    """Return how many bytes a Parquet file's footer has with its seal, by the file's end."""
    if len(end) < _PARQUET_END.size:
        return 0
    length, _ = _PARQUET_END.unpack(end[-_PARQUET_END.size :])
    return int(length) + _PARQUET_END.size + len(_FOOTER_MARK) + _SIZE


def check_footer(end: bytes, url: str) -> None:
    """Raise `DamagedError` where the footer in a file's end is not what was written."""
    stored = end[len(end) - footer_size(end) :][: len(_FOOTER_MARK) + _SIZE]
    footer = end[len(end) - footer_size(end) + len(stored) :]
    if stored != _FOOTER_MARK + _digest(footer):
        raise _damaged(url, "its end is not what was written")


def seal(data: bytes) -> bytes:
    """Return what follows some data in a sealed file."""
    view = memoryview(data)
    digests = b"".join(_digest(view[i : i + BLOCK]) for i in range(0, len(data), BLOCK))
    return digests + _TAIL.pack(len(data), _digest(digests), _MARK)


def unsealed(content: bytes, url: str) -> bytes:
    """Return the data of a sealed file.

    Raises
    ------
    DamagedError
        If it is cut short or changed.
    """
    length, digests = _seal_of(content, len(content), url)
    view = memoryview(content)[:length]
    _check(view, digests, url)
    return bytes(view)


class Sealed(io.RawIOBase):
    """A sealed file that is read in parts: what is fetched is checked, in whole blocks.

    Parameters
    ----------
    fs, path
        Its file system, and the path on it.
    url
        Its name in messages.
    """

    def __init__(self, fs: Any, path: str, url: str) -> None:
        super().__init__()
        self._fs, self._path, self._url = fs, path, url
        size = int(fs.info(path)["size"])
        end = fs.cat_file(path, start=max(size - _FETCHED, 0), end=size)
        needed = _seal_size(end, url)
        if needed > len(end):
            end = fs.cat_file(path, start=max(size - needed, 0), end=size)
        self._length, self._digests = _seal_of(end, size, url)
        self._at = 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def seekable(self) -> bool:
        """Whether it can be read from any place."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place in the data."""
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence]
        self._at = max(start + offset, 0)
        return self._at

    def tell(self) -> int:
        """Return the place in the data."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read data from where it is."""
        stop = min(self._at + len(buffer), self._length)
        if stop <= self._at:
            return 0
        first, last = self._at // BLOCK, -(-stop // BLOCK)
        low, high = first * BLOCK, min(last * BLOCK, self._length)
        blocks = memoryview(self._fs.cat_file(self._path, start=low, end=high))
        _check(blocks, self._digests[first * _SIZE : last * _SIZE], self._url)
        buffer[: stop - self._at] = blocks[self._at - low : stop - low]
        read, self._at = stop - self._at, stop
        return read


def _digest(data: Any) -> bytes:
    return hashlib.blake2b(data, digest_size=_SIZE).digest()


def _seal_size(end: bytes, url: str) -> int:
    """Return how many bytes a seal has, by the end of its file."""
    if len(end) < _TAIL.size or not end.endswith(_MARK):
        raise _damaged(url, "it is cut short, or its end is changed")
    length, _, _ = _TAIL.unpack(end[-_TAIL.size :])
    return -(-int(length) // BLOCK) * _SIZE + _TAIL.size


def _seal_of(end: bytes, size: int, url: str) -> tuple[int, bytes]:
    """Return the bytes of data and their digests, by the end of a file of so many bytes."""
    needed = _seal_size(end, url)
    length, digest, _ = _TAIL.unpack(end[-_TAIL.size :])
    digests = end[-needed : -_TAIL.size] if needed <= len(end) else b""
    if length + needed != size or _digest(digests) != digest:
        raise _damaged(url, "its size or its seal is not what was written")
    return int(length), digests


def _check(blocks: memoryview, digests: bytes, url: str) -> None:
    computed = b"".join(_digest(blocks[i : i + BLOCK]) for i in range(0, len(blocks), BLOCK))
    if computed != digests:
        raise _damaged(url, "its bytes are not what was written")


def _damaged(url: str, what: str) -> DamagedError:
    return DamagedError(f"{url} is damaged: {what}", url)
