"""Drive one fit: the algorithm, checkpoints, progress and resume."""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.events import Sweep
from flows.faults import RunError
from flows.fit import checkpoint
from flows.fit.checkpoint import KEPT, Trace
from flows.fit.executor import Executor
from flows.fit.holder import DamagedCheckpoint
from flows.fit.job import Job
from flows.records.lock import claim
from flows.records.states import read_state
from flows.storage import DamagedError, MissingError
from vbmodels.core.algorithm import Continuable, Phased, objective_of
from vbmodels.core.driver import Driver, Log, Step, remaining_rise
from vbmodels.core.fit import loop_of
from vbmodels.core.state import State

log = logging.getLogger(__name__)

PERIOD = 30.0  # seconds between two checkpoints, where a job does not count sweeps
PACED = 10  # sweeps after which their pace is known: the first ones compile and load


class FitError(RunError):
    """A fit ended without a posterior; one sentence for the user."""


@dataclass(frozen=True)
class FitResult:
    """What a fit leaves."""

    q: Any  # the global parameters
    trace: Trace
    iterations: int  # sweeps done
    seconds: float  # over all attempts
    converged: bool  # whether the bound converged before ``max_iter``
    number: int  # of the final sweep: its local states are what scoring takes


OnStep = Callable[[Sweep], None]


def run_fit(
    job: Job, executor: Executor, *, on_step: OnStep | None = None, resume: bool = False
) -> FitResult:
    """Fit a job's model, from the start or from its last checkpoint.

    The result depends on the job alone: not on the executor, the number of workers, or how often
    the fit was interrupted. ``on_step`` is called after every accepted sweep. Checkpoints stay: a
    run removes them when it is complete.

    Raises
    ------
    RunBusy
        If another process works on this run.
    CheckpointError
        If the checkpoint to resume from belongs to another model, data set or settings.
    """
    if executor.job is not job:
        raise ValueError("the executor was made for another job than the one to fit")
    with claim(job.store, job.run_id) as lock:
        for attempts_left in reversed(range(KEPT + 1)):
            try:
                fit = _Fit(job, executor, resume)
                for step in fit.driver:
                    lock.check()
                    progress = fit.record(step)
                    if on_step is not None:
                        on_step(progress)
                    fit.save_if_due(step.iteration)
                return fit.result()
            except DamagedCheckpoint as error:  # met by a roll back
                if not attempts_left:
                    raise
                log.warning(f"{error}; going on from the checkpoint before")
                resume = attempts_left > 1
    raise AssertionError


class _Fit:
    """One attempt of a fit, begun or resumed, and what accumulates."""

    def __init__(self, job: Job, executor: Executor, resume: bool) -> None:
        self.job, self.executor = job, executor
        self.trace: list[tuple[int, float, float]] = []  # iteration, bound, seconds
        self.data: list[str] = []  # digests
        self.objective = ""  # of the newest step of this attempt
        self.started = time.perf_counter()
        log = self._resumed() if resume else None
        if log is None:
            checkpoint.discard(job)
            executor.restore(None, ())
            q = self._start(executor.observe())
            self.data = executor.digests()
        self.driver = Driver(
            loop_of(job.model),
            job.model,
            q if log is None else log.start,
            executor,
            tol=job.tol,
            max_iter=job.max_iter,
            log=log,
            trace=[elbo for _, elbo, _ in self.trace],
        )
        self.saved, self.saved_at = max(self.driver.number, 0), time.perf_counter()

    def record(self, step: Step) -> Sweep:
        """Add a step to the trace; return how far the fit is."""
        seconds, model = time.perf_counter() - self.started, self.job.model
        objective, before = objective_of(model, step.q), self.objective
        again = self.trace and before in ("", objective)
        change = step.elbo - self.trace[-1][1] if again else None
        self.trace.append((step.iteration, step.elbo, seconds))
        self.objective = objective
        phase, left = model.progress(step.q) if isinstance(model, Phased) else ("", None)
        if left is None:
            left = sweeps_left([elbo for _, elbo, _ in self.trace], self.job.tol)
        done, to_come = step.iteration + 1, None
        if left is not None and done >= PACED:
            to_come = left * seconds / done
        return Sweep(
            step.iteration,
            step.elbo,
            change,
            left,
            self.job.max_iter,
            phase,
            to_come,
            objective,
        )

    def save_if_due(self, number: int) -> None:
        """Make a checkpoint after a sweep where one is due and the fit goes on."""
        if self.driver.converged or not (self._is_due(number) or self.executor.heavy):
            return
        local_digests = self.executor.keep(number)
        checkpoint.save(self.job, self.driver.log(), self._trace(), self.data, local_digests)
        self.saved, self.saved_at = number, time.perf_counter()

    def _is_due(self, number: int) -> bool:
        if self.job.checkpoint_every is None:
            return time.perf_counter() - self.saved_at >= PERIOD
        return number - self.saved >= self.job.checkpoint_every

    def _start(self, observed: Any) -> Any:
        """Return the first parameters: near an earlier fit's, if the job names one."""
        model, rng, before = self.job.model, np.random.default_rng(self.job.seed), None
        if self.job.start is not None and isinstance(model, Continuable):
            try:
                before = read_state(self.job.start, State)
            except (DamagedError, MissingError) as error:
                log.warning(f"the fit does not start at the earlier posterior: {error}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fresh = before is None
            q = model.init(observed, rng) if fresh else model.restart(observed, before, rng)
        for warning in caught:
            log.warning(str(warning.message))
        return q

    def _resumed(self) -> Log | None:
        """Go back to the last checkpoint that is whole; None if there is none."""
        for number in checkpoint.candidates(self.job):
            try:
                saved, warning = checkpoint.load(self.job, number)
                self.data = self.data or self.executor.digests()
                checkpoint.refuse_other_data(self.job, saved, self.data)
                self.executor.restore(number, saved.local.tolist())
            except DamagedCheckpoint as error:
                log.warning(f"checkpoint {number} cannot be used: {error}; trying the one before")
                continue
            if warning is not None:
                log.warning(warning)
            checkpoint.discard(self.job, after=number)
            columns = (column.tolist() for column in vars(saved.trace).values())
            self.trace = list(zip(*columns, strict=True))
            self.started = time.perf_counter() - self.trace[-1][2]
            log.info(f"resuming run {self.job.run_id} after sweep {number}")
            return saved.log
        log.warning(f"run {self.job.run_id} has no usable checkpoint: starting from the beginning")
        return None

    def _trace(self) -> Trace:
        iteration, elbo, seconds = zip(*self.trace, strict=True)
        return Trace(np.array(iteration, np.int64), np.array(elbo), np.array(seconds))

    def result(self) -> FitResult:
        """Return the outcome, with a warning if the bound had not converged."""
        fit = self.driver
        if fit.doing and not fit.converged:
            raise FitError(
                f"the fit stopped after {fit.number + 1} sweeps while {fit.doing}: no "
                "posterior, nothing published; raise max_iter"
            )
        if fit.step is None:
            raise RuntimeError("a fit made no step")
        number = fit.step.iteration
        if not fit.converged:
            log.warning(
                f"the {self.objective or 'bound'} had not converged after {number + 1} sweeps; "
                "raise max_iter or tol"
            )
        trace = self._trace()
        return FitResult(
            fit.step.q, trace, number + 1, float(trace.seconds[-1]), fit.converged, number
        )


def sweeps_left(trace: Sequence[float], tol: float) -> float | None:
    """Estimate how many sweeps a geometric rise needs to come below the tolerance."""
    if len(trace) < 3:
        return None
    now, before = trace[-1] - trace[-2], trace[-2] - trace[-3]
    rate = now / before if before > 0 else 0.0
    goal = tol * max(1.0, abs(trace[-1]))
    left = remaining_rise(trace)
    if not (0.0 < rate < 1.0 and 0.0 < goal < left):
        return None
    return math.log(goal / left) / math.log(rate)
