"""Checkpoints: all that a fit needs to go on with the same bits.

A checkpoint is a folder with the loop's cursor, the trace and every partition's local
state. Its manifest is written last, so a folder without one is not a checkpoint. The
manifest holds a digest of each file and a fingerprint of the model, the data and the
settings: a checkpoint of something else is refused, naming the difference.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from pydantic_core import from_json

from flows.data.json_files import MOST
from flows.data.states import state_of
from flows.data.storage import (
    DamagedError,
    StorageError,
    delete,
    join,
    names,
    read_bytes,
    write_bytes,
)
from flows.engine.block import Job, checkpoint_url, digest_of
from flows.engine.executor import Executor
from flows.faults import RunError
from vbmodels.core.protocol import Cursor
from vbmodels.core.state import FloatArray, IntArray, State, aligned, to_bytes

log = logging.getLogger(__name__)

FORMAT = "vbflows-checkpoint/1"
KEPT = 2
_MANIFEST = "manifest.json"
_CURSOR = "cursor.npz"
_TRACE = "trace.npz"


class CheckpointError(RunError):
    """A checkpoint belongs to another model, data set or settings; one sentence."""


class DamagedCheckpoint(Exception):
    """A checkpoint is incomplete or changed; the one before may do."""


@dataclass(frozen=True)
class Trace(State):
    """The bound at every accepted sweep."""

    iteration: IntArray  # [S] number of the sweep
    elbo: FloatArray  # [S]
    seconds: FloatArray  # [S] since the start of the fit, without interruptions


@dataclass(frozen=True)
class Saved:
    """A checkpoint that can be gone on from."""

    number: int
    cursor: Cursor
    trace: Trace
    files: dict[str, str]
    data: tuple[str, ...]

    @property
    def locals(self) -> dict[str, str]:
        """Return the digests of the partitions' local states."""
        return {name: d for name, d in self.files.items() if name not in (_CURSOR, _TRACE)}


class Checkpoints:
    """The checkpoints of one run.

    Parameters
    ----------
    job
        The job.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self._complete: list[int] = []

    def save(self, cursor: Cursor, trace: Trace, executor: Executor, data: tuple[str, ...]) -> None:
        """Write a checkpoint, then drop all but the last two."""
        folder = checkpoint_url(self.job.store, cursor.number)
        delete(join(folder, _MANIFEST))
        files = executor.checkpoint_locals(cursor.number)
        for name, state in ((_CURSOR, cursor), (_TRACE, trace)):
            content = to_bytes(state)
            write_bytes(join(folder, name), content)
            files[name] = digest_of(content)
        body = {
            "format": FORMAT,
            "number": cursor.number,
            "files": files,
            "identity": identity(self.job),
            "data": list(data),
            "versions": versions(),
        }
        write_bytes(join(folder, _MANIFEST), _signed(body))
        self._complete = [cursor.number, *(n for n in self._complete if n != cursor.number)]
        executor.checkpointed(self._complete[:KEPT])
        for old in self._complete[KEPT:]:
            delete(checkpoint_url(self.job.store, old))
        self._complete = self._complete[:KEPT]

    def candidates(self) -> list[int]:
        """Return the numbers of the folders that may be checkpoints, newest first."""
        found = names(join(self.job.store, "checkpoints"))
        return sorted((int(name) for name in found if name.isdecimal()), reverse=True)

    def load(self, number: int) -> Saved:
        """Read a checkpoint's cursor and trace.

        Raises
        ------
        CheckpointError
            If it belongs to another model or other settings.
        DamagedCheckpoint
            If it is incomplete or changed.
        """
        folder = checkpoint_url(self.job.store, number)
        try:
            manifest = _verified(read_bytes(join(folder, _MANIFEST), MOST))
        except (StorageError, ValueError) as error:
            raise DamagedCheckpoint(f"its manifest is missing or damaged ({error})") from error
        self._refuse_other(manifest)
        try:
            cursor = self._read(folder, _CURSOR, Cursor, manifest)
            trace = self._read(folder, _TRACE, Trace, manifest)
        except StorageError as error:
            raise DamagedCheckpoint(str(error)) from error
        if manifest["versions"] != versions():
            log.warning(
                f"the checkpoint was written with {_listed(manifest['versions'])} and is read with "
                f"{_listed(versions())}: the last bits may differ"
            )
        return Saved(number, cursor, trace, manifest["files"], tuple(manifest["data"]))

    def refuse_other_data(self, saved: Saved, data: Sequence[str]) -> None:
        """Raise `CheckpointError` if a checkpoint was made with other data."""
        if len(saved.data) != len(data):
            raise self._refused(
                f"the data are in {len(data)} partitions, the checkpoint's were in "
                f"{len(saved.data)}"
            )
        changed = [i for i, (a, b) in enumerate(zip(saved.data, data, strict=True)) if a != b]
        if changed:
            raise self._refused(
                f"{len(changed)} of {len(data)} partitions hold other data, the first is partition "
                f"{changed[0]} ({self.job.partitions[changed[0]]})"
            )

    def restore(self, saved: Saved, executor: Executor) -> None:
        """Have workers take a checkpoint's local states, and forget what came after it.

        Raises
        ------
        DamagedCheckpoint
            If a local state is missing or changed.
        """
        expected = saved.locals
        try:
            read = executor.restore(saved.number, carries=bool(expected))
        except StorageError as error:
            raise DamagedCheckpoint(str(error)) from error
        wrong = sorted(name for name in expected if read.get(name) != expected[name])
        if wrong:
            raise DamagedCheckpoint(f"{wrong[0]} does not match the manifest")
        candidates = self.candidates()
        for later in [n for n in candidates if n > saved.number]:
            delete(checkpoint_url(self.job.store, later))
        self._complete = [n for n in candidates if n <= saved.number]
        executor.checkpointed([saved.number])

    def discard(self) -> None:
        """Remove every checkpoint."""
        delete(join(self.job.store, "checkpoints"))
        self._complete = []

    def _read(self, folder: str, name: str, kind: type[Any], manifest: dict[str, Any]) -> Any:
        url = join(folder, name)
        content = read_bytes(url)
        if digest_of(content) != manifest["files"][name]:
            raise DamagedError(f"{url} does not match the manifest", url)
        return aligned(state_of(content, kind, url))

    def _refuse_other(self, manifest: dict[str, Any]) -> None:
        ours, theirs = identity(self.job), manifest["identity"]
        different = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
        if different:
            raise self._refused(
                " and ".join(
                    f"{name} is {ours.get(name, 'absent')}, the checkpoint has "
                    f"{theirs.get(name, 'none')}"
                    for name in different[:3]
                )
            )

    def _refused(self, difference: str) -> CheckpointError:
        return CheckpointError(
            f"run {self.job.run_id} cannot be resumed with this job: {difference}; use what it was "
            "started with, or start a new run"
        )


def identity(job: Job) -> dict[str, str]:
    """Describe all of a job, besides its data, that its results depend on.

    ``max_iter`` and ``checkpoint_every`` are not part of it: they change no step.
    """
    settings = {"seed": job.seed, "tol": job.tol, "batch": job.batch}
    described = dict(_described("model", job.model))
    for name, value in settings.items():
        described.update(_described(name, value))
    described.update((f"settings.{name}", value) for name, value in job.settings)
    return described


def _described(name: str, value: Any) -> list[tuple[str, str]]:
    """Flatten a value to (dotted name, text) pairs that differ where it does."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = [
            pair
            for field in dataclasses.fields(value)
            for pair in _described(f"{name}.{field.name}", getattr(value, field.name))
        ]
        return [(name, type(value).__qualname__), *inside]
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:12]
        return [(name, f"array {value.dtype}{list(value.shape)} {digest}")]
    if isinstance(value, dict):
        return [p for k, v in sorted(value.items()) for p in _described(f"{name}.{k}", v)]
    if isinstance(value, tuple | list):
        return [p for i, v in enumerate(value) for p in _described(f"{name}.{i}", v)]
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return [(name, repr(value))]
    if callable(value):
        return [(name, f"{value.__module__}.{value.__qualname__}")]
    inside = [p for k, v in sorted(vars(value).items()) for p in _described(f"{name}.{k}", v)]
    return [(name, type(value).__qualname__), *inside]


def versions() -> dict[str, str]:
    """Return the versions that the last bits of a result may depend on."""

    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def _listed(found: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in found.items())


def _signed(body: dict[str, Any]) -> bytes:
    text = json.dumps(body, sort_keys=True)
    return json.dumps({"body": text, "sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()


def _verified(content: bytes) -> dict[str, Any]:
    outer = from_json(content)
    text = outer.get("body", "") if isinstance(outer, dict) else ""
    if (
        not text
        or not isinstance(text, str)
        or hashlib.sha256(text.encode()).hexdigest() != outer.get("sha256")
    ):
        raise ValueError("its checksum does not match")
    body: dict[str, Any] = from_json(text)
    if body.get("format") != FORMAT:
        raise ValueError(f"format {body.get('format')!r}, this version reads {FORMAT!r}")
    return body
