"""Where an estimator fits: in this process, or where its client says.

This package imports no cluster. A client is an object with a method ``reduce_over`` (see
`Executor`), or anything for which an installed package has registered an executor: an entry
point of the group `GROUP` whose name is the first part of the module of the client's class, or
of one that it derives from. vbflows registers ``distributed``, for Dask's client.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import entry_points
from typing import Any, Protocol, runtime_checkable

from vbmodels.core.algorithm import Observing
from vbmodels.core.fit import InProcess

GROUP = "vbmodels.executors"
ADDRESSES = "distributed"
"""Whose executor takes a client that is text: the address of a scheduler."""


@runtime_checkable
class Executor(Protocol):
    """What works on the partitions of a fit."""

    def reduce_over(self, model: Any, batches: Sequence[Any]) -> AbstractContextManager[Observing]:
        """Return a reduce over these partitions; what it holds is released at the end."""


def reduce_over(
    client: Any, model: Any, batches: Sequence[Any]
) -> AbstractContextManager[Observing]:
    """Return the reduce of a client; None is this process.

    Raises
    ------
    TypeError
        If nothing installed knows such a client.
    """
    if client is None:
        return nullcontext(InProcess(model, batches))
    return executor_of(client).reduce_over(model, batches)


def executor_of(client: Any) -> Executor:
    """Return the executor of a client.

    Examples
    --------
    >>> executor_of(3.5)
    Traceback (most recent call last):
    TypeError: expected a client with reduce_over(model, batches), or one that an installed package has registered in the entry points vbmodels.executors, got float
    """  # noqa: E501
    if isinstance(client, Executor):
        return client
    names = [kind.__module__.partition(".")[0] for kind in type(client).__mro__]
    for name in [ADDRESSES] if isinstance(client, str) else names:
        for found in entry_points(group=GROUP, name=name):
            executor: Executor = found.load()(client)
            return executor
    raise TypeError(
        "expected a client with reduce_over(model, batches), or one that an installed "
        f"package has registered in the entry points {GROUP}, got {type(client).__name__}"
    )
