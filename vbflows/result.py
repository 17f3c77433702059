"""A finished run in Python: what was found, its tables, and new data by the same fit."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from os import PathLike, fspath
from typing import Any, Literal, get_args
from weakref import finalize

import narwhals.stable.v1 as nw
import pyarrow as pa

from flows import storage
from flows.faults import InputError
from flows.read.rows import parts_of, require_column, require_table, shown_of, tables_of
from flows.records.runs import open_run
from flows.run import score as score_run
from flows.settings import ComputeSettings

Library = Literal["pyarrow", "pandas", "polars"]


class Result:
    """A finished run; `vbflows.load` opens it.

    Attributes
    ----------
    pipeline, run_id, target, report
        Its pipeline, its id, the folder or URL of the run, and the address of its page.
    headline, warnings
        What was found in a sentence, and what to know before a decision.
    answer
        What was found, typed: the numbers of the page and of ``results`` in run.json.
    settings
        The settings of the run.
    tables
        The names of its tables.
    """

    def __init__(self, run: str) -> None:
        paths, record = open_run(run)
        self._paths = paths
        self.pipeline, self.run_id, self.target = record.pipeline, paths.run_id, paths.root
        self.report = paths.file("report.html")
        self.headline, self.warnings = record.headline, list(record.warnings)
        self.settings = dict(record.settings)
        self.answer = shown_of(paths, record).answer
        self.tables = tables_of(paths)

    def __repr__(self) -> str:
        return f"<{self.pipeline} {self.run_id}: {self.headline}>"

    def table(
        self, name: str, columns: Sequence[str] | None = None, library: Library = "pyarrow"
    ) -> Any:
        """Return one of the run's tables.

        Parameters
        ----------
        name
            One of `tables`.
        columns
            The columns that are wanted; by default all.
        library
            What the table is of: pyarrow, pandas or polars, which must be installed.

        Raises
        ------
        InputError
            If the run has no such table or column, or ``library`` is none of these.
        """
        if library not in get_args(Library):
            raise InputError.of("library", f"one of {', '.join(get_args(Library))}", library)
        require_table(self._paths, name)
        urls = [storage.join(self._paths.table(name), part) for part in parts_of(self._paths, name)]
        names = storage.parquet_file(urls[0]).schema_arrow.names
        wanted = names if columns is None else list(columns)
        for column in wanted:
            require_column(column, names, name)
        rows = pa.concat_tables([storage.read_table(url, wanted) for url in urls]).select(wanted)
        if library == "pyarrow":
            return rows
        frame = nw.from_native(rows, eager_only=True)
        return frame.to_pandas() if library == "pandas" else frame.to_polars()

    def score(self, source: Any, target: str | PathLike[str] | None = None) -> Result:
        """Apply the fit to new data; return that run.

        Parameters
        ----------
        source
            A path, folder, glob or URL, several of them, or a table in memory: of pyarrow, pandas
            or polars.
        target
            Folder or URL for the results; by default a folder that ends with the returned run.

        Raises
        ------
        InputError
            If the new data are wrong, or other than those of the fit: every fault.
        """
        given = [source] if isinstance(source, str | PathLike) else source
        with tempfile.TemporaryDirectory(prefix="vbflows-") as folder, ExitStack() as failed:
            if not isinstance(given, Sequence):
                path = f"{folder}/table.parquet"
                storage.write_table(path, _arrow(source))
                given = [path]
            where = tempfile.mkdtemp(prefix="vbflows-") if target is None else fspath(target)
            remove = partial(shutil.rmtree, where, ignore_errors=True)
            if target is None:
                failed.callback(remove)
            score_run(self.target, list(map(fspath, given)), where, ComputeSettings())
            failed.pop_all()
        found = Result(where)
        if target is None:
            finalize(found, remove)
        return found


def _arrow(table: Any) -> pa.Table:
    """Return a table in memory as Arrow has it."""
    try:
        return nw.from_native(table, eager_only=True).to_arrow()
    except (TypeError, pa.ArrowException) as error:
        raise InputError.of(
            "the table in memory",
            "one of pyarrow, pandas or polars, each column of one type",
            f"{type(table).__name__}: {error}",
        ) from error
