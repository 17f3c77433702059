"""Input files: found by a path, folder, glob or URL, and told apart from changed ones."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from flows.storage.access import filesystem
from flows.storage.errors import StorageError, persistent, told
from flows.storage.urls import absolute, is_local, shown

_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class InputFile:
    """One input object and what tells whether it has changed."""

    url: str
    size: int  # bytes
    fingerprint: str  # of the ETag or of the modification time, with the size


def expand(source: str, suffixes: Sequence[str]) -> list[InputFile]:
    """Resolve a path, folder, glob or URL to its files, in order of their names.

    Parameters
    ----------
    source
        One file, a folder (searched to any depth), or a glob.
    suffixes
        Endings of the files to take from a folder, such as ``.parquet``.

    Raises
    ------
    StorageError
        If nothing matches.
    """
    url = absolute(source)
    found = persistent(is_local(url), lambda: _found(url, suffixes))
    files = [
        InputFile(_url_of(url, name), int(info["size"] or 0), _fingerprint(info))
        for name, info in sorted(found.items())
        if info["type"] == "file"
    ]
    if not files:
        raise StorageError(
            f"no input found at {shown(source)}: expected a file, a folder with "
            f"{' or '.join(suffixes)} files, or a glob that matches some"
        )
    return files


def refuse_changed(url: str, fingerprint: str) -> None:
    """Raise `StorageError` if an input file is no longer what it was.

    Parameters
    ----------
    url
        The file.
    fingerprint
        Its `InputFile.fingerprint`.
    """

    if fingerprint_of(url) != fingerprint:
        raise StorageError(
            f"{url} has changed since this run first read it (another ETag, time or size); start "
            "a new run when it is no longer being written"
        )


def fingerprint_of(url: str) -> str:
    """Return what marks the version of one file that is there now."""

    def look() -> str:
        with told("read", url):
            fs, path = filesystem(url)
            fs.invalidate_cache()
            return _fingerprint(fs.info(path))

    return persistent(is_local(url), look)


def _found(url: str, suffixes: Sequence[str]) -> dict[str, Any]:
    with told("read", url):
        fs, path = filesystem(url)
        fs.invalidate_cache()
        if _GLOB.search(path):
            matched: dict[str, Any] = fs.glob(path, detail=True)
            return matched
        if not fs.isdir(path):
            return {path: fs.info(path)}
        return {
            name: info
            for name, info in fs.find(path, detail=True).items()
            if name.endswith(tuple(suffixes)) and not _hidden(name, path)
        }


def _hidden(name: str, folder: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.removeprefix(folder).split("/"))


def _fingerprint(info: dict[str, Any]) -> str:
    """Digest of what marks a version; a listing and a look at one file say it differently."""
    etag = str(info.get("ETag") or info.get("etag") or "").removeprefix("W/").strip('"')
    mark = etag or info.get("mtime") or info.get("LastModified")
    if isinstance(mark, datetime):
        mark = int(mark.timestamp())
    return hashlib.sha256(f"{info['size']}|{mark}".encode()).hexdigest()[:16]


def _url_of(like: str, name: str) -> str:
    if is_local(like):
        return name
    scheme = like.partition("://")[0]
    return name if "://" in name else f"{scheme}://{name}"
