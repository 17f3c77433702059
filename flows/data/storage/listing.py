"""What lies below a local folder, links followed: nothing is left out without a word."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from fsspec.utils import glob_translate

from flows.data.storage.errors import StorageError, storage_errors

GLOB = re.compile(r"[*?\[]")
_HIDDEN = (".", "_")


def inside(folder: str, suffixes: Sequence[str]) -> list[str]:
    """Return the files below a folder that are not hidden and end in one of the suffixes.

    Raises
    ------
    StorageError
        If a folder cannot be read, or a link leads nowhere.
    """
    found = []
    for place, _, files in _walk(folder, hidden=False):
        for file in files:
            name = os.path.join(place, file)
            wanted = file.endswith(tuple(suffixes))
            if file.startswith(_HIDDEN):
                continue
            # What a link without an ending led to may have been a folder of input.
            if (wanted or "." not in file) and not os.path.exists(name):
                raise StorageError(
                    f"cannot read {name}: it is a link to nothing; mend it or remove it"
                )
            if wanted:
                found.append(name)
    return found


def matching(pattern: str) -> list[str]:
    """Return the files and folders that a glob matches."""
    parts = pattern.split("/")
    fixed = next(i for i, part in enumerate(parts) if GLOB.search(part))
    root = "/".join(parts[:fixed]) or "/"
    if not os.path.isdir(root):
        return []
    deepest = None if any("**" in part for part in parts) else len(parts) - fixed
    match = re.compile(glob_translate(pattern)).match
    names = (
        os.path.join(place, name)
        for place, folders, files in _walk(root, deepest=deepest)
        for name in (*folders, *files)
    )
    return [name for name in names if match(name)]


def _walk(
    root: str, hidden: bool = True, deepest: int | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield (folder, names of folders, names of files), every folder once.

    Links to folders are followed when all that is reached without them is seen, so that what
    has a name of its own is found under it.
    """
    seen = set()
    starts = [root]
    for start in starts:
        for place, folders, files in os.walk(start, onerror=_refused):
            about = os.stat(place)
            if (about.st_dev, about.st_ino) in seen:
                folders.clear()
                continue
            seen.add((about.st_dev, about.st_ino))
            folders[:] = sorted(f for f in folders if hidden or not f.startswith(_HIDDEN))
            yield place, list(folders), files
            depth = 1 + place.removeprefix(root).strip("/").count("/") + (place != root)
            if deepest is not None and depth >= deepest:
                folders.clear()
            paths = (os.path.join(place, folder) for folder in folders)
            starts += [path for path in paths if os.path.islink(path)]


def _refused(error: OSError) -> None:
    with storage_errors("read", str(error.filename)):
        raise error
