"""Stages as Prefect tasks: tried again where storage or the cluster did not answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.states import State

from flows.data import storage
from flows.fit.job import ClusterLost

OPTIONS: dict[str, Any] = {"retries": 2, "retry_delay_seconds": [10.0, 60.0]}
"""What a stage's task has, unless `flows.stages.Stage.with_options` says otherwise.

No tags: Prefect would ask the server for a slot of each, and a server that has gone would end the
run.
"""


def task_of(function: Callable[..., Any], name: str, options: dict[str, Any]) -> Any:
    """Return a function as a task of that name."""
    made: Any = task
    fixed = {"task_run_name": name, "persist_result": False, "cache_policy": NO_CACHE}
    given = {"name": name, "retry_condition_fn": _transient, **fixed, **OPTIONS, **options}
    return made(function, **given)


def is_transient(error: object) -> bool:
    """Whether the same stage may succeed a little later."""
    kinds = storage.TransientStorageError | ConnectionError | TimeoutError | ClusterLost
    return isinstance(error, kinds)


def _transient(task: Any, task_run: Any, state: State[Any]) -> bool:
    return is_transient(state.data)
