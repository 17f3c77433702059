"""Input files: found by a path, folder, glob or URL, with fingerprints that show a change."""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fsspec.utils import glob_translate

from flows.storage.errors import ChangedError, MissingError, cannot_read, storage_errors
from flows.storage.objects.access import filesystem
from flows.storage.objects.retry import asks_storage
from flows.storage.objects.urls import GLOB, absolute, is_local, refuse_bytes, shown

log = logging.getLogger(__name__)

_MARKS = ("mtime", "LastModified", "blob_id", "last_modified", "modified", "sha256")
"""What the stores that fsspec knows call the mark of a file's version, other than its ETag."""
_RUN = r"\d{8}T\d{6}-[0-9a-f]{6}"
_OF_A_RUN = re.compile(rf"(^|/)runs/{_RUN}/")


Sources = str | list[str]
"""A path, folder, glob or URL of input, or several of them."""


@dataclass(frozen=True)
class InputFile:
    """One input object and what shows whether it has changed."""

    url: str
    size: int  # bytes
    fingerprint: str  # of the ETag, or of the times of change, with the size


def given(source: Sources) -> list[str]:
    """Return the paths, folders, globs and URLs of a source."""
    return [source] if isinstance(source, str) else list(source)


def source_in_words(source: Sources) -> str:
    """Return a source as it may be shown."""
    return ", ".join(shown(s) for s in given(source))


def expand(source: Sources, suffixes: Sequence[str]) -> list[InputFile]:
    """Resolve paths, folders, globs or URLs to their files, in order of their names.

    Parameters
    ----------
    source
        Files, folders (searched to any depth), or globs; what is there under that very name
        comes before what it matches. Folders that it matches are searched too. What earlier runs
        have published below a folder is left out. A file that is given twice is read once.
    suffixes
        Endings of the files to take from a folder, such as ``.parquet``.

    Raises
    ------
    StorageError
        If nothing matches, or something that does cannot be read.
    """
    files: dict[str, InputFile] = {}
    twice: dict[str, InputFile] = {}
    for pattern in given(source):
        for file in _expanded(pattern, suffixes):
            (twice if file.url in files else files)[file.url] = file
    if twice:
        more = f" (and {len(twice) - 1} others)" if len(twice) > 1 else ""
        log.warning("%s%s is given more than once and read once", next(iter(twice)), more)
    return [files[url] for url in sorted(files)]


def _expanded(source: str, suffixes: Sequence[str]) -> list[InputFile]:
    url = absolute(source)
    infos = _files_at(url, suffixes)
    for name in infos:
        refuse_bytes(name)
    files = [
        InputFile(_url_of(url, name), int(info["size"] or 0), version_mark(info))
        for name, info in infos.items()
    ]
    if ".h5" in suffixes and not any(file.url.endswith(".h5") for file in files):
        _refuse_pickles(url)
    if not files:
        plain = ", ".join(s for s in suffixes if s.count(".") == 1)  # others are packed
        raise MissingError(
            f"cannot read {url}: no input found; expected a file, a glob, or a folder with "
            f"files that end in {plain}",
            url,
        )
    return files


PICKLES = (".pt", ".pth")


def _refuse_pickles(url: str) -> None:
    """Refuse a file or folder of tensors: a pickle runs code where it is read."""
    pickles = [name for name in _files_at(url, PICKLES) if name.endswith(PICKLES)]
    if pickles:
        name = pickles[0].rpartition("/")[2]
        raise cannot_read(
            url,
            f"{name} is a pickle; in Python: h5py.File('{name[:-3]}.h5', 'w')['features'] = "
            f"torch.load('{name}').numpy()",
        )


def refuse_changed(url: str, fingerprint: str) -> None:
    """Raise `ChangedError` if an input file is no longer what its fingerprint says."""
    refuse_mark(url, fingerprint, fingerprint_of(url))


def refuse_mark(url: str, fingerprint: str, mark: str) -> None:
    """Raise `ChangedError` if the mark that was found of a file is of another version."""
    if mark != fingerprint:
        raise ChangedError(
            f"{url} has changed since this run first read it (another ETag, time or size); "
            "start a new run once it is whole",
            url,
        )


@asks_storage("read")
def fingerprint_of(url: str) -> str:
    """Return what marks the version of one file that is there now."""
    if is_local(url):
        stat = os.stat(url)
        times = {"mtime": stat.st_mtime, "created": stat.st_ctime}  # as fsspec calls it
        return version_mark({"size": stat.st_size, **times})
    fs, path = filesystem(url)
    return version_mark(fs.info(path))


@asks_storage("read")
def size_of(url: str) -> int:
    """Return the bytes of one file."""
    fs, path = filesystem(url)
    return int(fs.info(path)["size"] or 0)


@asks_storage("read")
def _files_at(url: str, suffixes: Sequence[str]) -> dict[str, Any]:
    fs, path = filesystem(url)
    if not GLOB.search(path) or _there(fs, path):
        return _taken(fs, url, path, suffixes, fs.info(path))
    infos: dict[str, Any] = {}
    for name, info in _matches(fs, url, path):
        infos |= _taken(fs, url, name, suffixes, info)
    return infos if "/runs/" in path else _new(infos, GLOB.split(path)[0])


def _matches(fs: Any, url: str, pattern: str) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield what a glob matches; wildcards match no hidden folder, as a search finds none."""
    if is_local(url):
        infos = {name: fs.info(name) for name in matching(pattern)}
    else:
        infos = fs.glob(pattern, detail=True)
    starred = GLOB.match(pattern.rpartition("/")[2])
    for name, info in infos.items():
        last = name.rstrip("/").rpartition("/")[2]
        if not (starred and info["type"] == "directory" and last.startswith((".", "_"))):
            yield name, info


def _there(fs: Any, path: str) -> bool:
    try:
        fs.info(path)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return False
    return True


def _taken(
    fs: Any, url: str, path: str, suffixes: Sequence[str], info: dict[str, Any]
) -> dict[str, Any]:
    """Return a file, or the files below a folder."""
    if info["type"] == "file":
        return {path: info}
    if info["type"] != "directory":
        raise cannot_read(path, "it is neither a file nor a folder")
    if is_local(url):
        return _new({name: fs.info(name) for name in inside(path, suffixes)}, path)
    below = {
        name: info
        for name, info in fs.find(path, detail=True).items()
        if not any(part.startswith(_HIDDEN) for part in name.removeprefix(path).split("/"))
    }
    wanted = {n: i for n, i in below.items() if n.lower().endswith(tuple(suffixes))}
    _say_others([name for name in below if name not in wanted], bool(wanted), path)
    return _new(wanted, path)


def _new(files: dict[str, Any], folder: str) -> dict[str, Any]:
    """Leave out what runs whose target is in the source have published there."""
    kept = {n: info for n, info in files.items() if not _OF_A_RUN.search(n.removeprefix(folder))}
    if len(kept) < len(files):
        log.warning(
            "%d files below %s are results of earlier runs and are not read",
            len(files) - len(kept),
            folder,
        )
    return kept


def version_mark(info: dict[str, Any]) -> str:
    """Digest of what marks a version; a listing and a look at one file say it differently."""
    etag = str(info.get("ETag") or info.get("etag") or "").removeprefix("W/").strip('"')
    mark = etag or next((value for name in _MARKS if (value := info.get(name))), None)
    if isinstance(mark, datetime):
        mark = int(mark.timestamp())
    if not etag and isinstance(info.get("created"), float):
        # A copy may keep the time of its original (cp -p, rsync -t); no program sets this one.
        mark = f"{mark}|{info['created']}"
    return hashlib.sha256(f"{info['size']}|{mark}".encode()).hexdigest()[:16]


def _url_of(like: str, name: str) -> str:
    if is_local(like):
        return name
    return name if "://" in name else f"{like.partition('://')[0]}://{name}"


_HIDDEN = (".", "_", "~$")  # the last of Office's lock files
_PERHAPS_DATA = (".txt", ".dat", ".tab", ".asc", ".data", ".json")
_OTHER_DATA = (".zip", ".xml", ".html", ".htm", ".rds")
_OTHER_TEXT = (".doc", ".odt", ".rtf", ".epub", ".eml")
_LIKE_DATA = {
    _PERHAPS_DATA: "name it, or give a glob such as 'FOLDER/*'",
    _OTHER_DATA + _OTHER_TEXT + PICKLES: "save it in another format: as text, CSV or Parquet",
}


def inside(folder: str, suffixes: Sequence[str]) -> list[str]:
    """Return the files below a folder that are not hidden and end in one of the suffixes.

    Raises `StorageError` if a folder cannot be read, or a link leads nowhere.
    """
    paths, others = [], []
    for parent, _, files in _walk(folder, hidden=False):
        for file in files:
            name = os.path.join(parent, file)
            wanted = file.lower().endswith(tuple(suffixes))
            if file.startswith(_HIDDEN):
                continue
            # What a link without an ending led to may have been a folder of input.
            if (wanted or "." not in file) and not os.path.exists(name):
                raise cannot_read(name, "it is a link to nothing; mend it or remove it")
            if wanted:
                paths.append(name)
            else:
                others.append(name)
    _say_others(others, bool(paths), folder)
    return paths


def _say_others(names: Sequence[str], some: bool, folder: str) -> None:
    """Say which files of a folder look like data and are not read, where some others are."""
    for endings, advice in _LIKE_DATA.items():
        others = [
            name
            for name in names
            if name.lower().endswith(endings)
            and not _OF_A_RUN.search(name.removeprefix(folder))
            and name.rpartition("/")[2] not in ("latest.json", "reads.json")
        ]
        if some and others:
            log.warning(
                "%s%s in the folder %s is not read; %s",
                min(others).removeprefix(folder).lstrip("/"),
                "" if not (n := len(others) - 1) else f" (and {n:,} more such file{'s'[: n > 1]})",
                folder,
                advice.replace("FOLDER", folder),
            )


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
        os.path.join(parent, name)
        for parent, folders, files in _walk(root, deepest=deepest)
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
        for parent, folders, files in os.walk(start, onerror=_refused):
            about = os.stat(parent)
            if (about.st_dev, about.st_ino) in seen:
                folders.clear()
                continue
            seen.add((about.st_dev, about.st_ino))
            folders[:] = sorted(f for f in folders if hidden or not f.startswith(_HIDDEN))
            yield parent, list(folders), files
            depth = 1 + parent.removeprefix(root).strip("/").count("/") + (parent != root)
            if deepest is not None and depth >= deepest:
                folders.clear()
            paths = (os.path.join(parent, folder) for folder in folders)
            starts += [path for path in paths if os.path.islink(path)]


def _refused(error: OSError) -> None:
    with storage_errors("read", str(error.filename)):
        raise error
