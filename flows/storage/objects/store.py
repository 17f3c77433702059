"""Whole objects: read, written so that no reader sees a part, listed and removed."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from flows.faults import InputError
from flows.storage.errors import (
    DamagedError,
    StorageError,
    TransientStorageError,
    storage_errors,
)
from flows.storage.objects.access import filesystem
from flows.storage.objects.retry import asks_storage, expect
from flows.storage.objects.seal import is_working, seal, unsealed
from flows.storage.objects.urls import GLOB, absolute, is_local, join

PROBE = ".vbflows-probe"
PIECE = 8 * 2**20  # bytes that are fetched at once
_NO_RANGE = re.compile(r"InvalidRange|not satisfiable|\b416\b", re.IGNORECASE)
_PARTIAL = re.compile(r"\..+\.[0-9a-f]{8}\.part")


@asks_storage("read")
def read_bytes(url: str, most: int | None = None) -> bytes:
    """Read one object, if it has no more than ``most`` bytes; what is sealed is checked."""
    fs, path = filesystem(url)
    if most is not None and (size := int(fs.info(path)["size"] or 0)) > most:
        raise DamagedError(
            f"cannot read {url}: it has {size:,} bytes, expected at most {most:,}; is it "
            "the right file?",
            url,
        )
    data = fetch(fs, path)
    return unsealed(data, url) if is_working(url) else data


def fetch(fs: Any, path: str, most: int | None = None) -> bytes:
    """Return an object's bytes, of a larger one about ``most``.

    They come piece by piece where a store has ranges, so that progress shows.
    """
    if "s3" not in fs.protocol:
        size = int(fs.info(path)["size"] or 0)
        expect(size)
        end = most if most is not None and size > most else None
        data = bytes(fs.cat_file(path, end=end))
        if len(data) < min(size, end or size):
            raise TransientStorageError(
                f"cannot read {path}: it has {size:,} bytes, got {len(data):,}"
            )
        return data
    pieces: list[bytes] = []
    while not pieces or len(pieces[-1]) == PIECE:
        if most is not None and len(pieces) * PIECE >= most:
            break
        start = PIECE * len(pieces)
        expect()
        try:
            pieces.append(fs.cat_file(path, start=start, end=start + PIECE))
        except OSError as error:
            # There is nothing after its last byte, so an empty object has no range at all.
            if not _NO_RANGE.search(f"{error} {error.__cause__}"):
                raise
            break
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_bytes(url: str, data: bytes, durable: bool = True, aside: str | None = None) -> None:
    """Write one object so that a reader sees the old or the new bytes, never a part.

    What a run makes for itself is sealed: see `flows.storage.objects.seal`.

    Parameters
    ----------
    durable
        Whether it must outlive a loss of power, for which a local disk is waited for.
    aside
        A folder on the same disk in which a local file is written before it takes its place;
        by default that of the file.
    """
    end = seal(data) if is_working(url) else b""
    if not is_local(url):
        _put(url, data + end if end else data)
        return
    with storage_errors("write", url), placed(url, aside) as partial, open(partial, "wb") as file:
        file.write(data)
        file.write(end)
        if durable:
            file.flush()
            os.fsync(file.fileno())


@asks_storage("write")
def _put(url: str, data: bytes) -> None:
    fs, path = filesystem(url)
    expect(len(data))
    fs.pipe_file(path, data)


def copy(source: str, target: str) -> None:
    """Copy one object, within its store where both are in the same."""
    elsewhere = is_local(source) or source.split("://")[0] != target.split("://")[0]
    if elsewhere or is_working(source) or is_working(target):
        write_bytes(target, read_bytes(source), durable=False)
    else:
        _copy_within_store(source, target)


@asks_storage("copy")
def _copy_within_store(source: str, target: str) -> None:
    fs, path = filesystem(source)
    expect(int(fs.info(path)["size"] or 0))
    fs.cp_file(path, filesystem(target)[1])


@asks_storage("write")
def create_bytes(url: str, data: bytes) -> bool:
    """Write one object unless it exists; return whether it was written.

    On the local file system this is exclusive. On an object store it needs
    ``If-None-Match: *``; a store that ignores it overwrites.
    """
    if not is_local(url) and exists(url):
        return False
    fs, path = filesystem(url)
    expect(len(data))
    try:
        if is_local(url):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "xb") as file:
                file.write(data)
        else:
            fs.pipe_file(path, data, mode="create")
    except FileExistsError:
        return False
    except OSError as error:
        if "PreconditionFailed" in str(error) or "ConditionalRequestConflict" in str(error):
            return False
        raise
    return True


@asks_storage("look up")
def exists(url: str) -> bool:
    """Whether an object or a folder is there."""
    fs, path = filesystem(url)
    # Unlike `exists`, `info` does not take a refusal or a silent server for absence.
    try:
        fs.info(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


@asks_storage("list")
def names(url: str) -> list[str]:
    """List the names directly below a folder, sorted; empty where there is none."""
    fs, path = filesystem(url)
    try:
        paths = fs.ls(path, detail=False)
    except FileNotFoundError:
        return []
    return sorted({name.rstrip("/").rsplit("/", 1)[-1] for name in paths if name != path})


@asks_storage("remove")
def delete(url: str) -> None:
    """Remove an object or a folder with all that is below it; nothing if it is not there.

    Of a link on a local disk the link itself goes, not what it leads to.
    """
    if not is_local(url) and GLOB.search(url):
        raise StorageError(f"cannot remove {url}: a store's client would take it for a glob")
    fs, path = filesystem(url)
    with suppress(FileNotFoundError):
        if is_link(url):
            os.unlink(path)
        else:
            fs.rm(path, recursive=True)


def check_writable(target: str, *below: str) -> None:
    """Write and remove a small object in a target, so that a fit does not run in vain.

    Parameters
    ----------
    target
        The place that was given.
    below
        Names of the folder in it where the object is written: all that a kill leaves is there.

    Raises
    ------
    InputError
        If it has a name by which a store's client could remove other objects, or cannot be
        written to.
    """
    if not is_local(target) and (wildcard := GLOB.search(target)):
        raise InputError.of(
            target,
            "the name of a place without '*', '?' and '['",
            wildcard[0],
            remedy="choose another name: as a glob it could remove other objects",
        )
    probe = join(target, *below, PROBE)
    try:
        _probe(target, probe)
    except TransientStorageError:
        raise
    except StorageError as error:
        a_file = is_local(target) and os.path.isfile(absolute(target))
        advice = "TARGET, the last argument, is a folder" if a_file else None
        raise InputError.of("TARGET", "", str(error), remedy=advice) from error


@asks_storage("write")
def _probe(target: str, probe: str) -> None:
    fs, path = filesystem(probe)
    if is_local(probe):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "wb").close()
        os.remove(path)
        return
    fs.pipe_file(path, b"")
    if not exists(probe):
        raise StorageError(
            f"cannot write {target}: the store takes objects but does not keep them; give "
            "access or choose another place"
        )
    with storage_errors("remove", probe):
        fs.rm_file(path)


def remove_debris(folder: str, *but: str) -> None:
    """Remove what a process that was killed left half written below a local folder.

    What is still being written there is lost: folders in it that are named are left out.
    """
    if not is_local(folder):
        return  # an object store shows whole objects only
    with storage_errors("remove", folder):
        root = absolute(folder)
        for parent, folders, files in os.walk(root):
            folders[:] = [name for name in folders if parent != root or name not in but]
            for name in files:
                if _PARTIAL.fullmatch(name):
                    with suppress(FileNotFoundError):  # it was whole a moment later
                        os.remove(os.path.join(parent, name))


def absent(folder: str) -> list[str]:
    """Return a local folder and those above it, as far as there are none yet, innermost first."""
    folders: list[str] = []
    if is_local(folder):
        path = absolute(folder)
        while not os.path.lexists(path):
            folders.append(path)
            path = os.path.dirname(path)
    return folders


def remove_empty(folder: str) -> None:
    """Remove a local folder if nothing is in it; stores have no empty folders."""
    if is_local(folder):
        with suppress(OSError):
            os.rmdir(absolute(folder))


@contextmanager
def placed(url: str, aside: str | None = None) -> Iterator[str]:
    """Yield a neighbour of a local file to write to, which is renamed to it at the end."""
    path = absolute(url)
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    other = folder if aside is None else absolute(aside)
    if os.path.isdir(other) and os.stat(folder).st_dev == os.stat(other).st_dev:
        folder = other
    partial = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


MARK = ".vbflows"
"""The file in a folder that says who made it."""

_MOST = 2**10  # bytes of it


def own(folder: str, kind: str) -> None:
    """Mark a folder that this process made.

    Parameters
    ----------
    kind
        What it is: ``run`` or ``copy``.
    """
    write_bytes(join(folder, MARK), _content(kind))


def is_own(folder: str, kind: str) -> bool:
    """Whether a folder has the mark of a kind; a link to one has not."""
    if is_link(folder):
        return False
    try:
        return read_bytes(join(folder, MARK), _MOST) == _content(kind)
    except TransientStorageError:
        raise
    except StorageError:
        return False


def is_link(url: str) -> bool:
    """Whether a URL names a link on a local disk."""
    return is_local(url) and os.path.islink(absolute(url))


def remove_own(folder: str, kind: str) -> None:
    """Remove a folder that has the mark of a kind, the mark last.

    Raises
    ------
    StorageError
        If it has no mark: somebody else made it.
    """
    if not is_own(folder, kind):
        raise StorageError(f"{folder} is not removed: vbflows did not make it")
    for name in names(folder):
        if name != MARK:
            delete(join(folder, name))
    delete(join(folder, MARK))
    remove_empty(folder)


def _content(kind: str) -> bytes:
    return json.dumps({"vbflows": kind, "version": 1}).encode()
