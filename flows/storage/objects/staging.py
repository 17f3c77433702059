"""Objects that a library can read only as local files: copied to this machine, once each.

What a library makes of a local file (its index) is kept here too, next to a link to the file.

The copies are in ``VBFLOWS_STAGING`` (by default a folder of this user among the temporary
files), which all processes of the machine share. They take no more than
``VBFLOWS_STAGING_GIB`` (by default 50): those that were used longest ago go first. What else is
in that folder is neither counted nor removed.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from flows.storage.errors import StorageError, cannot_read, storage_errors
from flows.storage.objects.access import filesystem
from flows.storage.objects.contents import listed_file, small_content, small_files
from flows.storage.objects.inputs import fingerprint_of, refuse_changed, size_of
from flows.storage.objects.retry import asks_storage, expect
from flows.storage.objects.store import is_own, own
from flows.storage.objects.urls import absolute, is_local, shown

PIECE = 8 * 2**20  # bytes held at a time
LIMIT = 50.0 * 2**30  # bytes
_SHARE = 1 / 64  # of the limit, which one process fills before it measures the folder again
COPY = "copy"  # what the mark of a copy's folder says
_NAME = re.compile(r"[0-9a-f]{24}|\.[0-9a-f]{24}\.[0-9a-f]{8}\.part")


def local_copy(url: str, *endings: str) -> str:
    """Return a local path of an object: its own, or that of a copy that is made where needed.

    Parameters
    ----------
    url
        The object.
    endings
        Endings of objects that a reader looks for next to it, such as ``.bai``: in place of
        its own ending and after it; copied where they exist.

    Raises
    ------
    StorageError
        If it does not exist, or there is no room for it.
    """
    url = absolute(url)
    if is_local(url):
        return url
    stem = url.rpartition(".")[0]
    others = dict.fromkeys(made for end in endings for made in (url + end, stem + end))
    # An index that came or changed since makes another copy: readers look for it once.
    marks = {other: mark for other in others if (mark := _mark(other)) is not None}

    def copy(path: str) -> None:
        for source in (*marks, url):
            _copy(source, Path(path).with_name(source.rsplit("/", 1)[-1]))

    what = "|".join(["copy", *(f"{other} {mark}" for other, mark in marks.items())])
    return make_once(url, what, copy, size=size_of)


def with_index(path: str, make: Callable[[str], None]) -> str:
    """Return another path of a local file, next to what is made of it (its index, say).

    The user's folders are left as they are.

    Parameters
    ----------
    path
        A local file.
    make
        Writes what is wanted next to the path that it gets; called once for each version of the
        file on this machine.
    """
    path = absolute(path)

    def link_and_make(link: str) -> None:
        os.symlink(path, link)
        make(link)

    return make_once(path, "link", link_and_make)


def make_once(
    url: str,
    what: str,
    make: Callable[[str], None],
    ending: str = "",
    size: Callable[[str], int] = lambda _: 0,
) -> str:
    """Return the local path of what is made of a file, once for each version of it.

    Parameters
    ----------
    url
        The file.
    what
        What is made of it, in a word.
    make
        Writes it at the path that it gets.
    ending
        What its name has after that of the file.
    size
        Returns for how many bytes there must be room.
    """
    url = absolute(url)
    listed = listed_file(url)  # which saves a request for each use of a file
    version = fingerprint_of(url) if listed is None else listed.fingerprint
    key = hashlib.sha256(f"{what}|{url}|{version}".encode()).hexdigest()[:24]
    folder, name = _folder() / key, url.rstrip("/").rsplit("/", 1)[-1] + ending
    with _alone(key):
        if not folder.exists():
            _make_room(size(url), url)
            part = _folder() / f".{key}.{uuid.uuid4().hex[:8]}.part"
            part.mkdir()
            own(str(part), COPY)
            try:
                make(str(part / name))
                if listed is not None and not small_files.has_seen(listed):
                    refuse_changed(url, listed.fingerprint)
                _unmeasured.add(sum(file.lstat().st_size for file in part.iterdir()))
                os.replace(part, folder)
            finally:
                shutil.rmtree(part, ignore_errors=True)
        os.utime(folder)
    return str(folder / name)


def _folder() -> Path:
    chosen = os.environ.get("VBFLOWS_STAGING")
    folder = Path(chosen or Path(tempfile.gettempdir()) / f"vbflows-staging-{os.getuid()}")
    with storage_errors("write", str(folder)):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise StorageError(
                f"cannot copy objects to {folder}: it belongs to someone else; set VBFLOWS_STAGING "
                "to a folder of your own"
            )
    return folder


@contextmanager
def _alone(key: str) -> Iterator[None]:
    """Let one process of this machine at a time make a copy."""
    with open(_folder() / f"{key}.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _mark(url: str) -> str | None:
    """Return what marks the version of an object; None if there is none."""
    try:
        return fingerprint_of(url)
    except StorageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return None
        raise


@asks_storage("read")
def _copy(url: str, target: Path) -> None:
    """Copy an object piece by piece; another attempt goes on where the one before it ended."""
    if (content := small_content(url)) is not None:
        target.write_bytes(content)
        return
    fs, path = filesystem(url)
    size = int(fs.info(path)["size"] or 0)
    with open(target, "ab") as file:
        while (copied := file.tell()) < size:
            expect()
            file.write(fs.cat_file(path, start=copied, end=min(copied + PIECE, size)))


class _Unmeasured:
    """The bytes of copies that this process made since it measured the folder."""

    size: float = math.inf  # it has not yet

    def add(self, size: int) -> None:
        self.size += size


_unmeasured = _Unmeasured()


def _make_room(size: int, url: str) -> None:
    """Remove the copies used longest ago until one more has room; what has no mark stays.

    A reader that has a removed copy open keeps it; one that comes later copies it again.
    """
    limit = bytes_set("VBFLOWS_STAGING_GIB", "copy objects to this machine") or LIMIT
    folder = _folder()
    if size > limit:
        raise StorageError(
            f"cannot copy {url} to this machine: it has {size / 2**30:.1f} GiB and copies may take "
            f"{limit / 2**30:g}; raise VBFLOWS_STAGING_GIB"
        )
    free = shutil.disk_usage(folder).free
    if size <= free and _unmeasured.size + size <= _SHARE * limit:
        return
    ours = (p for p in folder.iterdir() if _NAME.fullmatch(p.name) and is_own(str(p), COPY))
    copies = sorted(copy for p in ours if (copy := _measured(p)))
    taken = sum(copy_size for _, copy_size, _ in copies)
    for _, copy_size, oldest in copies:
        if taken + size <= limit:
            break
        taken -= copy_size
        shutil.rmtree(oldest, ignore_errors=True)
    _unmeasured.size = 0
    free = shutil.disk_usage(folder).free
    if size > free:
        raise StorageError(
            f"cannot copy {url} to this machine: it has {size / 2**30:.1f} GiB and {folder} has "
            f"{free / 2**30:.1f} free; free some or set VBFLOWS_STAGING to another disk"
        )


def _measured(copy: Path) -> tuple[float, int, Path] | None:
    """Return when a copy was last used and its bytes; None if another process removed it."""
    try:
        return copy.stat().st_mtime, sum(f.lstat().st_size for f in copy.iterdir()), copy
    except FileNotFoundError:
        return None


RATIO = 200  # times a compressed file's own size
FREE = 256 * 2**20  # bytes that any file may grow to
SETTING = "VBFLOWS_INPUT_GIB"


class Expansion:
    """The bytes that one input file has grown to while it is read."""

    def __init__(self, url: str, packed: int) -> None:
        self.url, self.packed, self.size = url, packed, 0
        chosen = bytes_set(SETTING, f"read {shown(url)}")
        self.limit = max(RATIO * packed, FREE) if chosen is None else chosen

    def add(self, size: int) -> None:
        """Count bytes.

        Raises `StorageError` if the file grows beyond its limit.
        """
        self.size += size
        if self.size <= self.limit:
            return
        raise cannot_read(
            shown(self.url),
            f"it grows to more than {bytes_in_words(self.limit)} "
            f"when decompressed, the limit for a file of {bytes_in_words(self.packed)}; if that "
            f"is meant, raise {SETTING} (GiB)",
        )


def bytes_set(setting: str, doing: str) -> float | None:
    """Return the bytes that an environment variable says in GiB; None where it says nothing.

    Raises `StorageError` where that is no number above 0; ``doing`` is what cannot be done then.
    """
    text = os.environ.get(setting)
    if text is None:
        return None
    try:
        limit = float(text)
    except ValueError:
        limit = math.nan
    if not limit > 0.0:
        raise StorageError(
            f"cannot {doing}: expected a number of GiB above 0 in {setting}, found {text!r}"
        )
    return limit * 2**30


def bytes_in_words(size: float) -> str:
    """Say how much that is."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"
