"""The one order of every pipeline: check, ingest, partition, fit, score, publish.

Families check rows as they ingest them; what comes before looks at footers (`flows.run.checking`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic import ValidationError

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.data.lock import claim
from flows.data.runs import RUN, PublishError, RunPaths, RunRecord, is_latest, new_run_id, open_run
from flows.data.states import read_state
from flows.data.storage import StorageError
from flows.family import Family, Prepared, ReadsSettings, model_for
from flows.faults import ComputeError, Fault, InputError, RunError
from flows.fit.compute import computing, each_of
from flows.fit.driver import FitResult, Progress, run_fit
from flows.fit.executor import Executor
from flows.fit.job import Job, one_thread
from flows.run import since as incremental
from flows.run.checking import accept, every_fault_told, look_at_files
from flows.run.events import Accepted, Begun, Computing, Events, Line, Stage, Sweep
from flows.run.listeners import listened_to
from flows.run.memo import FREE
from flows.run.memory import memory_errors
from flows.run.outcome import publish
from flows.run.prefect.access import reached
from flows.run.resumed import (
    asked_for,
    earlier_of,
    forget,
    forget_kept,
    is_complete,
    publish_again,
    refuse_empty,
    refuse_nothing,
    remove_results,
    settle,
    since_whom,
)
from flows.run.running import Run
from flows.run.workers import choose_threads
from flows.settings import ComputeSettings, RunSettings
from vbmodels.core.convergence import remaining_rise
from vbmodels.core.protocol import Repeating
from vbmodels.core.state import State


class Interrupted(KeyboardInterrupt):
    """A run was stopped by hand; its message says how to go on."""


class DamagedWork(RunError):
    """A file that a run made for itself is damaged; another attempt makes it again."""


@dataclass(frozen=True)
class Nothing(State):
    """The global parameters of what has none."""


def run_pipeline(
    family: Family,
    events: Events,
    source: storage.Sources,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None,
    since: str | None = None,
) -> dict[str, Any]:
    """Fit a family's model to a source and publish what it finds; return what to print.

    Parameters
    ----------
    events
        Who is told how it goes.
    resume
        Name of an unfinished run below the target to go on with.
    since
        ``latest``, or the name of a finished run below the target: only what has changed
        since is read, and the fit starts from its posterior.

    Raises
    ------
    InputError
        If the input or the settings are wrong: every fault, before any compute.
    StorageError
        If storage cannot be read or written.
    """
    with reached(compute.s3):
        paths = RunPaths(storage.absolute(target), resume or new_run_id())
        if resume is not None:
            if is_complete(paths):
                return publish_again(family, paths)
            refuse_nothing(paths)
        again = resume is not None
        settings = settled_by_input(family, source, settings)
        run = Run(family, source, paths, settings, events, resumes=again, resumable=again)
        with memory_errors(run), listened_to(run):
            return _mended(run, compute, since)


def score_pipeline(
    fitted_run: str, events: Events, source: storage.Sources, target: str, compute: ComputeSettings
) -> dict[str, Any]:
    """Apply the posterior of a finished run to new data and publish the result."""
    with reached(compute.s3):
        fitted, record = open_run(fitted_run)
        family = pipeline_named(record.pipeline)
        settings = _settings_of(family, fitted, record)
        paths = RunPaths(storage.absolute(target), new_run_id())
        run = Run(family, source, paths, settings, events, fitted=fitted)
        with memory_errors(run), listened_to(run):
            return _carry_out(run, compute)


def _mended(run: Run, compute: ComputeSettings, since: str | None) -> dict[str, Any]:
    """Carry out a run; where a file that it made for itself is damaged, once more."""
    try:
        return _carry_out(run, compute, since)
    except DamagedWork as damaged:
        run.events.tell(Line(f"{damaged.__cause__}; it is made again"))
        run.resumes = True
        return _carry_out(run, compute, since)


def _carry_out(run: Run, compute: ComputeSettings, since: str | None = None) -> dict[str, Any]:
    """Look, claim, ingest, accept, partition, fit, score, publish: the one order of every run."""
    family, settings, paths, events = run.family, run.settings, run.paths, run.events
    events.tell(Stage("check"))
    to_fit = run.fitted is None
    if to_fit:
        refuse_empty(since)
    run.files, run.checked = look_at_files(family, events, run.source, settings, to_fit)
    with _nothing_left_of_what_is_refused(run):
        storage.check_writable(paths.target, *paths.below, "work")
        storage.own(paths.root, RUN)
        run.since = _earlier(run, since)
        events.tell(Begun(paths.run_id))
        with every_fault_told(run):
            parts = incremental.cut(run)
        run.threads = choose_threads(run, compute, incremental.unknown(run, parts))
        run.workers = compute.workers or 0
        events.tell(Computing(run.workers))
        # One thread: the bits of the global steps, too, hang on no number of cores, and a machine
        # that is busy does not make threads wait for each other.
        with (
            _told_if_published(run),
            computing(compute, run.threads) as run.compute,
            _stopped_with_a_word(run),
            memory_errors(run),
            _claimed(run),
            one_thread(),
        ):
            events.tell(Stage("ingest"))
            with every_fault_told(run):
                ingested = incremental.ingest(run, parts)
            accept(run, ingested)
            events.tell(Accepted(run.inputs))
            each = each_of(run.compute, run.on_progress("partition"))
            prepared = run.stage(
                "partition", family.prepare, parts, settings, paths, run.fitted, each
            )
            if run.resumes:
                remove_results(paths)
            model = model_for(family, settings, prepared)
            job = _job(run, model, prepared)
            with closing(run.compute.executor(job)) as executor:
                q, fitted = _posterior(run, job, executor)
                number = None if fitted is None else fitted.number
                summaries = run.stage("score", _score, run, executor, q, number)
                incremental.keep(run)
            return run.stage(
                "publish", publish, run, ingested, prepared, model, q, fitted, summaries
            )


def _posterior(run: Run, job: Job, executor: Executor) -> tuple[State, FitResult | None]:
    """Fit, or read what a finished run has fitted; there may be nothing to fit."""
    if job.model is None:
        return Nothing(), None
    if run.fitted is not None:
        return read_state(storage.join(run.fitted.root, "posterior", "q.npz"), State), None
    fit = partial(run_fit, job, executor, on_step=_teller(run), resume=run.resumes)
    fitted = run.stage("fit", fit)
    return fitted.q, fitted


@contextmanager
def _claimed(run: Run) -> Iterator[None]:
    """Be the run's one publisher until the end, not only while the model is fitted."""
    with claim(run.paths.work, run.paths.run_id) as run.held:
        if run.fitted is None:
            whom = since_whom(run.since)
            ours = asked_for(run.family.name, run.settings, whom, run.files)
            settle(run.paths, ours, run.resumes)
            run.resumable = True
        yield


@contextmanager
def _nothing_left_of_what_is_refused(run: Run) -> Iterator[None]:
    """Remove a run that is refused, or that nothing can go on with."""
    made = storage.absent(run.paths.target)
    try:
        yield
    except BaseException as error:
        gone_on_with = run.resumes or (run.resumable and not isinstance(error, InputError))
        gone_on_with &= not run.hopeless
        if not gone_on_with and not _is_published(run):
            forget(run.paths, run.events, made)
        raise


@contextmanager
def _told_if_published(run: Run) -> Iterator[None]:
    """Say so where a run is stopped that is published, at its end or while its workers end."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt as error:
        if not _is_published(run):
            raise
        raise Interrupted(f"run {run.paths.run_id} is published") from error


@contextmanager
def _stopped_with_a_word(run: Run) -> Iterator[None]:
    """Say of a run that was stopped what became of it, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        if _is_published(run):
            raise  # for `_told_if_published`
        raise Interrupted(_as_it_was(run)) from error
    except (ComputeError, StorageError) as error:
        damaged = (
            error.url if isinstance(error, storage.DamagedError | storage.MissingError) else ""
        )
        if run.fitted is not None and damaged.startswith(run.fitted.root):
            fault = Fault(
                run.fitted.root,
                "a finished run as it was published",
                str(error),
                remedy="restore it from a copy, or fit again",
            )
            raise InputError([fault]) from error
        if damaged.startswith(run.paths.work):
            forget_kept(run.paths, run.events)
            raise DamagedWork(f"{error}; {_as_it_was(run)}") from error
        raise RunError(f"{error}; {_as_it_was(run)}") from error


def _is_published(run: Run) -> bool:
    with storage.impatient():
        return is_latest(run.paths)


def _as_it_was(run: Run) -> str:
    again = f"go on with the same command and --resume {run.paths.run_id}"
    return f"latest.json is as it was; {again if run.resumable else 'run it again'}"


def _earlier(run: Run, since: str | None) -> incremental.Since | None:
    if since is None:
        return None
    if run.family.model(run.settings) is None:
        run.events.tell(Line("since has no effect: these settings fit no model, all is read"))
        return None
    found = earlier_of(run.family, run.paths, run.settings, since, run.resumes)
    if found.earlier is None:
        run.events.tell(
            Line(f"since {since}: {run.paths.target} has no earlier run, so all is read")
        )
    return found


def _settings_of(family: Family, fitted: RunPaths, record: RunRecord) -> RunSettings:
    try:
        return family.settings(**record.settings)
    except ValidationError as error:
        names = sorted({".".join(str(part) for part in e["loc"]) for e in error.errors()})
        raise PublishError(
            f"run {fitted.run_id}",
            "settings that this version of vbflows knows",
            ", ".join(names),
            f"fit again, or score with vbflows {record.versions.get('vbflows', 'of that time')}",
        ) from error


def settled_by_input(family: Family, source: storage.Sources, settings: RunSettings) -> RunSettings:
    """Return the settings with what the input itself says of them."""
    if not isinstance(family, ReadsSettings):
        return settings
    found: RunSettings = family.settled(source, settings)
    return found


def _job(run: Run, model: Any, prepared: Prepared) -> Job:
    return Job(
        model=model,
        batch=prepared.batch,
        partitions=prepared.partitions,
        store=run.paths.work,
        run_id=run.paths.run_id,
        seed=run.settings.seed,
        tol=run.settings.tol,
        max_iter=_most_sweeps(model, run.settings),
        checkpoint_every=run.settings.checkpoint_every,
        settings=tuple(
            (name, repr(value))
            for name, value in sorted(run.settings.model_dump(exclude=set(FREE)).items())
        ),
        start=incremental.start_of(run, model),
    )


def _most_sweeps(model: Any, settings: RunSettings) -> int:
    """Return the most sweeps of a fit, which may be several."""
    of_one = settings.max_iter
    return model.most_sweeps(of_one) if isinstance(model, Repeating) else of_one


def _score(run: Run, executor: Any, q: State, number: int | None) -> list[Any]:
    function = partial(run.family.score, settings=run.settings, paths=run.paths, fitted=run.fitted)
    return list(executor.map(function, q, number, run.on_progress("score")))


def _teller(run: Run) -> Callable[[Progress], None]:
    """Tell how the fit goes."""
    seen: list[float] = []

    def tell(progress: Progress) -> None:
        seen.append(progress.elbo)
        left = _sweeps_left(seen, run.settings.tol)
        run.events.tell(
            Sweep(progress.iteration, progress.elbo, progress.rise, left, progress.max_iter)
        )

    return tell


def _sweeps_left(trace: Sequence[float], tol: float) -> float | None:
    """Estimate how many sweeps a geometric rise needs to come below the tolerance."""
    if len(trace) < 3:
        return None
    now, before = trace[-1] - trace[-2], trace[-2] - trace[-3]
    rate = now / before if before > 0 else 0.0
    goal = tol * max(1.0, abs(trace[-1]))
    left = remaining_rise(trace)
    if not 0.0 < rate < 1.0 or left <= goal:
        return None
    return math.log(goal / left) / math.log(rate)
