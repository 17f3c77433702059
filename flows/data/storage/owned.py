"""Folders that vbflows made: marked as such, and removed by their mark alone."""

from __future__ import annotations

import json
import os

from flows.data.storage.errors import StorageError, TransientStorageError
from flows.data.storage.objects import delete, names, read_bytes, remove_empty, write_bytes
from flows.data.storage.urls import absolute, is_local, join

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
