"""Checkpoints: all that a fit needs to go on with the same bits.

A checkpoint is a folder: a file for each partition's local state, written by the workers, and one
that is written last with the algorithm's log, the trace, the digests of all local states and of the
data, and what the job was. A folder without that file is no checkpoint; a checkpoint of another job
is refused, naming the difference.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.faults import RunError
from flows.fit.holder import DamagedCheckpoint
from flows.fit.job import Job, checkpoint_url
from flows.fit.versions import environment
from flows.records.states import read_state
from flows.storage import StorageError, delete, join, names, write_bytes
from vbmodels.core.driver import Log
from vbmodels.core.state import FloatArray, IntArray, State, aligned, to_bytes

KEPT = 2
_FILE = "fit.npz"


class CheckpointError(RunError):
    """A checkpoint belongs to another model, data set or settings; one sentence."""


@dataclass(frozen=True)
class Trace(State, kind="flows/fit.Trace"):
    """The bound at every accepted sweep."""

    iteration: IntArray  # [S] number of the sweep
    elbo: FloatArray  # [S]
    seconds: FloatArray  # [S] since the start of the fit, without interruptions


@dataclass(frozen=True)
class Checkpoint(State, kind="flows/fit.Checkpoint"):
    """Where a fit can go on from."""

    log: Log
    trace: Trace
    about: str  # JSON of what the job was, and of the versions that it ran with
    data: NDArray[np.str_]  # digest of each partition's data
    local: NDArray[np.str_]  # and of its local state, empty for none; no digests for no states


def save(job: Job, log: Log, trace: Trace, data: Sequence[str], local: Sequence[str]) -> None:
    """Complete a checkpoint whose local states are written; drop all but the last two."""
    about = json.dumps({"identity": identity(job), "versions": versions()})
    digests = np.array(data, dtype="U32"), np.array(local, dtype="U32")
    content = to_bytes(Checkpoint(log, trace, about, *digests))
    write_bytes(join(checkpoint_url(job.store, log.number), _FILE), content)
    for old in [n for n in candidates(job) if n != log.number][KEPT - 1 :]:
        delete(checkpoint_url(job.store, old))


def candidates(job: Job) -> list[int]:
    """Return the numbers of the folders that may be checkpoints, newest first."""
    entries = names(join(job.store, "checkpoints"))
    return sorted((int(name) for name in entries if name.isdecimal()), reverse=True)


def discard(job: Job, after: int | None = None) -> None:
    """Remove every checkpoint, or those after a sweep."""
    if after is None:
        delete(join(job.store, "checkpoints"))
        return
    for number in candidates(job):
        if number > after:
            delete(checkpoint_url(job.store, number))


def load(job: Job, number: int) -> tuple[Checkpoint, str | None]:
    """Read a checkpoint; return it, with a warning where other versions wrote it.

    Raises `CheckpointError` if it is of another job, `DamagedCheckpoint` if it is not whole.
    """
    try:
        saved = aligned(read_state(join(checkpoint_url(job.store, number), _FILE), Checkpoint))
        about = json.loads(saved.about)
        theirs, written = dict(about["identity"]), dict(about["versions"])
    except (StorageError, ValueError, KeyError, TypeError) as error:
        raise DamagedCheckpoint(str(error)) from error
    ours, mine = identity(job), versions()
    if different := [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]:
        listed = (
            f"{name} is {ours.get(name, 'absent')}, the checkpoint has {theirs.get(name, 'none')}"
            for name in different[:3]
        )
        raise _refused(job, " and ".join(listed))
    if written == mine:
        return saved, None
    names = [name for name in {**written, **mine} if written.get(name) != mine.get(name)]
    there, here = (
        ", ".join(f"{name} {each.get(name, 'not there')}" for name in names)
        for each in (written, mine)
    )
    return saved, (
        f"the checkpoint was written with {there}, here is {here}: the last bits may differ"
    )


def refuse_other_data(job: Job, saved: Checkpoint, data: Sequence[str]) -> None:
    """Raise `CheckpointError` if a checkpoint was made with other data."""
    before, now = len(saved.data), len(data)
    if before != now:
        raise _refused(job, f"the data are in {now} partitions, the checkpoint's in {before}")
    if changed := [i for i in range(now) if saved.data[i] != data[i]]:
        raise _refused(
            job,
            f"{len(changed)} of {now} partitions hold other data, the first is partition "
            f"{changed[0]} ({job.partitions[changed[0]]})",
        )


def _refused(job: Job, difference: str) -> CheckpointError:
    return CheckpointError(
        f"run {job.run_id} cannot be resumed with this job: {difference}; resume it as it "
        "began, or start a new run"
    )


def identity(job: Job) -> dict[str, str]:
    """Describe all of a job, except its data, that its results depend on.

    ``max_iter`` and ``checkpoint_every`` are not part of it: they change no step.
    """
    described = [
        pair
        for name in ("model", "seed", "tol", "batch")
        for pair in _described(name, getattr(job, name))
    ]
    return dict(described + [(f"settings.{name}", value) for name, value in job.settings])


def _described(name: str, value: Any) -> list[tuple[str, str]]:
    """Flatten a value to (dotted name, text) pairs that differ where it does."""
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:12]
        return [(name, f"array {value.dtype}{list(value.shape)} {digest}")]
    if isinstance(value, tuple | list):
        value = {str(i): inside for i, inside in enumerate(value)}
    if isinstance(value, dict):
        return [p for k, v in sorted(value.items()) for p in _described(f"{name}.{k}", v)]
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return [(name, repr(value))]
    state = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if callable(value) and not state:
        return [(name, f"{value.__module__}.{value.__qualname__}")]
    fields = [field.name for field in dataclasses.fields(value)] if state else vars(value)
    inside = {field: getattr(value, field) for field in fields}
    return [(name, type(value).__qualname__), *_described(name, inside)]


def versions() -> dict[str, str]:
    """Return the versions that the last bits of a result may depend on."""
    return {n: version for n, version in environment().items() if n not in ("vbflows", "cpu")}
