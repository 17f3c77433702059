"""The stages of a run: functions of a `flows.runs.context.Run`, in the order of `flows.run.run`.

Inside a Prefect flow run a stage is a task: it has a name, a state and a log on the page, and it is
tried again where storage or the cluster did not answer. Elsewhere it is the plain function. Work
over partitions goes to wherever the run computes: this process, its threads, or Dask.

A Prefect user composes them, and changes what a task has::

    fit = stages.fit.with_options(retries=5, retry_delay_seconds=60)
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property, partial, update_wrapper
from typing import Any

from flows import storage
from flows.events import Accepted, Started, TakenOver
from flows.events import Stage as StageBegins
from flows.family import reading_of
from flows.fit.driver import run_fit
from flows.fit.job import Job
from flows.prefect import flow_run_id
from flows.records.lock import claim
from flows.records.runs import RUN
from flows.records.states import read_state
from flows.runs import checking, incremental, resume
from flows.runs.context import Run, computing, sweeps
from flows.runs.publish import outcome_of_complete
from flows.runs.publish import publish as publish_run
from vbmodels.core.algorithm import Repeating
from vbmodels.core.state import State


class Stage:
    """A stage; see the module.

    Parameters
    ----------
    function
        What it does.
    **options
        Those of a Prefect task, such as ``retries``, ``tags``, ``timeout_seconds``.
    """

    def __init__(self, function: Callable[[Run], Any], **options: Any) -> None:
        self.function, self.options = function, options
        update_wrapper(self, function)

    def __call__(self, run: Run) -> Any:
        """Do the stage: as a task inside a Prefect flow run, plainly elsewhere."""
        name = self.function.__name__
        if run.complete and name not in ("check", "publish"):
            return None  # the attempt that it goes on with had done all this
        run.events.emit(StageBegins(name))
        return self._task(run) if flow_run_id() else self.function(run)

    @cached_property
    def _task(self) -> Any:
        from flows.prefect.flow import task_of

        return task_of(self.function, self.options)

    def with_options(self, **changes: Any) -> Stage:
        """Return the stage with other options of its task."""
        return Stage(self.function, **{**self.options, **changes})


@Stage
def check(run: Run) -> None:
    """Look at the input: list every fault, find the runs to go on from, cut the partitions."""
    if resume.is_named(run.resume):
        resume.find_named(run)
        if run.complete:
            return
    checking.refuse_target_of_another(run)
    checking.complete_settings(run)
    checking.look_at_files(run)
    if not resume.is_named(run.resume):
        resume.find(run)
        if run.complete:
            return
    run.earlier = incremental.find(run)
    run.parts = incremental.cut(run)
    if latest := incremental.unchanged(run):
        run.paths, run.complete = latest, True
        return
    run.begun = True
    storage.check_writable(run.paths.target, *run.paths.below)
    run.events.emit(Started(run.paths.run_id))


@Stage
def ingest(run: Run) -> None:
    """Read, clean and store every partition, wherever the run computes."""
    if run.lock is None:
        _start(run)
    run.ingested = incremental.ingest(run)
    checking.accept(run)
    run.events.emit(Accepted(run.inputs))


@Stage
def prepare(run: Run) -> None:
    """Turn ingested partitions into arrays, and make the model for them."""
    try:
        with storage.sharing(run.files), reading_of(run.family, run.settings):
            run.prepared = run.family.prepare(
                run.parts, run.settings, run.paths, run.fitted, partial(run.each, "prepare")
            )
            run.file_warnings = checking.file_warnings(run)
    finally:
        storage.small_files.release()
    checking.refuse_unused(run)
    if run.is_resume:
        resume.remove_results(run.paths)
    run.model = run.family.model_for_data(run.family.model(run.settings), run.prepared)


@Stage
def fit(run: Run) -> None:
    """Fit the model, from its last checkpoint if there is one."""
    again, run.tried = run.is_resume or run.tried, True
    job = _job(run)
    run.work_by(run.compute.executor(job))
    run.fit = run_fit(job, run.executor, on_step=sweeps(run), resume=again)
    run.q = run.fit.q


@Stage
def load(run: Run) -> None:
    """Read the posterior of the run that is applied to new data."""
    run.work_by(run.compute.executor(_job(run)))
    assert run.fitted is not None
    run.q = read_state(storage.join(run.fitted.root, "posterior", "q.npz"), State)


@Stage
def score(run: Run) -> None:
    """Write every partition's results at the fitted parameters."""
    function = partial(run.family.score, settings=run.settings, paths=run.paths, fitted=run.fitted)
    number = None if run.fit is None else run.fit.number
    on_progress = run.on_progress("score")
    run.summaries = list(run.executor.map(function, run.q, number, on_progress))
    incremental.keep(run)
    run.executor.close()  # last, for it forgets local states: what publishes reads files


@Stage
def publish(run: Run) -> dict[str, Any]:
    """Write the record and the report, make the run the latest; return what to print."""
    return outcome_of_complete(run) if run.complete else publish_run(run)


def _start(run: Run) -> None:
    """Bring up what computes, and be the run's one driver until its end."""
    run.threads = choose_threads(run)
    if slower := advice(run):
        run.events.say(slower)
    with ExitStack() as opened:  # all of it or nothing, so that a second attempt can begin again
        gc.freeze()  # what is there now is not looked through again for each partition
        opened.callback(gc.unfreeze)
        if "numba" in sys.modules:
            from vbmodels.core.cached_kernels import compiling

            opened.enter_context(compiling(time.process_time, run.events.say))
        compute = opened.enter_context(computing(run.options, run.threads))
        if not run.is_resume:
            storage.own(run.paths.root, RUN)
        claimed = opened.enter_context(
            claim(run.paths.work, run.paths.run_id, flow_run=flow_run_id(), alone=True)
        )
        if claimed.dead is not None:
            run.events.emit(TakenOver(claimed.dead.flow_run))
        if run.fitted is None:
            resume.check_same_request(run)
        run.open.push(opened.pop_all())
    run.compute, run.lock, run.can_resume = compute, claimed, run.fitted is None


def _job(run: Run) -> Job:
    settings, model = run.settings, run.model
    repeats = isinstance(model, Repeating)  # a fit of several
    matter = settings.model_dump(exclude=set(resume.NON_SEMANTIC))
    return Job(
        model=model,
        batch=run.prepared.batch,
        partitions=run.prepared.partitions,
        store=run.paths.work,
        run_id=run.paths.run_id,
        seed=settings.seed,
        tol=settings.tol,
        max_iter=model.most_sweeps(settings.max_iter) if repeats else settings.max_iter,
        checkpoint_every=settings.checkpoint_every,
        settings=tuple((name, repr(value)) for name, value in sorted(matter.items())),
        start=incremental.start_of(run, model),
    )


START = 5.0
"""CPU seconds until what local workers need is imported, once for all, on a machine of 2026."""

MANY = 5000
"""Rows from which on a run takes threads: chosen so that small runs keep one, not measured."""


def choose_threads(run: Run) -> int:
    """Return the number of threads: one a core and partition where kernels release Python's lock.

    Partitions that are reused from an earlier run are not counted.
    """
    elsewhere = run.options.workers is not None or run.options.scheduler is not None
    if elsewhere or not run.family.threads(run.settings):
        return 1
    known = {} if run.earlier is None else run.earlier.known
    parts = [part for part in run.parts if part.fingerprint not in known]
    return at_most(len(parts)) if sum(part.rows for part in parts) >= MANY else 1


def advice(run: Run) -> str | None:
    """Say of little work on workers that one process would be faster; None of more."""
    rows, workers = sum(part.rows for part in run.parts), run.options.workers
    if workers is None or rows >= MANY:
        return None
    return (
        f"{rows:,} rows: one process (without --workers) is faster; starting workers takes "
        f"some {START:.0f} CPU seconds"
    )


def at_most(parts: int) -> int:
    """Return how many partitions the cores of this process can do at once."""
    return max(1, min(len(os.sched_getaffinity(0)), parts))
