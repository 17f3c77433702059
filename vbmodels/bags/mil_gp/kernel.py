"""What the user says of the Gaussian process: kernels, their grid, inducing points.

See `features` for the letters.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vbmodels.bags.multilabel import Observed
from vbmodels.core.state import FloatArray

KERNELS = ("auto", "linear", "rbf", "linear+rbf")
JITTER = 1e-6
"""Added to the diagonal of k(z, z), whose entries are 1."""
TEXT_SHARE = 0.99
"""Share of rows of unit length from which on data count as text."""
LENGTH_SCALES = (0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0)
AMPLITUDES = (1.0, 3.0, 10.0, 30.0)
LINEAR_RANK = 200


@dataclass(frozen=True)
class KernelOptions:
    """What the user may say of the Gaussian process.

    Parameters
    ----------
    kernel
        One of `KERNELS`; "auto" is linear for rows of unit length and RBF elsewhere.
    length_scales, amplitudes
        The grid of the RBF kernel, in scaled units; the evidence picks.
    linear_variance, constant_variance
        v_lin and v_c. Of 2, 4 and 8, 4 predicts the labels of held-out bags best on text; the
        evidence of so few bags would take it too small.
    linear_prior
        "independent": the linear part is v_lin x'x. "correlated": v_lin x'R x, with R the cosines
        between the columns of the rows of unit length; see `features`. "auto" is correlated
        for text, whose features are words.
    linear_rank
        Most columns of the linear part of text; with more words it is cut to so many directions
        (`features`). Quality and time: `benchmarks/bag_stack.md`.
    offset
        c0, the mean of f before the constant is fitted.
    n_inducing
        R, at most the number of distinct rows in the sample; by default 50, and 10 more for
        each further class up to 200, because classes share them.
    standardise
        Whether features become z-scores; None: unless the rows have unit length.
    clip
        Largest |z-score|.
    leak
        Whether every bag has one more instance, the leak, by which it may be positive though none
        of its own is; see `features`.
    sample
        Rows of each kind of bag that inducing points are chosen from.
    sample_seed
        Seed of the sample's hash.
    """

    kernel: str = "auto"
    length_scales: tuple[float, ...] = LENGTH_SCALES
    amplitudes: tuple[float, ...] = AMPLITUDES
    linear_variance: float = 4.0
    constant_variance: float = 4.0
    linear_prior: Literal["auto", "independent", "correlated"] = "auto"
    linear_rank: int = LINEAR_RANK
    offset: float = -1.0
    n_inducing: int | None = None
    standardise: bool | None = None
    clip: float = 3.0
    leak: bool = True
    sample: int = 1000
    sample_seed: int = 0

    def __post_init__(self) -> None:
        if self.kernel not in KERNELS:
            raise ValueError(f"expected a kernel out of {', '.join(KERNELS)}; got {self.kernel!r}")
        positive = (*self.length_scales, *self.amplitudes, self.linear_variance, self.clip)
        if min(positive, default=0.0) <= 0.0 or not self.length_scales or not self.amplitudes:
            raise ValueError("length scales, amplitudes, variances and the clip must be positive")
        if (self.n_inducing is not None and self.n_inducing < 1) or self.sample < 1:
            raise ValueError("expected at least one inducing point and one row in the sample")

    @property
    def names(self) -> tuple[str, ...]:
        """The summands."""
        return tuple(self.kernel.split("+"))

    @property
    def wants_products(self) -> bool:
        """Whether products of the columns of text are needed, which cost N D^2 once."""
        linear = self.kernel == "auto" or "linear" in self.names
        return linear and self.linear_prior != "independent" and self.standardise is not True

    def is_text(self, observed: Observed) -> bool:
        """Whether nearly all rows have unit length."""
        return observed.unit >= TEXT_SHARE * observed.spread.count

    def resolved(self, observed: Observed) -> tuple[tuple[str, ...], bool]:
        """Return the summands and whether to standardise, given what the data look like."""
        text = self.is_text(observed)
        names = self.names
        if self.kernel == "auto":
            names = ("linear",) if text else ("rbf",)
        return names, (not text) if self.standardise is None else self.standardise


def inducing_points(samples: list[FloatArray], count: int, rng: np.random.Generator) -> FloatArray:
    """Choose ``count`` points, as many from each sample, by k-means++ and k-means (section 4).

    Samples hold distinct rows; clipping may make some equal, and those count once. A sample
    with too few leaves the rest to the other.
    """
    from scipy.cluster.vq import kmeans2  # half a second that only this form takes

    samples = sorted((np.unique(s, axis=0) for s in samples), key=len)
    chosen: list[FloatArray] = []
    for i, sample in enumerate(samples):
        k = min(len(sample), (count - sum(map(len, chosen))) // (len(samples) - i))
        if k == len(sample):
            chosen.append(sample)
        elif k:
            with warnings.catch_warnings():
                # A cluster that loses its rows keeps its centre, which is what is wanted.
                warnings.simplefilter("ignore", UserWarning)
                chosen.append(kmeans2(sample, k, iter=10, minit="++", rng=rng)[0])
    return np.unique(np.concatenate(chosen), axis=0)
