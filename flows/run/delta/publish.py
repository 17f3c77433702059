"""Results published as Delta tables: looked at before a run, committed before it is the latest."""

from __future__ import annotations

import importlib.util

from flows.data import storage
from flows.data.runs import RunPaths, RunRecord
from flows.faults import Fault, InputError
from flows.run.delta.copies import Copies

_SETTING = "--delta"


def refuse(folder: str, pipeline: str, target: str) -> None:
    """Raise `InputError` where results cannot be published as Delta tables of a folder."""
    if importlib.util.find_spec("deltalake") is None:
        remedy = "pip install 'vbflows[delta]'"
        raise InputError([Fault(_SETTING, "the package deltalake", "none", remedy=remedy)])
    if not storage.is_local(folder) and not folder.startswith(("s3://", "s3a://")):
        raise InputError([Fault(_SETTING, "a path or s3://", storage.shown(folder))])
    # Delta's library takes a path for a URL and decodes it: it would look in another folder.
    signs = "%" if storage.is_local(folder) else "%#"
    found = next((sign for sign in signs if sign in folder), "")
    if found:
        fault = f"{storage.shown(folder)}, with {found}"
        remedy = "choose a folder of another name"
        raise InputError([Fault(_SETTING, f"a folder without {found}", fault, remedy=remedy)])
    runs = storage.join(target, "runs")
    if f"{folder}/".startswith(f"{runs}/"):
        remedy = f"choose another one, such as {storage.join(target, 'delta')}"
        expected = f"a folder that is not among the runs of the target, {runs}"
        raise InputError([Fault(_SETTING, expected, storage.shown(folder), remedy=remedy)])
    from flows.run.delta import tables

    storage.check_writable(folder)
    ours = tables.described(pipeline, target)
    for name, description in _below(folder).items():
        if description != ours:
            raise InputError(
                [
                    Fault(
                        storage.shown(folder),
                        f"no Delta tables but those of this target ({ours})",
                        f"{name} ({description})",
                        remedy="choose a folder of its own for each target",
                    )
                ]
            )


def _below(folder: str) -> dict[str, str]:
    from flows.run.delta import tables

    try:
        return tables.below(folder)
    except storage.TransientStorageError:
        raise
    except storage.StorageError as error:
        expected = "Delta tables that can be read"
        remedy = "mend the table, or remove its folder"
        raise InputError(
            [Fault(storage.shown(folder), expected, str(error), remedy=remedy)]
        ) from error


def commit(paths: RunPaths, record: RunRecord, copies: Copies) -> str:
    """Let every table hold what the run has found; return a line that says so.

    A table that an earlier run had and this one has not is emptied.
    """
    from flows.run.delta import tables

    ours, told = tables.described(record.pipeline, paths.target), []
    for name in sorted({*copies.tables, *tables.below(copies.folder)}):
        url, files = storage.join(copies.folder, name), copies.tables.get(name)
        if files is None:
            version = tables.clear(url, paths.run_id)
        else:
            schema = storage.parquet_file(storage.join(url, files[0].name)).schema_arrow
            all_of_them = [(file.name, file.bytes, file.rows) for file in files]
            version = tables.replace(url, ours, paths.run_id, schema, all_of_them)
        told.append(f"{name} {version}")
    return (
        f"Delta tables below {storage.shown(copies.folder)} and their versions: {', '.join(told)}"
    )
