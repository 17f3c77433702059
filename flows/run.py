"""The body of every pipeline: check, ingest, prepare, fit, score, publish.

`flows.pipelines` has it as Prefect flows; the command line calls it plainly where no Prefect server
is configured. A script that composes the stages otherwise begins a run by `begin`.
"""

from __future__ import annotations

from typing import Any

from flows import stages, storage
from flows.runs.begin import DamagedWork, begin, begin_score
from flows.settings import ComputeSettings, RunSettings

__all__ = ["begin", "begin_score", "run", "score"]


def run(
    pipeline: str,
    source: storage.Sources,
    target: str,
    settings: RunSettings,
    compute: ComputeSettings,
    since: str | None = None,
    resume: str | None = None,
) -> dict[str, Any]:
    """Fit a pipeline's model to a source and publish what it finds; return what to print.

    Parameters
    ----------
    pipeline
        Its name: keywords, bags, variants, features, experts, or that of an installed package.
    source, target
        Paths, folders, globs or URLs of the input; folder or URL that gets the run.
    settings, compute
        What is fitted; where.
    since
        ``latest``, or the id of a finished run below the target: only what has changed since is
        read, and the fit starts from its posterior.
    resume
        An unfinished run below the target to go on with: its id, ``latest``, or ``auto`` for one
        of this very request, if there is one.

    Raises
    ------
    InputError
        If the input or the settings are wrong: every fault, before any compute.
    RunError
        If storage, the cluster or the fit fails; the sentence says how to go on.
    """
    for attempts_left in (1, 0):
        try:
            with begin(pipeline, source, target, settings, compute, since, resume) as begun:
                stages.check(begun)
                stages.ingest(begun)
                stages.prepare(begun)
                stages.fit(begun)
                stages.score(begun)
                outcome: dict[str, Any] = stages.publish(begun)
                return outcome
        except DamagedWork as damaged:  # the attempt that goes on makes the file again
            if not attempts_left:
                raise
            resume = damaged.run_id
    raise AssertionError


def score(
    fitted: str, source: storage.Sources, target: str, compute: ComputeSettings
) -> dict[str, Any]:
    """Apply the posterior of a finished run to new data and publish the result."""
    with begin_score(fitted, source, target, compute) as begun:
        stages.check(begun)
        stages.ingest(begun)
        stages.prepare(begun)
        stages.load(begun)
        stages.score(begun)
        outcome: dict[str, Any] = stages.publish(begun)
        return outcome
