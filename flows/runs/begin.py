"""How a run begins and ends: who follows it, what a failure leaves, the sentence that says so.

A run that failed can be resumed, unless its input was refused: then nothing of it is left. The
target is as it was in either case.
"""

from __future__ import annotations

import errno
import re
import resource
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress

import psutil
from numpy.linalg import LinAlgError
from pydantic import BaseModel, ValidationError

from flows import storage
from flows.catalogue import known, pipeline_named
from flows.events import Events, Failed, Requested, installed
from flows.family import Family
from flows.faults import (
    MEMORY_ADVICE,
    ComputeError,
    InputError,
    Interrupted,
    RunError,
    first_line,
    no_space,
    refuse_missing,
)
from flows.fit import preload
from flows.fit.job import one_thread
from flows.prefect import page, reached
from flows.records.runs import (
    PublishError,
    RemovedError,
    RunPaths,
    RunRecord,
    is_latest,
    new_run_id,
    open_run,
    refuse_removed,
)
from flows.runs import resume as resuming
from flows.runs.context import Run
from flows.settings import ComputeSettings, RunSettings
from flows.settings.base import FILE, FOLDER
from flows.settings.load import validated
from flows.storage import StorageError
from flows.tables.roles import WEIGHT


class DamagedWork(RunError):
    """A file that a run wrote for its own use is damaged; a resume of the run writes it again."""

    def __init__(self, message: str, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


@contextmanager
def begin(
    pipeline: str,
    source: storage.Sources,
    target: str,
    settings: RunSettings | Mapping[str, object] | None = None,
    compute: ComputeSettings | Mapping[str, object] | None = None,
    since: str | None = None,
    resume: str | None = None,
) -> Iterator[Run]:
    """Yield a run to carry out the stages on; the parameters are those of `flows.run.run`."""
    require_memory()
    if not resuming.is_named(resume):
        refuse_missing(source)  # before the family is loaded, which takes a second
    options = validated(ComputeSettings, compute or {})
    with _workers_for(pipeline, options), reached(options.s3), one_thread():
        family = pipeline_named(pipeline)
        settings = validated(family.settings, settings or {})
        refuse_secrets(*storage.given(source), target, settings, options)
        run_id = resume if resume and resuming.is_named(resume) else new_run_id()
        paths = RunPaths(storage.absolute(target), run_id)
        run = Run(family, source, paths, settings, Events(), options, since, resume)
        with _followed(run):
            run.open.enter_context(resuming.turn(run))
            yield run


@contextmanager
def begin_score(
    fitted: str, source: storage.Sources, target: str, compute: ComputeSettings
) -> Iterator[Run]:
    """Yield a run that applies a finished one to new data."""
    require_memory()
    refuse_missing(source)
    refuse_secrets(fitted, *storage.given(source), target, compute)
    with reached(compute.s3), one_thread(), ExitStack() as ends:
        fitted_paths, record = open_run(fitted)
        ends.enter_context(_workers_for(record.pipeline, compute))
        family = pipeline_named(record.pipeline)
        paths = RunPaths(storage.absolute(target), new_run_id())
        run = Run(
            family,
            source,
            paths,
            _settings_of(family, fitted_paths, record),
            Events(),
            compute,
            fitted=fitted_paths,
        )
        run.changed = record.changed
        with _followed(run):
            yield run


def _workers_for(pipeline: str, compute: ComputeSettings) -> AbstractContextManager[None]:
    """Begin to import what local workers need, if there are to be any."""
    if not compute.workers:
        return nullcontext()
    return preload.started(known(pipeline).family, "flows.runs.incremental")


@contextmanager
def _followed(run: Run) -> Iterator[None]:
    """Let listeners follow a run; end it in a sentence, and leave nothing of what is refused."""
    for listener in [*page(run.options.reports), *installed(run.events.say)]:
        run.events.add(listener)
    made = storage.absent(run.paths.target)
    chosen = run.resume is None or resuming.is_named(run.resume)
    requested = Requested(
        run.paths.run_id if chosen else "",
        run.family.name,
        tuple(storage.given(run.source)),
        run.paths.target,
        run.settings.model_dump(mode="json"),
        None if run.fitted is None else run.fitted.root,
        resuming.is_named(run.resume),
    )
    try:
        run.events.emit(requested)
        with _ended(run), resource_errors(run), run.open:
            yield
    except BaseException as error:
        if run.begun and not _is_kept(run, error):
            resuming.forget(run.paths, run.events, made)
        run.events.emit(Failed(error))
        raise


def _is_kept(run: Run, error: BaseException) -> bool:
    """Whether another attempt can go on with a run that failed, or it is published."""
    if isinstance(error, RemovedError):
        return False
    of_input = isinstance(error, InputError) or isinstance(error.__cause__, storage.ChangedError)
    kept = run.is_resume or (run.can_resume and not of_input)
    return (kept and not run.is_refused) or _is_published(run)


@contextmanager
def _ended(run: Run) -> Iterator[None]:
    """Say of a run that failed or was stopped what became of it, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        how = str(error) or "interrupted"
        raise Interrupted(f"{how}; {_what_became_of(run)}") from error
    except (ComputeError, StorageError, LinAlgError) as error:
        with suppress(StorageError), storage.no_retry():
            if run.lock is not None:
                refuse_removed(run.paths)
        _refuse_damaged(run, error)
        if isinstance(error, storage.ChangedError):
            raise RunError(f"{error}; nothing was published") from error
        why = "; ".join([str(error), *getattr(error, "__notes__", ())])
        raise RunError(f"{why}; {_what_became_of(run)}") from error


def _refuse_damaged(run: Run, error: Exception) -> None:
    """Raise what fits where it is a file of ours that is damaged or gone."""
    if not isinstance(error, storage.DamagedError | storage.MissingError):
        return
    if run.fitted is not None and error.url.startswith(run.fitted.root):
        raise InputError.of(
            run.fitted.root,
            "a finished run as it was published",
            str(error),
            remedy="restore it from a copy, or fit again",
        ) from error
    if run.can_resume and error.url.startswith(run.paths.work):
        try:
            storage.delete(storage.join(run.paths.work, "kept"))
        except StorageError as left:
            run.events.say(f"what run {run.paths.run_id} has kept stays: {left}")
        run.events.say(f"{error}; it is made again")
        raise DamagedWork(f"{error}; {_what_became_of(run)}", run.paths.run_id) from error


def _what_became_of(run: Run) -> str:
    run_id = run.paths.run_id
    if _is_published(run):
        return f"run {run_id} is published"
    again = f"repeat the command with --resume {run_id}"
    return f"nothing was published; {again if run.can_resume else 'run it again'}"


def _is_published(run: Run) -> bool:
    with storage.no_retry():
        return is_latest(run.paths)


def _settings_of(family: Family, fitted: RunPaths, record: RunRecord) -> RunSettings:
    """Return the settings of a fit for new rows, which are scored alike whatever they weigh."""
    # New data may have a table of their own with a line a file, and their folder is no label.
    columns = {
        role: name
        for role, name in record.settings["columns"].items()
        if role not in (WEIGHT, FILE) and not (name == FOLDER and role.startswith("label"))
    }
    known = {k: v for k, v in record.settings.items() if not k.startswith("file_")}
    try:
        return family.settings(**known | {"columns": columns})
    except ValidationError as error:
        raise PublishError(
            f"run {fitted.run_id}",
            "settings that this version of vbflows knows",
            ", ".join(sorted({".".join(str(part) for part in e["loc"]) for e in error.errors()})),
            f"fit again, or score with vbflows {record.versions.get('vbflows', 'of that time')}",
        ) from error


def refuse_secrets(*values: str | BaseModel) -> None:
    """Refuse URLs with secrets before Prefect and run.json record them, in settings too."""
    try:
        for value in values:
            for text in _texts(value.model_dump() if isinstance(value, BaseModel) else value):
                storage.refuse_secrets(text)
    except StorageError as error:
        raise InputError.of("command line", "a URL without secrets", str(error)) from error


def _texts(value: object) -> Iterator[str]:
    """Yield the texts in a setting's plain value."""
    if isinstance(value, str):
        yield value
    parts = value.values() if isinstance(value, Mapping) else value
    if isinstance(parts, Collection) and not isinstance(parts, str | bytes):
        for part in parts:
            yield from _texts(part)


HEADROOM = 512 * 2**20  # bytes of address space that the libraries of a run take, and some data
_TEXT = re.compile(
    r"can't start new thread|failed to map segment|[Cc]annot allocate memory|bad_alloc|"
    r"out of memory"
)


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; threads and libraries need some, too."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    may_say_so = isinstance(error, RuntimeError | ImportError | OSError)
    return may_say_so and _TEXT.search(str(error)) is not None


@contextmanager
def resource_errors(run: Run) -> Iterator[None]:
    """Turn a lack of memory, or of room for temporary files, into an error that says it."""
    try:
        yield
    except Exception as error:
        if (full := no_space(error)) is not None:
            raise StorageError(full) from error
        if isinstance(error, ComputeError) or not lacks_memory(error):
            raise
        what = first_line(error) if str(error) else "no more could be allocated"
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        if limit != resource.RLIM_INFINITY:
            what += f"; limit {limit >> 20} MiB by ulimit -v"
        raise ComputeError(
            f"memory ran out in the stage {run.events.stage} ({what}); {MEMORY_ADVICE}"
        ) from error


def require_memory() -> None:
    """Refuse to begin where the limit of this process leaves too little for its libraries.

    The linear algebra, the compiler and the allocator abort the process where they get no memory,
    without a word that could be caught.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    left = limit - psutil.Process().memory_info().vms
    if left < HEADROOM:
        raise ComputeError(
            f"too little memory to begin: ulimit -v {limit >> 10} leaves "
            f"{max(left, 0) / 2**20:.0f} MiB, and a run needs {HEADROOM / 2**20:.0f} MiB "
            "and room for the data; raise the limit"
        )
