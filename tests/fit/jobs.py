"""Small real jobs for tests of the engine: a toy with warm local states, and pooled VBSS."""

from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from flows import storage
from flows.fit.job import Job
from tests.contract.toy import Groups, Looping
from vbmodels.core.state import to_bytes


def toy_job(
    folder: Path | str, partitions: int = 11, run_id: str = "run", loop: str = "cavi",
    **changes: Any,
) -> Job:  # fmt: skip
    """Store the toy's data below a folder and return the job."""
    rng = np.random.default_rng(3)
    urls = []
    for i in range(partitions):
        z = rng.normal(1.0, 1.0, 3 + i % 4)
        batch = Groups(z[:, None] + rng.standard_normal((len(z), 5)))
        urls.append(storage.join(str(folder), "partitions", f"part-{i:05d}.npz"))
        storage.write_bytes(urls[-1], to_bytes(batch))
    given: dict[str, Any] = {
        "model": Looping(),
        "batch": Groups,
        "partitions": tuple(urls),
        "store": storage.join(str(folder), "runs", run_id),
        "run_id": run_id,
        "tol": 1e-12,
        "max_iter": 60,
        "checkpoint_every": 3,
    }
    given = {**given, **changes}
    if isinstance(given["model"], Looping):
        given["model"] = replace(given["model"], loop=loop)
    return Job(**given)


@dataclass(frozen=True)
class Overshooting(Looping):
    """The toy with a coordinate map that spoils every extrapolation: squarem rejects them."""

    def from_vector(self, q: Any, vector: Any) -> Any:
        return replace(super().from_vector(q, vector), mean=float(vector[0]) + 3.0)


def rates(model: Any, q: Any, batch: Any, local: Any, index: int) -> tuple[int, Any]:
    """Return a partition's id and local means, for tests of `Executor.map`."""
    return index, None if local is None else local.z.mean


class Killed(Exception):
    """Stands for the driver's death between two steps."""


def kill_at(iteration: int) -> Any:
    """Return an ``on_step`` that ends the fit after a sweep."""

    def stop(progress: Any) -> None:
        if progress.iteration >= iteration:
            raise Killed(f"at {iteration}")

    return stop


def cluster_named(name: str) -> Any:
    """Return what an executor needs of a cluster where its workers are made up."""
    return SimpleNamespace(
        name=name, local=None, connect_again=lambda: None, submit=lambda *task: None
    )
