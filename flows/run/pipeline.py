"""The one order of every pipeline: check, ingest, partition, fit, score, publish."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from pydantic import ValidationError

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.data.lock import claim
from flows.data.runs import PublishError, RunPlace, RunRecord, is_latest, new_run_id, open_run
from flows.data.states import read_state
from flows.data.storage import InputFile, StorageError
from flows.engine.block import Job
from flows.engine.compute import computing, each_of
from flows.engine.fit import FitResult, Progress, run_fit
from flows.family import Checked, ChecksToFit, Family, Ingested, Prepared
from flows.faults import ComputeError, Fault, InputError, RunError
from flows.run import asked, watch
from flows.run import since as incremental
from flows.run.outcome import publish
from flows.run.prefect.access import reached
from flows.run.resumed import (
    earlier_of,
    forget,
    forget_kept,
    is_complete,
    publish_again,
    refuse_nothing,
    remove_results,
    since_whom,
)
from flows.run.running import Run
from flows.run.stages import Plain, Stages
from flows.settings import ComputeSettings, RunSettings
from vbmodels.core.convergence import remaining_rise
from vbmodels.core.state import State

R = TypeVar("R")


class Interrupted(KeyboardInterrupt):
    """A run was stopped by hand; its message says how to go on."""


@dataclass(frozen=True)
class Nothing(State):
    """The global parameters of what has none."""


def run_pipeline(
    family: Family,
    stages: Stages,
    source: str,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None,
    since: str | None = None,
) -> dict[str, Any]:
    """Fit a family's model to a source and publish what it finds; return what to print.

    Parameters
    ----------
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
        return _run_pipeline(family, stages, source, target, settings, compute, resume, since)


def _run_pipeline(
    family: Family,
    stages: Stages,
    source: str,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    resume: str | None,
    since: str | None,
) -> dict[str, Any]:
    target = storage.absolute(target)
    place = RunPlace(target, resume or new_run_id())
    if resume is not None:
        if is_complete(place):
            return publish_again(family, place)
        refuse_nothing(place)
    watch.current.get().stage("check")
    files, checked = check_files(family, stages, source, settings)
    begun = resume is not None

    def how() -> str:
        again = f"go on with the same command and --resume {place.run_id}"
        return again if begun else "run it again"

    try:
        storage.check_writable(target, *place.below, "work")
        earlier = _earlier(family, place, settings, since, resume is not None)
        ours = asked.asked_for(family.name, settings, since_whom(earlier), files)
        stages.begin(place.run_id, storage.join(place.work, "kept"))
        with computing(compute) as found:
            run = Run(
                family,
                source,
                place,
                settings,
                stages,
                found,
                files=files,
                checked=checked,
                since=earlier,
            )
            # One publisher a run: until the end, not only while the model is fitted.
            with _told(place, how), claim(place.work, place.run_id) as run.held:
                asked.settle(place, ours, resume is not None)
                begun = True
                return _fit_and_publish(run, resume is not None)
    except BaseException as error:
        # What is refused, or has not begun, leaves nothing.
        if resume is None and (not begun or isinstance(error, InputError)):
            forget(place)
        raise


def _earlier(
    family: Family, place: RunPlace, settings: RunSettings, since: str | None, resume: bool
) -> incremental.Since | None:
    if since is None:
        return None
    tell = watch.current.get().log
    if family.model(settings) is None:
        tell("since has no effect: these settings fit no model, all is read")
        return None
    found = earlier_of(family, place, settings, since, resume)
    if found.earlier is None:
        tell(f"since {since}: {place.target} has no earlier run, so all is read")
    return found


@contextmanager
def _told(place: RunPlace, how: Callable[[], str]) -> Iterator[None]:
    """Say of a run that was stopped what became of it, and how to go on."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise _interrupted(place, how()) from error
    except (ComputeError, StorageError) as error:
        if isinstance(error, storage.DamagedError) and error.url.startswith(place.work):
            forget_kept(place)
        raise RunError(f"{error}; latest.json is as it was; {how()}") from error


def _interrupted(place: RunPlace, how: str) -> Interrupted:
    with storage.impatient():
        published = is_latest(place)
    state = f"run {place.run_id} is published" if published else f"latest.json is as it was; {how}"
    return Interrupted(state)


def score_pipeline(
    fitted_run: str, stages: Stages, source: str, target: str, compute: ComputeSettings
) -> dict[str, Any]:
    """Apply the posterior of a finished run to new data and publish the result."""
    with reached(compute.s3):
        return _score_pipeline(fitted_run, stages, source, target, compute)


def _score_pipeline(
    fitted_run: str, stages: Stages, source: str, target: str, compute: ComputeSettings
) -> dict[str, Any]:
    fitted, record = open_run(fitted_run)
    family = pipeline_named(record.pipeline)
    settings = _settings_of(family, fitted, record)
    place = RunPlace(storage.absolute(target), new_run_id())
    watch.current.get().stage("check")
    files, checked = check_files(family, stages, source, settings, to_fit=False)
    stages.begin(place.run_id, storage.join(place.work, "kept"))
    try:
        storage.check_writable(place.target, *place.below, "work")
        with computing(compute) as found:
            run = Run(
                family, source, place, settings, stages, found, fitted, files=files, checked=checked
            )
            with claim(place.work, place.run_id) as run.held:
                return _score_and_publish(run, fitted)
    except BaseException as error:
        # Nothing can go on with it, so nothing of it stays.
        with storage.impatient():
            published = is_latest(place)
        if not published:
            forget(place)
        if isinstance(error, KeyboardInterrupt):
            raise _interrupted(place, "run it again") from error
        if isinstance(error, storage.DamagedError) and error.url.startswith(fitted.root):
            raise InputError([_damaged(fitted, error)]) from error
        raise


def _damaged(fitted: RunPlace, error: storage.DamagedError) -> Fault:
    """Say that the run that is to be applied is no longer what was fitted."""
    expected = "a finished run as it was published"
    remedy = "restore it from a copy, or fit again"
    return Fault(fitted.root, expected, str(error), remedy=remedy)


def _settings_of(family: Family, fitted: RunPlace, record: RunRecord) -> RunSettings:
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


def _score_and_publish(run: Run, fitted: RunPlace) -> dict[str, Any]:
    ingested, prepared = _partitions(run)
    model = run.family.model(run.settings)
    q: State = Nothing()
    if model is not None:
        url = storage.join(fitted.root, "posterior", "q.npz")
        q = read_state(url, State)
    job = _job(run, model, prepared)
    executor = run.compute.executor(job)
    try:
        summaries = run.stages.call("score", _score, run, executor, q, None)
    finally:
        executor.close()
    return run.stages.call("publish", publish, run, ingested, prepared, model, q, None, summaries)


def check_source(family: Family, source: str, settings: RunSettings) -> tuple[list[InputFile], int]:
    """Validate a source; return its files and rows.

    Raises
    ------
    InputError
        With every fault found.
    """
    files, checked = check_files(family, Plain(), source, settings)
    return files, sum(c.rows for c in checked)


def check_files(
    family: Family, stages: Stages, source: str, settings: RunSettings, to_fit: bool = True
) -> tuple[list[InputFile], list[Checked]]:
    """Read every input file once and raise all faults at once."""
    try:
        files = storage.expand(source, family.suffixes)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        raise InputError(
            [
                Fault(
                    file=storage.shown(source),
                    expected="input that can be read",
                    found=str(error),
                )
            ]
        ) from error
    checked = stages.map("check", partial(_check, family), files, settings)
    # Once each: what the settings name is looked at with every file.
    faults = list(dict.fromkeys(fault for one in checked for fault in one.faults))
    faults = faults or family.check_together(files, checked)
    if to_fit and isinstance(family, ChecksToFit):
        faults = faults or family.check_to_fit(files, checked)
    if faults:
        raise InputError(faults)
    return files, checked


def _check(family: Family, file: InputFile, settings: RunSettings) -> Checked:
    try:
        return family.check(file, settings)
    except storage.TransientStorageError:
        raise
    except StorageError as error:
        fault = Fault(file=file.url, expected="a file that can be read", found=str(error))
        return Checked(0, (fault,))


def _fit_and_publish(run: Run, resume: bool) -> dict[str, Any]:
    ingested, prepared = _partitions(run)
    model = run.family.model(run.settings)
    if resume:
        remove_results(run.place)
    job = _job(run, model, prepared)
    executor = run.compute.executor(job)
    try:
        fitted: FitResult | None = None
        q: State = Nothing()
        if model is not None:
            watch.current.get().stage("fit")
            fitted = run.stages.call(
                "fit", partial(run_fit, job, executor, on_step=_teller(run), resume=resume)
            )
            q = fitted.q
        number = None if fitted is None else fitted.number
        summaries = _scored(run, executor, q, number)
        incremental.keep(run, executor, q, number, prepared)
    finally:
        executor.close()
    return _published(run, ingested, prepared, model, q, fitted, summaries)


def _partitions(run: Run) -> tuple[list[Ingested], Prepared]:
    watch.current.get().stage("ingest")
    if run.since is None:
        parts = run.family.plan(run.files, run.checked, run.settings)
        ingested = run.map("ingest", run.family.ingest, parts, run.settings, run.place)
    else:
        parts = incremental.plan(run.family, run.files, run.checked, run.settings)
        ingested = incremental.ingest(run, parts)
    watch.current.get().stage("partition")
    prepared = run.stages.call(
        "partition",
        run.family.prepare,
        parts,
        run.settings,
        run.place,
        run.fitted,
        each_of(run.compute, run.heard("partition")),
    )
    return ingested, prepared


def _job(run: Run, model: Any, prepared: Prepared) -> Job:
    return Job(
        model=model,
        batch=prepared.batch,
        partitions=prepared.partitions,
        store=run.place.work,
        run_id=run.place.run_id,
        seed=run.settings.seed,
        tol=run.settings.tol,
        max_iter=run.settings.max_iter,
        checkpoint_every=run.settings.checkpoint_every,
        settings=tuple(
            (name, repr(value))
            for name, value in sorted(run.settings.model_dump(exclude=set(asked.FREE)).items())
        ),
        **incremental.left_by_earlier(run, model, prepared),
    )


def _scored(run: Run, executor: Any, q: State, number: int | None) -> list[Any]:
    watch.current.get().stage("score")
    return run.stages.call("score", _score, run, executor, q, number)


def _published(run: Run, *found: Any) -> dict[str, Any]:
    watch.current.get().stage("publish")
    return run.stages.call("publish", publish, run, *found)


def _score(run: Run, executor: Any, q: State, number: int | None) -> list[Any]:
    function = partial(run.family.score, settings=run.settings, place=run.place, fitted=run.fitted)
    return list(executor.map(function, q, number, run.heard("score")))


def _teller(run: Run) -> Callable[[Progress], None]:
    """Tell the terminal and the run's page how the fit goes."""
    seen: list[float] = []

    def tell(progress: Progress) -> None:
        seen.append(progress.elbo)
        left = _sweeps_left(seen, run.settings.tol)
        watch.current.get().sweep(progress.iteration, progress.elbo, progress.rise, left)
        done = progress.iteration + 1
        fraction = done / (done + left) if left is not None else done / progress.max_iter
        run.stages.progress(min(fraction, 1.0), f"sweep {done}, bound {progress.elbo:,.4f}")

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
