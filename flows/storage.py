"""Objects and Parquet tables, wherever a URL points: the only user of fsspec and pyarrow.fs.

A URL is a local path or anything that fsspec knows (``s3://bucket/key``). Listing and
small objects go through fsspec; Parquet through pyarrow.fs, which reads it from object
stores several times faster.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSystem, FSSpecHandler, LocalFileSystem, PyFileSystem, S3FileSystem

from flows.faults import RunError

_GLOB = re.compile(r"[*?\[]")
_LASTING = {errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP}
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")


class StorageError(RunError):
    """Storage could not be read or written; the message is one sentence for the user."""


class TransientStorageError(StorageError):
    """Storage did not answer; the same call may succeed a little later."""


@dataclass(frozen=True)
class InputFile:
    """One input object and what tells whether it has changed."""

    url: str
    size: int  # bytes
    fingerprint: str  # of the ETag or of the modification time, with the size


def join(url: str, *parts: str) -> str:
    """Append names to a URL, refusing names that could leave it.

    Raises
    ------
    StorageError
        If a part is empty, absolute, holds ``..`` or a control character.
    """
    for part in parts:
        if not part or part.startswith("/") or ".." in part.split("/") or _UNSAFE.search(part):
            raise StorageError(
                f"{part!r} cannot be the name of an object: expected a relative name "
                "without '..', backslashes or control characters"
            )
    return "/".join([url.rstrip("/"), *parts])


def is_local(url: str) -> bool:
    """Whether a URL names the local file system."""
    return "://" not in url or url.startswith("file://")


def absolute(url: str) -> str:
    """Return a URL that means the same from any working directory."""
    if not is_local(url):
        return url.rstrip("/")
    return os.path.abspath(os.path.expanduser(url.removeprefix("file://")))


def read_bytes(url: str) -> bytes:
    """Read one object."""
    with _told("read", url):
        fs, path = _filesystem(url)
        data: bytes = fs.cat_file(path)
        return data


def write_bytes(url: str, data: bytes, durable: bool = True) -> None:
    """Write one object so that a reader sees the old or the new bytes, never a part.

    Without ``durable`` it need not outlive a loss of power, which spares a local disk's wait.
    """
    with _told("write", url), _placed(url) as (fs, path):
        if is_local(url):
            with open(path, "wb") as file:
                file.write(data)
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
        else:
            fs.pipe_file(path, data)


def create_bytes(url: str, data: bytes) -> bool:
    """Write one object unless it exists; return whether it was written.

    On the local file system this is exclusive. On an object store it asks for
    ``If-None-Match: *``; a store that ignores it overwrites.
    """
    if is_local(url):
        path = absolute(url)
        with _told("write", url):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                with open(path, "xb") as file:
                    file.write(data)
            except FileExistsError:
                return False
        return True
    if exists(url):
        return False
    with _told("write", url):
        fs, path = _filesystem(url)
        try:
            fs.pipe_file(path, data, mode="create")
        except FileExistsError:
            return False
    return True


def exists(url: str) -> bool:
    """Whether an object or a folder is there."""
    with _told("look up", url):
        fs, path = _filesystem(url)
        fs.invalidate_cache()
        return bool(fs.exists(path))


def names(url: str) -> list[str]:
    """List the names directly below a folder, sorted; empty where there is none."""
    with _told("list", url):
        fs, path = _filesystem(url)
        fs.invalidate_cache()
        try:
            found = fs.ls(path, detail=False)
        except FileNotFoundError:
            return []
    return sorted({name.rstrip("/").rsplit("/", 1)[-1] for name in found if name != path})


def delete(url: str) -> None:
    """Remove an object or a folder with all that is below it; nothing if it is not there."""
    with _told("remove", url):
        fs, path = _filesystem(url)
        try:
            fs.rm(path, recursive=True)
        except FileNotFoundError:
            return


def check_writable(url: str) -> None:
    """Write and remove a small object below a folder, so that a fit does not run in vain."""
    probe = join(url, f".probe-{uuid.uuid4().hex}")
    write_bytes(probe, b"")
    delete(probe)


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
    with _told("read", source):
        fs, path = _filesystem(url)
        if _GLOB.search(path):
            found = fs.glob(path, detail=True)
        elif fs.isdir(path):
            below = fs.find(path, detail=True)
            found = {
                name: info
                for name, info in below.items()
                if name.endswith(tuple(suffixes)) and not _hidden(name, path)
            }
        else:
            found = {path: fs.info(path)}
    files = [
        InputFile(_url_of(url, name), int(info["size"] or 0), _fingerprint(info))
        for name, info in sorted(found.items())
        if info["type"] == "file"
    ]
    if not files:
        raise StorageError(
            f"no input found at {source}: expected a file, a folder with "
            f"{' or '.join(suffixes)} files, or a glob that matches some"
        )
    return files


def _hidden(name: str, folder: str) -> bool:
    return any(part.startswith((".", "_")) for part in name.removeprefix(folder).split("/"))


def _fingerprint(info: dict[str, Any]) -> str:
    mark = info.get("ETag") or info.get("etag") or info.get("mtime") or info.get("LastModified")
    return hashlib.sha256(f"{info['size']}|{mark}".encode()).hexdigest()[:16]


def parquet_file(url: str) -> pq.ParquetFile:
    """Open a Parquet file for reading batch by batch."""
    with _told("read", url):
        fs, path = _arrow(url)
        return pq.ParquetFile(fs.open_input_file(path), pre_buffer=True)


def read_table(url: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Read one Parquet file whole."""
    with _told("read", url):
        return parquet_file(url).read(columns=list(columns) if columns is not None else None)


def read_rows(url: str, start: int, stop: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Read rows ``start`` to ``stop`` of a Parquet file; row groups outside are not touched."""
    with _told("read", url):
        file = parquet_file(url)
        names = file.schema_arrow.names
        wanted = names if columns is None else [name for name in columns if name in names]
        groups, first, before = [], None, 0
        for group in range(file.num_row_groups):
            after = before + file.metadata.row_group(group).num_rows
            if before < stop and after > start:
                groups.append(group)
                first = before if first is None else first
            before = after
        table = file.read_row_groups(groups, columns=wanted)
        return table.slice(start - (first or 0), stop - start)


def row_count(url: str) -> int:
    """Return the number of rows of a Parquet file, from its footer."""
    with _told("read", url):
        return int(parquet_file(url).metadata.num_rows)


def read_batches(url: str, rows: int) -> Iterator[pa.RecordBatch]:
    """Read a Parquet file as record batches of at most ``rows`` rows."""
    with _told("read", url):
        yield from parquet_file(url).iter_batches(batch_size=rows)


def write_table(url: str, table: pa.Table) -> None:
    """Write one Parquet file, whole or not at all."""
    with _told("write", url), _placed(url) as (_, path):
        target, inner = (LocalFileSystem(), path) if is_local(url) else _arrow(url)
        pq.write_table(table, inner, filesystem=target, compression="zstd")


def open_input(url: str) -> Any:
    """Open an object as a binary file for reading."""
    with _told("read", url):
        return fsspec.open(absolute(url), "rb").open()


@contextmanager
def _placed(url: str) -> Iterator[tuple[Any, str]]:
    """Yield where to write: a neighbour that is renamed at the end, or the object itself."""
    fs, path = _filesystem(url)
    if not is_local(url):
        yield fs, path
        return
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    partial = os.path.join(folder, f".{name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield fs, partial
        os.replace(partial, path)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def _filesystem(url: str) -> tuple[Any, str]:
    return fsspec.core.url_to_fs(absolute(url))  # type: ignore[no-any-return]


def _arrow(url: str) -> tuple[FileSystem, str]:
    if is_local(url):
        return LocalFileSystem(), absolute(url)
    scheme, _, rest = url.partition("://")
    if scheme == "s3":
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        return S3FileSystem(endpoint_override=endpoint), rest
    fs, path = _filesystem(url)
    return PyFileSystem(FSSpecHandler(fs)), path


def _url_of(like: str, name: str) -> str:
    if is_local(like):
        return name
    scheme = like.partition("://")[0]
    return name if "://" in name else f"{scheme}://{name}"


@contextmanager
def _told(action: str, url: str) -> Iterator[None]:
    """Turn what a file system raises into one sentence."""
    try:
        yield
    except StorageError:
        raise
    except FileNotFoundError as error:
        raise StorageError(f"cannot {action} {url}: there is no such file or folder") from error
    except PermissionError as error:
        raise StorageError(
            f"cannot {action} {url}: permission denied; give access or choose another place"
        ) from error
    except pa.ArrowInvalid as error:
        raise StorageError(
            f"cannot {action} {url}: it is damaged or not a Parquet file ({_line(error)})"
        ) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise StorageError(
                f"cannot {action} {url}: no space is left there; free some or choose another place"
            ) from error
        if error.errno == errno.EROFS:
            raise StorageError(
                f"cannot {action} {url}: that file system is read-only; choose another place"
            ) from error
        kind = StorageError if error.errno in _LASTING else TransientStorageError
        raise kind(f"cannot {action} {url}: {_line(error)}") from error


def _line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
