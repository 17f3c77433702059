"""Markov chains: how many sweeps they make, and the draws of which ones are kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Schedule:
    """The sweeps of a chain.

    Parameters
    ----------
    warmup
        Sweeps thrown away first.
    draws
        Draws kept.
    thin
        Sweeps for each draw that is kept.

    Raises
    ------
    ValueError
        If nothing is drawn.
    """

    warmup: int
    draws: int
    thin: int = 1

    def __post_init__(self) -> None:
        if self.warmup < 0 or min(self.draws, self.thin) < 1:
            raise ValueError(
                "expected a warmup of at least 0, draws and thin of at least 1, got "
                f"{self.warmup}, {self.draws} and {self.thin}"
            )

    @property
    def sweeps(self) -> int:
        """Sweeps in all."""
        return self.warmup + self.draws * self.thin

    def slot(self, sweep: int) -> int | None:
        """Return which draw sweep number ``sweep``, from 0, leaves; None where it is not kept.

        >>> [Schedule(1, 2, thin=2).slot(sweep) for sweep in range(6)]
        [None, None, 0, None, 1, None]
        """
        slot, rest = divmod(sweep - self.warmup, self.thin)
        return slot if 0 <= slot < self.draws and rest == self.thin - 1 else None

    def kept(self, sweeps: Iterator[dict[str, FloatArray]]) -> dict[str, FloatArray]:
        """Make the sweeps and return what is kept of them, by name.

        Parameters
        ----------
        sweeps
            What each sweep leaves of C chains that run side by side, [C, ...] by name; without end.

        Returns
        -------
        kept
            [C, draws, ...].
        """
        found = [
            values
            for sweep, values in zip(range(self.sweeps), sweeps, strict=False)
            if self.slot(sweep) is not None
        ]
        return {name: np.stack([values[name] for values in found], axis=1) for name in found[0]}
