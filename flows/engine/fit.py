"""Drive one fit: the loop, convergence, checkpoints, progress and resume."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.data.lock import claim
from flows.data.states import read_state
from flows.data.storage import StorageError
from flows.engine.block import Job
from flows.engine.checkpoint import Checkpoints, DamagedCheckpoint, Saved, Trace
from flows.engine.executor import Executor, InProcess
from flows.faults import RunError
from vbmodels.core.cavi import begin
from vbmodels.core.convergence import UntilConverged
from vbmodels.core.fit import loop_of
from vbmodels.core.protocol import Continuable, Cursor, Loop, Staged, Step
from vbmodels.core.state import State

__all__ = ["FitResult", "InProcess", "Job", "Progress", "run_fit"]

log = logging.getLogger(__name__)


class FitError(RunError):
    """A fit ended without a posterior; one sentence for the user."""


@dataclass(frozen=True)
class Progress:
    """Where a fit is after one accepted sweep."""

    iteration: int
    max_iter: int
    elbo: float
    rise: float | None  # over the bound before; None at the first
    seconds: float  # since the start of the fit, without interruptions


@dataclass(frozen=True)
class FitResult:
    """What a fit leaves.

    Attributes
    ----------
    q
        The global parameters.
    trace
        The bound at every accepted sweep.
    iterations
        Sweeps done.
    seconds
        Seconds of the fit, over all of its attempts.
    converged
        Whether the bound converged before ``max_iter``.
    number
        Number of the final sweep: its local states are what scoring takes.
    cursor
        Where the loop ended.
    """

    q: Any
    trace: Trace
    iterations: int
    seconds: float
    converged: bool
    number: int
    cursor: Cursor


def run_fit(
    job: Job,
    executor: Executor,
    *,
    on_step: Callable[[Progress], None] | None = None,
    resume: bool = False,
) -> FitResult:
    """Fit a job's model, from the start or from its last checkpoint.

    The result depends on the job alone: not on the executor, the number of workers, or
    how often the fit was interrupted. Checkpoints stay; `flows.engine.checkpoint.Checkpoints`
    removes them when the run is complete.

    Parameters
    ----------
    job
        The job.
    executor
        Where it runs.
    on_step
        Called after every accepted sweep.
    resume
        Whether to go on from the last checkpoint.

    Raises
    ------
    RunBusy
        If another process works on this run.
    CheckpointError
        If the checkpoint to resume from belongs to another model, data set or settings.
    """
    if executor.job is not job:
        raise ValueError("the executor was made for another job than the one to fit")
    with claim(job.store, job.run_id) as held:
        checkpoints = Checkpoints(job)
        fit, loop = _Fit(job, executor, checkpoints), loop_of(job.model)
        cursor = fit.resumed() if resume else None
        if cursor is None:
            checkpoints.discard()
            cursor = fit.first(loop)
        steps = UntilConverged(loop(job.model, executor, cursor), job.tol, job.max_iter, fit.elbo)
        for step in steps:
            fit.accept(step)
            held.check()
            if on_step is not None:
                on_step(fit.progress())
            if step.iteration - fit.saved >= job.checkpoint_every and not steps.converged:
                fit.save(step.cursor)
        return fit.result(steps)


class _Fit:
    """What accumulates during a fit."""

    def __init__(self, job: Job, executor: Executor, checkpoints: Checkpoints) -> None:
        self.job = job
        self.executor = executor
        self.checkpoints = checkpoints
        self.iteration: list[int] = []
        self.elbo: list[float] = []
        self.seconds: list[float] = []
        self.data: tuple[str, ...] = ()
        self.saved = 0
        self._before = 0.0
        self._started = time.perf_counter()

    def first(self, loop: Loop) -> Cursor:
        """Make the first parameters and evaluate them."""
        observed = self.executor.observe()
        self.data = observed.digests
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            q = self._near_earlier(observed.stats, np.random.default_rng(self.job.seed))
        for warning in caught:
            log.warning(str(warning.message))
        return begin(loop, self.job.model, q, self.executor)

    def _near_earlier(self, observed: Any, rng: np.random.Generator) -> Any:
        """Return the first parameters: near an earlier fit's, if the job names one."""
        model, url = self.job.model, self.job.start
        if url is None or not isinstance(model, Continuable):
            return model.init(observed, rng)
        try:
            before = read_state(url, State)
        except StorageError as error:
            log.warning(f"the fit starts anew, not from the earlier posterior: {error}")
            return model.init(observed, rng)
        return model.restart(observed, before, rng)

    def resumed(self) -> Cursor | None:
        """Go back to the last checkpoint that is whole; None if there is none."""
        for number in self.checkpoints.candidates():
            try:
                saved = self.checkpoints.load(number)
                if not self.data:
                    self.data = self.executor.observe().digests
                self.checkpoints.refuse_other_data(saved, self.data)
                self.checkpoints.restore(saved, self.executor)
            except DamagedCheckpoint as error:
                log.warning(f"checkpoint {number} cannot be used: {error}; trying the one before")
                continue
            return self._continue_from(saved)
        log.warning(f"run {self.job.run_id} has no usable checkpoint: starting from the beginning")
        return None

    def _continue_from(self, saved: Saved) -> Cursor:
        trace = saved.trace
        self.iteration = trace.iteration.tolist()
        self.elbo = trace.elbo.tolist()
        self.seconds = trace.seconds.tolist()
        self.saved = saved.number
        self._before = self.seconds[-1]
        self._started = time.perf_counter()
        log.info(f"resuming run {self.job.run_id} after sweep {saved.number}")
        return saved.cursor

    def accept(self, step: Step) -> None:
        """Note an accepted sweep."""
        self.iteration.append(step.iteration)
        self.elbo.append(step.elbo)
        self.seconds.append(self._before + time.perf_counter() - self._started)

    def save(self, cursor: Cursor) -> None:
        """Write a checkpoint."""
        self.checkpoints.save(cursor, self.trace(), self.executor, self.data)
        self.saved = cursor.number

    def trace(self) -> Trace:
        """Return the trace so far."""
        return Trace(
            np.array(self.iteration, dtype=np.int64),
            np.array(self.elbo, dtype=np.float64),
            np.array(self.seconds, dtype=np.float64),
        )

    def progress(self) -> Progress:
        """Return where the fit is."""
        rise = self.elbo[-1] - self.elbo[-2] if len(self.elbo) > 1 else None
        return Progress(
            self.iteration[-1], self.job.max_iter, self.elbo[-1], rise, self.seconds[-1]
        )

    def result(self, steps: UntilConverged) -> FitResult:
        """Return the outcome, with a warning if the bound had not converged."""
        if steps.last is None:
            raise RuntimeError("a fit made no step")
        q, number = steps.last.q, steps.last.iteration
        if not steps.converged:
            model = self.job.model
            doing = model.unfinished(q) if isinstance(model, Staged) else None
            if doing:
                raise FitError(
                    f"the fit stopped after {number + 1} sweeps while {doing}, so "
                    "there is no posterior; raise max_iter"
                )
            log.warning(
                f"the bound had not converged after {number + 1} sweeps; raise max_iter or tol"
            )
        return FitResult(
            q=q,
            trace=self.trace(),
            iterations=number + 1,
            seconds=self.seconds[-1],
            converged=steps.converged,
            number=number,
            cursor=steps.last.cursor,
        )
