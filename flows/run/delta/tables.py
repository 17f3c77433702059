"""Delta tables, read and written by their kept library; nothing else here knows it.

A table belongs to one pipeline and one target, as its description says. All of it is replaced in
one commit, which tells whose results it has; who reads meanwhile sees the version before.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, create_table_with_add_actions

from flows.data import storage
from flows.data.storage import StorageError, TransientStorageError

RUN = "vbflows.run"  # in a commit: the run whose results it brings
_LOG = "_delta_log"
_ATTEMPTS = 10  # at a commit that others come before
_COLOURS, _FRAMES = re.compile(r"\x1b\[\d*m"), re.compile(r"\n\s*0: ")


def described(pipeline: str, target: str) -> str:
    """Return how the tables of a pipeline and a target are described, and known again."""
    return f"latest results of {pipeline} in {storage.shown(target)}, published by vbflows"


def below(folder: str) -> dict[str, str]:
    """Return the descriptions of the Delta tables in a folder, by their names.

    Raises
    ------
    StorageError
        If one of them cannot be read.
    """
    found = {name: _opened(storage.join(folder, name)) for name in _named(folder)}
    return {
        name: table.metadata().description or "no description"
        for name, table in found.items()
        if table is not None
    }


def replace(
    url: str,
    description: str,
    run_id: str,
    schema: pa.Schema,
    files: Sequence[tuple[str, int, int]],
) -> int:
    """Let a table hold some files and nothing else, in one commit; return its version.

    A table that this run has committed to before is left as it is.

    Parameters
    ----------
    description
        Of a table that is made, as `described`.
    schema
        What the files hold.
    files
        Name below the table, bytes and rows of each.

    Raises
    ------
    StorageError
        If it cannot be written.
    """
    added, told = [_added(*file) for file in files], _told(run_id)

    def put(table: DeltaTable | None) -> None:
        columns = Schema.from_arrow(_commented(schema))
        if table is None:
            create_table_with_add_actions(
                url,
                columns,
                added,
                name=url.rpartition("/")[2],
                description=description,
                storage_options=_options(url),
                commit_properties=told,
            )
        elif not _brought(table, run_id):
            table.create_write_transaction([*added], "overwrite", columns, commit_properties=told)

    return _committed(url, put)


def clear(url: str, run_id: str) -> int:
    """Let a table hold nothing, in one commit; return its version. Its columns stay.

    Raises
    ------
    StorageError
        If it cannot be written.
    """

    def put(table: DeltaTable | None) -> None:
        if table is not None and not _brought(table, run_id):
            columns = table.schema()
            table.create_write_transaction(
                [], "overwrite", columns, commit_properties=_told(run_id)
            )

    return _committed(url, put)


def _committed(url: str, put: Callable[[DeltaTable | None], None]) -> int:
    """Commit to a table as it is now, again where another run came before; return its version."""
    with _library("commit to", url):
        for left in reversed(range(_ATTEMPTS)):
            table = _opened(url)
            try:
                put(table)
                break
            except DeltaError:
                now = _opened(url)
                overtaken = now is not None and (table is None or now.version() > table.version())
                if not (left and overtaken):
                    raise
        return _version(url)


def _named(folder: str) -> Iterator[str]:
    for name in storage.names(folder):
        if not name.startswith(".") and storage.exists(storage.join(folder, name, _LOG)):
            yield name


def _opened(url: str) -> DeltaTable | None:
    with _library("read", url):
        try:
            return DeltaTable(url, storage_options=_options(url))
        except TableNotFoundError:
            return None


def _version(url: str) -> int:
    return int(DeltaTable(url, storage_options=_options(url)).version())


def _told(run_id: str) -> CommitProperties:
    """Return what a commit says of its run, so that it can be told again."""
    return CommitProperties(
        custom_metadata={RUN: run_id},
        max_commit_retries=_ATTEMPTS,
        app_transactions=[Transaction(_transaction(run_id), 1)],
    )


def _brought(table: DeltaTable, run_id: str) -> bool:
    return table.transaction_version(_transaction(run_id)) is not None


def _transaction(run_id: str) -> str:
    return f"{RUN}/{run_id}"


def _added(name: str, size: int, rows: int) -> AddAction:
    now = int(time.time() * 1000)
    # Least and largest values stand in the files' own footers, by which readers skip row groups.
    return AddAction(name, size, {}, now, True, json.dumps({"numRecords": rows}))


def _commented(schema: pa.Schema) -> pa.Schema:
    """Return a schema whose columns say what they mean where engines show it.

    All may be null: what a later run leaves empty must not break the table.
    """
    fields = []
    for field in schema:
        told = {key.decode(): value.decode() for key, value in (field.metadata or {}).items()}
        unit = f" ({told['unit']})" if told.get("unit") else ""
        comment = {"comment": told["meaning"] + unit} if told.get("meaning") else None
        fields.append(pa.field(field.name, field.type, True, comment))
    return pa.schema(fields)


def _options(url: str) -> dict[str, str]:
    """Return what the library does not read from the environment by itself."""
    if storage.is_local(url):
        return {}
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    found = {"AWS_ENDPOINT_URL": endpoint} if endpoint else {}
    if endpoint.startswith("http://"):
        found["AWS_ALLOW_HTTP"] = "true"
    if os.environ.get("AWS_NO_SIGN_REQUEST", "").lower() in ("yes", "true", "1"):
        found["AWS_SKIP_SIGNATURE"] = "true"
    return found


@contextmanager
def _library(action: str, url: str) -> Iterator[None]:
    """Let the library know the store's certificates; turn what it raises into one sentence."""
    bundle = None if storage.is_local(url) else os.environ.get("AWS_CA_BUNDLE")
    try:
        with storage.using({"SSL_CERT_FILE": bundle} if bundle else {}):
            yield
    except StorageError:
        raise
    except DeltaError as error:
        raise StorageError(f"cannot {action} the Delta table {url}: {_line(error)}") from error
    except OSError as error:
        kind = StorageError if error.errno is not None else TransientStorageError
        raise kind(f"cannot {action} the Delta table {url}: {_line(error)}") from error


def _line(error: Exception) -> str:
    """Return the last cause that the library names before its own frames, in one line."""
    said = _FRAMES.split(_COLOURS.sub("", str(error)))[0]
    lines = [line.strip(" \t↳") for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
