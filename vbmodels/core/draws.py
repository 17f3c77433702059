"""Random draws: numbers that belong to a row however the data are cut, and Markov chains.

A row's numbers are hashes of what it holds. Of chains: how many sweeps they make, which draws are
kept, how far these can be trusted.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vbmodels.core.state import FloatArray, IntArray


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
        drawn = [
            values
            for sweep, values in zip(range(self.sweeps), sweeps, strict=False)
            if self.slot(sweep) is not None
        ]
        return {name: np.stack([values[name] for values in drawn], axis=1) for name in drawn[0]}


TAILS = (0.05, 0.95)
"""Quantiles that `Diagnosis.ess_tail` is about."""


@dataclass(frozen=True)
class Diagnosis:
    """Convergence and precision of Markov chains, one entry a quantity.

    Attributes
    ----------
    mean, sd
        Posterior mean and standard deviation over all chains; [K].
    r_hat
        Rank-normalised split R-hat; near 1 when the chains agree, infinite where they stand still
        apart; NaN for a quantity that is the same in every draw; [K].
    ess_bulk, ess_tail
        Effective numbers of draws for the centre and for the 5 % and 95 % quantiles; [K].
    mcse
        Standard error of ``mean``; [K].
    """

    mean: FloatArray
    sd: FloatArray
    r_hat: FloatArray
    ess_bulk: FloatArray
    ess_tail: FloatArray
    mcse: FloatArray

    @property
    def largest_r_hat(self) -> float:
        """The largest R-hat of the quantities that vary; 1 where none does."""
        varying = self.r_hat[~np.isnan(self.r_hat)]
        return float(varying.max()) if varying.size else 1.0


def diagnose(draws: FloatArray) -> Diagnosis:
    """Summarise draws [chain, draw, K]; Vehtari et al. (2021) as ArviZ computes them.

    Raises
    ------
    ValueError
        If there are fewer than two chains, fewer than four draws, or a draw is not finite.
    """
    if draws.ndim != 3 or draws.shape[0] < 2 or draws.shape[1] < 4:
        raise ValueError(
            "expected draws of shape [chain, draw, K] with at least 2 chains of 4 draws, "
            f"got the shape {draws.shape}"
        )
    if not np.isfinite(draws).all():
        chain, draw, k = np.argwhere(~np.isfinite(draws))[0]
        raise ValueError(f"draw {draw} of quantity {k} in chain {chain} is not finite")
    arviz = load_arviz()
    data = arviz.convert_to_dataset({"x": draws})

    def values(function: str, method: str, **options: Any) -> FloatArray:
        # Chains that stand still have no variance to divide by.
        with np.errstate(divide="ignore", invalid="ignore"):
            figures: FloatArray = getattr(arviz, function)(data, method=method, **options)[
                "x"
            ].to_numpy()
        return np.asarray(figures, dtype=np.float64)

    r_hat, same = values("rhat", "rank"), np.ptp(draws, axis=(0, 1)) == 0.0
    return Diagnosis(
        mean=draws.mean(axis=(0, 1)),
        sd=draws.std(axis=(0, 1), ddof=1),
        r_hat=np.where(same, np.nan, np.where(np.isnan(r_hat), np.inf, r_hat)),
        ess_bulk=values("ess", "bulk"),
        # ArviZ 1 has other quantiles than ArviZ 0 unless they are said.
        ess_tail=values("ess", "tail", prob=TAILS),
        mcse=values("mcse", "mean"),
    )


def inference_data(posterior: dict[str, FloatArray], dims: dict[str, list[str]]) -> Any:
    """Return draws as ArviZ has them: ``InferenceData``, of ArviZ 1 xarray's ``DataTree``.

    Either has the group ``posterior`` with a variable for each parameter.

    Parameters
    ----------
    posterior
        Draws [chain, draw, ...] by name of the parameter.
    dims
        Names of the axes after chain and draw, by name of the parameter.
    """
    arviz = load_arviz()
    if arviz.__version__.startswith("0."):
        return arviz.from_dict(posterior=posterior, dims=dims)
    return arviz.from_dict({"posterior": posterior}, dims=dims)


@cache
def load_arviz() -> Any:
    """Load ArviZ, which takes as long as all else together: for draws from a sampler alone.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    with warnings.catch_warnings():
        # ArviZ 0.23 announces its successor whenever it is imported.
        warnings.simplefilter("ignore", FutureWarning)
        try:
            import arviz
        except ModuleNotFoundError as error:
            raise ImportError("draws of a sampler need ArviZ: pip install arviz") from error
    return arviz


UnsignedArray = NDArray[np.uint64]
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
"""The step of splitmix64's state: 2^64 divided by the golden ratio, made odd."""
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
"""The factors of splitmix64's finaliser."""


def text_key(text: str) -> int:
    """Return a whole number below 2^64 made from a text.

    >>> text_key("car") == text_key("car"), text_key("car") == text_key("bus")
    (True, False)
    """
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def mix(z: UnsignedArray) -> UnsignedArray:
    """Return the finaliser of splitmix64 (Steele, Lea and Flood 2014) of every number."""
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return z ^ (z >> np.uint64(31))


def hashed(keys: IntArray, stream: int, count: int) -> FloatArray:
    """Return ``count`` numbers in (0, 1) from each key, [count, N].

    The splitmix64 hash of key, stream and index.
    """
    with np.errstate(over="ignore"):
        key = mix(keys.astype(np.uint64) + np.uint64(stream) * GOLDEN)
        steps = (np.arange(1, count + 1, dtype=np.uint64) * GOLDEN)[:, None]
        bits = mix(key + steps)
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
