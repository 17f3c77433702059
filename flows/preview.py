"""What a run would say before its fit: every fault, or its warnings and what it will take."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from flows import stages, storage
from flows.catalogue import pipeline_named, table_read
from flows.events import Events, Stage
from flows.family import Prepared, reading_of
from flows.fit.job import one_thread
from flows.records.runs import Dropped, RunPaths, new_run_id, peak_memory
from flows.records.states import read_state
from flows.runs import checking
from flows.runs.context import Run
from flows.settings import RunSettings
from flows.storage.objects.staging import bytes_in_words
from flows.tables.column_table import declared, id_option, kind_of
from flows.tables.column_table import in_lines as in_columns
from flows.tables.table import ROW_ID
from vbmodels.core.algorithm import NonFiniteBound, Remembering, Repeating, Uneven
from vbmodels.core.cached_kernels import compiling
from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, loop_of
from vbmodels.core.state import tree_sum
from vbmodels.tables.column_table import ColumnRead

_SWEEPS = 10  # timed at least; the first ones may compile and start cold
_KEPT = 2  # local states that an executor holds
_MOST_SECONDS = 1.0  # of a processor, for which the fit of the first partition is timed
_MANY = 500  # sweeps, of a fit that is not timed to its end
_REST = 3.5  # CPU seconds of a small run beyond reading and fit; 2.0 to 5.3 over five of 2026


@dataclass(frozen=True)
class Estimate:
    """What is known of a run before its fit; None where it was not computed.

    Attributes
    ----------
    files, rows
        Of the input.
    dropped
        Rows and values that would not be used, and why.
    warnings
        What the run would warn of, as far as it is known before the fit.
    partitions
        That the rows are cut into.
    memory_bytes
        The partitions' data, and what else a fit in one process holds: local states, and
        what its model remembers.
    seconds_to_read
        To read and prepare the input, as it took just now, without the compiling of kernels.
    seconds_to_compile
        That this took just now; the next command finds them in the cache.
    seconds_a_sweep
        Of one sweep over all partitions in one process, the mean over those timed but the first.
    sweeps
        That the fit of the first partition took where it ended while it was timed; else None.
    most_sweeps
        After which the fit stops, if it has not converged.
    further_fits
        Fits that test the one; see `flows.family.Prepared`.
    seconds
        Of the whole run in one process: reading, the fits, and the rest of a small run:
        tables, baselines, the report.
    columns
        How every column was read, and whether it is used.
    notes
        What was inferred and is most likely right.
    row
        What a row is.
    """

    files: int
    rows: int
    dropped: tuple[Dropped, ...] = ()
    warnings: tuple[str, ...] = ()
    partitions: int | None = None
    memory_bytes: int | None = None
    seconds_to_read: float | None = None
    seconds_to_compile: float | None = None
    seconds_a_sweep: float | None = None
    sweeps: int | None = None
    most_sweeps: int | None = None
    usual_sweeps: int = RunSettings.usual_sweeps
    further_fits: float = 0.0
    seconds: float | None = None
    columns: tuple[ColumnRead, ...] = ()
    notes: tuple[str, ...] = ()
    row: str = "row"

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values, under the names that a failure has too."""
        plain = asdict(self) | {"dropped": [loss.model_dump() for loss in self.dropped]}
        return {"error": None, "exit": 0, "faults": [], **plain}


def in_lines(preview: Estimate, width: int = 0) -> list[str]:
    """Say it in lines, of which the table of columns fits ``width`` (0: any)."""
    files = "1 file" if preview.files == 1 else f"{preview.files:,} files"
    lines = [_headline(preview, files), *in_columns(preview.columns, width=width)]
    for loss in (loss for loss in preview.dropped if not loss.is_warned_of):
        more = ", ..." if loss.examples and loss.count > 3 else ""
        names = ", ".join(loss.examples[:3]) + more
        lines.append(f"not used: {loss.reason}: {loss.count:,}" + (f" ({names})" if names else ""))
    lines += [f"note: {note}" for note in preview.notes]
    lines += [f"warning: {warning}" for warning in preview.warnings]
    if preview.memory_bytes is not None:
        lines += [_time(preview), _memory(preview.memory_bytes)]
    return lines


def _time(preview: Estimate) -> str:
    """Say what a run takes, how far off that may be, and what of it the fit takes."""
    total = preview.seconds or 0.0
    sweeps = preview.sweeps or preview.usual_sweeps
    fit = sweeps * (preview.seconds_a_sweep or 0.0)
    many = f"{sweeps:,} sweeps" if preview.sweeps else f"if it takes {sweeps} sweeps"
    most = _MANY if preview.most_sweeps is None else min(_MANY, preview.most_sweeps)
    longer = 0.0 if preview.sweeps else max(most - sweeps, 0) * (preview.seconds_a_sweep or 0.0)
    return (
        f"time: about {_duration(total)} ({_range(total, longer)}) in one process, "
        f"{_duration(fit)} of it the fit ({many})"
    )


def _memory(held: int) -> str:
    """Say what a run takes: what this process took to read and to begin, and what a fit holds."""
    more = f", of which {bytes_in_words(held)} are data and local state" if held >= _MUCH else ""
    size = float(f"{(peak_memory() + held) / 2**20:.2g}")
    return f"memory: about {size:,.0f} MiB in one process{more}"


_MUCH = 2**26  # bytes


def _range(seconds: float, longer: float = 0.0) -> str:
    """Say from half to twice a time, in one digit of seconds: other work on the machine counts.

    ``longer``: how much more a fit of many sweeps may take, where their number is not known.

    >>> _range(10.6), _range(30.0), _range(60.0), _range(7300.0), _range(5.0, 10.0)
    ('5 to 20 s', '20 to 60 s', '30 s to 2 min', '61 min to 4.1 h', '2 to 30 s')
    """
    low, high = seconds / 2.0, 2.0 * (seconds + longer)
    if high < 95.0:
        return f"{float(f'{low:.1g}'):g} to {float(f'{high:.1g}'):g} s"
    return f"{_duration(low)} to {_duration(max(high, 120.0))}"


def _headline(preview: Estimate, files: str) -> str:
    """Say how much there is, and how much of it is not used or needs a look."""
    unused = sum(loss.count for loss in preview.dropped if not loss.is_warned_of)
    not_used = sum(c.left_out for c in preview.columns)
    row = preview.row if preview.rows == 1 else f"{preview.row}s"
    parts = [f"{preview.rows:,} {row} in {files}", "no errors"]
    for count, one, several in (
        (len(preview.warnings), "warning", "warnings"),
        (not_used, "column not used", "columns not used"),
        (unused, "row or value not used", "rows or values not used"),
    ):
        if count:
            parts.append(f"{count:,} {one if count == 1 else several}")
    return ", ".join(parts)


def _duration(seconds: float) -> str:
    """Say a time in two digits.

    >>> _duration(0.0123), _duration(75.0), _duration(7300.0)
    ('0.012 s', '75 s', '2.0 h')
    """
    if seconds < 120.0:
        return f"{float(f'{seconds:.2g}'):g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200.0 else f"{seconds / 3600:.1f} h"


def estimate(
    pipeline: str, source: storage.Sources, settings: RunSettings, prepare: bool = True
) -> Estimate:
    """Check a source and prepare it as a run would, in a folder that is then removed.

    Parameters
    ----------
    pipeline
        Its name.
    source
        Its input.
    settings
        Its settings.
    prepare
        Whether to go on when the files are without a fault.

    Raises
    ------
    InputError
        With every fault found.
    """
    # CPU seconds, as other work does not matter; of a store, seconds of the wall.
    local = all(storage.is_local(s) for s in storage.given(source))
    clock = time.process_time if local else time.perf_counter
    began = clock()  # a run imports its family too
    family = pipeline_named(pipeline)
    # One thread, as a run has: a sweep is timed as it will be.
    with (
        tempfile.TemporaryDirectory(prefix="vbflows-check-") as folder,
        one_thread(),
        compiling(clock) as compiled,
    ):
        paths = RunPaths(storage.absolute(folder), new_run_id())
        run = Run(family, source, paths, settings, Events())
        with run.open:
            if prepare:
                stages.check(run)
            else:
                run.events.emit(Stage("check"))
                checking.complete_settings(run)
                checking.look_at_files(run, rows=True)
            of_headers = tuple(checking.file_warnings(run))
            rows = sum(c.rows for c in run.checked)
            row = run.checked[0].row if run.checked else "row"
            preview = Estimate(
                sum(c.files for c in run.checked), rows, warnings=of_headers, row=row
            )
            if not prepare:
                return preview
            stages.ingest(run)
            stages.prepare(run)
        read = max(clock() - began - compiled(), 0.0)
        run.events.emit(Stage("time a sweep"))
        q, warned, costs = _begin(run.model, run.prepared, run.settings)
        if costs:
            fit = (costs["sweeps"] or costs["usual_sweeps"]) * costs["seconds_a_sweep"]
            more = costs["further_fits"] = run.prepared.further_fits
            costs["seconds"] = read + fit * (1.0 + more) + _REST
        warned = (*family.warnings_before_fit(q, run.settings), *warned)
    columns, notes = _named(pipeline, run.prepared.columns or _declared(run), settings)
    of_input = (*of_headers, *run.prepared.warnings, *checking.loss_warnings(run))
    return replace(
        preview,
        dropped=tuple(checking.all_dropped(run)),
        warnings=tuple(dict.fromkeys((*of_input, *warned))),
        columns=columns,
        notes=(*run.prepared.notes, *notes),
        partitions=len(run.prepared.partitions),
        seconds_to_read=read,
        seconds_to_compile=compiled(),
        **costs,
    )


def _named(
    pipeline: str, columns: Sequence[ColumnRead], settings: RunSettings
) -> tuple[tuple[ColumnRead, ...], list[str]]:
    """Return the columns with that of the rows' names, or a note on one that could name them."""
    table, named = table_read(pipeline), settings.columns.get(ROW_ID.name)
    if table is None or table.id is not ROW_ID:
        return tuple(columns), []
    if named:
        return (ColumnRead(named, "id", 0, "", "name of the row"), *columns), []
    ids = [c.name for c in columns if c.left_out and kind_of(c) == "id"]
    options = [(name, id_option(name)) for name in ids[:1]]
    return tuple(columns), [f"{how} takes {name} for names of rows" for name, how in options if how]


def _declared(run: Run) -> tuple[ColumnRead, ...]:
    """Return the columns of the first file, of a pipeline that reads the columns that it names."""
    table = table_read(run.family.name)
    with reading_of(run.family, run.settings), suppress(storage.StorageError):
        names = storage.parquet_file(run.files[0].url).schema_arrow.names
        for candidate in filter(None, (table, table and table.or_else)):
            columns = declared(candidate, [names], run.settings.columns)
            if {c.name for c in candidate.columns if c.required} <= {c.used for c in columns}:
                return columns
    return ()


def _begin(
    model: Any, prepared: Prepared, settings: RunSettings
) -> tuple[Any, tuple[str, ...], dict[str, Any]]:
    """Begin a fit; return its start, what it warns of there, and its costs as `Estimate` has them.

    One partition at a time is in memory; sweeps are timed on the first, and counted for all by
    the size of their data.
    """
    sizes = []

    def observe(url: str) -> Any:
        batch = read_state(url, prepared.batch)
        sizes.append(batch.nbytes)
        return model.observe(batch)

    observed = tree_sum(map(observe, prepared.partitions))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        q = model.init(observed, np.random.default_rng(settings.seed))
    first = _Stopwatch(InProcess(model, [read_state(prepared.partitions[0], prepared.batch)]))
    sweeps, most = None, settings.max_iter
    if isinstance(model, Repeating):
        most = model.most_sweeps(most)
    # One partition's data may have no finite bound.
    with suppress(_Enough, NonFiniteBound, np.linalg.LinAlgError):
        loop = loop_of(model)
        deque(Driver(loop, model, q, first, tol=settings.tol, max_iter=most), maxlen=0)
        sweeps = len(first.seconds)
    warned = tuple(str(warning.message) for warning in caught)
    if not first.seconds:  # the first sweep failed on one partition's data alone
        return q, warned, {}
    share = sum(sizes) / max(sizes[0], 1)
    held = sum(sizes) + _KEPT * first.local_bytes * share
    if isinstance(model, Remembering):
        held += model.remembered(q, first.batch) * share
    costs = {
        "memory_bytes": round(held),
        "seconds_a_sweep": _a_sweep(model, q, first, ended=sweeps is not None) * share,
        "sweeps": sweeps,
        "most_sweeps": most,
        "usual_sweeps": min(settings.usual_sweeps, most),
    }
    return q, warned, costs


def _a_sweep(model: Any, q: Any, first: _Stopwatch, ended: bool) -> float:
    """Return the mean seconds of a sweep; of a fit not timed to its end with the heavy ones."""
    took = np.array(first.seconds[1:] or first.seconds)  # the first one loads the kernels
    light = float(took[took <= 20.0 * np.median(took)].mean())  # those that compile take far more
    heavy = model.heavy(q) if isinstance(model, Uneven) and not ended else None
    if heavy is None:
        return light
    q_heavy, share = heavy
    seconds = []
    for _ in range(2):
        began = time.process_time()
        model.suff_stats(q_heavy, first.batch, None)
        seconds.append(time.process_time() - began)
    return float((1.0 - share) * light + share * min(seconds))


class _Enough(Exception):
    """Enough sweeps were timed."""


class _Stopwatch:
    """An executor that times sweeps and what is done between them, for some seconds.

    It counts CPU seconds, so that other work on the machine does not matter.
    """

    def __init__(self, reduce: InProcess) -> None:
        self._reduce, self._last = reduce, time.process_time()
        self._began = self._last
        (self.batch,) = reduce.batches
        self.seconds: list[float] = []
        self.local_bytes = 0

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Run one sweep; see `vbmodels.core.algorithm.Reduce`."""
        took = time.process_time() - self._began
        if took > _MOST_SECONDS and len(self.seconds) >= (_SWEEPS if took < 10.0 else 2):
            raise _Enough
        stats = self._reduce(q, number=number, warm=warm)
        (local,) = self._reduce.local_states(number)
        self.local_bytes = 0 if local is None else local.nbytes
        now = time.process_time()
        self.seconds.append(now - self._last)
        if len(self.seconds) == 1:  # it may have compiled for a minute, which says nothing
            self._began = now
        self._last = now
        return stats
