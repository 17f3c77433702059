"""What a model supplies, and what its loop passes on: protocols, cursors, steps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from vbmodels.core.state import FloatArray, State, leaves


class Model(Protocol):
    """Priors and options of one model; it holds neither data nor parameters.

    Every method is a pure function of its arguments. ``batch`` is one partition's data,
    ``q`` the global parameters, ``local`` the partition's own parameters (None at first).
    """

    def observe(self, batch: Any) -> Any:
        """Return the additive statistics that are needed once, before the first sweep."""

    def init(self, observed: Any, rng: np.random.Generator) -> Any:
        """Return the first global parameters."""

    def local_step(self, q: Any, batch: Any, local: Any) -> Any:
        """Return the partition's local parameters at ``q``, warm-started from ``local``."""

    def suff_stats(self, q: Any, batch: Any, local: Any) -> Any:
        """Return the additive statistics, with the local part of the bound."""

    def global_step(self, q: Any, stats: Any) -> Any:
        """Return the global parameters that maximise the bound given ``stats``."""

    def elbo(self, q: Any, stats: Any) -> float:
        """Return the bound at ``q`` and the local parameters behind ``stats``."""


@runtime_checkable
class Accelerable(Protocol):
    """A model whose global parameters can be read as a vector without constraints."""

    def to_vector(self, q: Any) -> FloatArray:
        """Return the unconstrained coordinates of ``q``."""

    def from_vector(self, q: Any, vector: FloatArray) -> Any:
        """Return ``q`` moved to these coordinates."""


@runtime_checkable
class Staged(Protocol):
    """A model whose parameters are a posterior only from some stage of the fit on."""

    def unfinished(self, q: Any) -> str | None:
        """Say what is still being done at ``q``; None where it is a posterior."""


@runtime_checkable
class Drawing(Protocol):
    """A model whose parameters hold the draws that it keeps, which no partition needs."""

    def without_draws(self, q: Any) -> Any:
        """Return ``q`` as it is sent to the partitions."""


@runtime_checkable
class Continuable(Model, Protocol):
    """A model that can start near the posterior of an earlier fit, to other data."""

    def restart(self, observed: Any, before: Any, rng: np.random.Generator) -> Any:
        """Return first global parameters as `Model.init` does, near those of ``before``.

        What depends on the data alone (scales, counts) comes from ``observed``. Parameters
        of another shape cannot be started from: then this is `Model.init`.
        """


@runtime_checkable
class Remembering(Protocol):
    """A model that keeps something of every partition between sweeps, to save time.

    It changes no bit; it is for what a fit will take to be told before.
    """

    def remembered(self, q: Any, batch: Any) -> int:
        """Return about how many bytes that is of a partition in a fit that starts at ``q``."""


@runtime_checkable
class Uneven(Protocol):
    """A model whose first sweeps say little of what the others take."""

    def heavy(self, q: Any) -> tuple[Any, float] | None:
        """Return parameters at which a sweep takes longest, and the share of such sweeps.

        The sweep needs no local states. None where all are as at ``q``, at which a fit starts.
        """


@runtime_checkable
class Rebuilding(Protocol):
    """A model whose local states follow from the data and from what a fit never moves.

    `Model.local_step` with None gives their bits at any of the fit's points, so they are made
    again where they are lost, and no checkpoint holds them.

    Attributes
    ----------
    rebuilds_locals
        True.
    """

    rebuilds_locals: bool


@runtime_checkable
class Memoisable(Protocol):
    """A model whose global parameters may move after every round of partitions; see `memoised`.

    Its `Model.global_step` maximises the bound given any sums of statistics, whatever global
    parameters they were made at, and these have a field ``bound`` (unless `coupling` is always 0).
    """

    def coupling(self, q: Any, stats: Any) -> float:
        """Return the part of the bound of ``stats`` that moves with ``q``, local states held.

        It is linear in the statistics: E_q[log p(data, local | global)] of a conjugate model,
        as far as it depends on the factors of ``q``. At the parameters that ``stats`` was made
        at, it is in ``stats.bound``.
        """


@runtime_checkable
class Repeating(Protocol):
    """A model whose fit is several fits, each of which may take so many sweeps as one may."""

    def most_sweeps(self, of_one: int) -> int:
        """Return the most sweeps of all together."""


@runtime_checkable
class Looped(Protocol):
    """A model that names the loop that suits it.

    Attributes
    ----------
    loop
        ``cavi``, ``squarem`` or ``memoised``; None for squarem where the model is `Accelerable`,
        else cavi.
    """

    loop: str | None


class Reduce(Protocol):
    """The executor: local steps on every partition, then the sum of their statistics."""

    def __call__(self, q: Any, *, number: int, warm: int | None) -> Any:
        """Return the summed statistics at ``q``.

        Parameters
        ----------
        q
            The global parameters.
        number
            Number of this sweep, counted from 0. The local states that it leaves
            are known by this number.
        warm
            Number of the sweep whose local states are the start; None for a cold
            start. It is one of the last two sweeps.
        """


class Visiting(Reduce, Protocol):
    """A `Reduce` that can work on some of the partitions alone.

    Attributes
    ----------
    partitions
        How many there are.
    """

    @property
    def partitions(self) -> int:
        """How many there are."""

    def visit(self, q: Any, *, number: int, warm: int | None, group: int, groups: int) -> Any:
        """Return the summed statistics at ``q`` of the partitions group, group + groups, ...

        Their local states are then those of sweep ``number``, which is whole when every group
        of it was visited, in order. Other parameters are those of `Reduce`.
        """


class Observing(Reduce, Protocol):
    """A `Reduce` that can also sum what is needed before the first sweep."""

    def observe(self) -> Any:
        """Return the sum of `Model.observe` over the partitions."""


@dataclass(frozen=True)
class Cursor(State, kind="core.Cursor"):
    """All that a loop needs to go on after one of its steps with the same bits.

    ``q`` and ``stats`` are states of the model's own classes.
    """

    q: Any
    stats: Any
    number: int
    elbo: float


class NonFiniteBound(ArithmeticError):
    """The bound became NaN or infinite: the fit cannot go on."""


@dataclass(frozen=True)
class Step:
    """One accepted sweep: its parameters, the bound at them, and how to go on from here.

    ``q`` is what a fit that ends here leaves. It is the cursor's own but in a loop that may go
    downhill: there it is the best point so far, which the cursor then holds too.

    ``converged`` is None where the trace of bounds decides; a loop that judges by itself
    (one with draws, say) states it.

    Raises
    ------
    NonFiniteBound
        If the bound is not finite: such a sweep is never accepted.
    """

    iteration: int
    q: Any
    elbo: float
    cursor: Cursor
    converged: bool | None = None

    @classmethod
    def at(cls, cursor: Cursor, converged: bool | None = None) -> Self:
        """Return the step of a cursor at its own parameters."""
        return cls(cursor.number, cursor.q, cursor.elbo, cursor, converged)

    def __post_init__(self) -> None:
        if not math.isfinite(self.elbo):
            raise NonFiniteBound(
                f"the bound became {self.elbo} at sweep {self.iteration}"
                f"{_first_not_finite(self.cursor)}; look for extreme values in the data, "
                "standardise numeric columns, or narrow the prior"
            )


def _first_not_finite(cursor: Cursor) -> str:
    for name, leaf in leaves(cursor):
        array = np.asarray(leaf)
        if name != "elbo" and array.dtype.kind == "f" and not np.isfinite(array).all():
            return f" (the first number that is not finite is in {name})"
    return ""


CLIMBED = ("bound", "log posterior")
"""Objectives that a fit climbs; any other is that of draws, which wander."""


def objective_of(model: Any) -> str:
    """Return what the model's ``elbo`` is: a bound, unless it says otherwise."""
    name: str = getattr(model, "objective", "bound")
    return name
