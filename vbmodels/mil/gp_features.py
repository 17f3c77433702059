"""The features of a sparse Gaussian process: kernels, inducing points, scaling.

A kernel is a sum of a linear one and of stationary ones k_j (each with R shared inducing
points z, FITC: Snelson and Ghahramani 2005). With L_j L_j' = k_j(z, z), w ~ N(0, I) and

    phi(x) = [sqrt(v_lin) x, sqrt(v_k) L_j^-1 k_j(z, x) for each j, sqrt(v_c)]
    f(x) = c0 + phi(x)'w + r(x),    r(x) ~ N(0, v_k sum_j (1 - |L_j^-1 k_j(z, x)|^2)),

independent over instances. x is scaled: z-scores, clipped, over sqrt(D) (so that a length
scale of 1 suits any D), or as it is for rows of unit length.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

from vbmodels.linalg import cholesky, solve_lower
from vbmodels.mil.gp_data import Observed
from vbmodels.state import FloatArray, IntArray, State

STATIONARY = ("rbf", "exponential", "matern32", "matern52")
KERNELS = ("linear", *STATIONARY)
JITTER = 1e-6
"""Added to the diagonal of k(z, z), whose entries are 1."""
TEXT_SHARE = 0.99
"""Share of rows of unit length from which on data count as text."""
LENGTH_SCALES = (0.5, 0.7, 1.0, 1.4)
AMPLITUDES = (1.0, 3.0, 10.0)


@dataclass(frozen=True)
class KernelOptions:
    """What the user may say of the Gaussian process.

    Parameters
    ----------
    kernel
        A name of `KERNELS` or a sum of them ("linear+rbf"); "auto" is linear for rows of
        unit length and RBF elsewhere.
    length_scales, amplitudes
        The grid of stationary kernels, in scaled units; the evidence picks.
    linear_variance, constant_variance
        v_lin and v_c.
    offset
        c0, the mean of f before the constant is fitted.
    n_inducing
        R, at most the number of distinct rows in the sample; by default 50, and 10 more for
        each further class up to 200, because classes share them.
    standardise
        Whether features become z-scores; None: unless the rows have unit length.
    clip
        Largest |z-score|.
    sample
        Rows of each kind of bag that inducing points are chosen from.
    sample_seed
        Seed of the sample's hash.
    """

    kernel: str = "auto"
    length_scales: tuple[float, ...] = LENGTH_SCALES
    amplitudes: tuple[float, ...] = AMPLITUDES
    linear_variance: float = 2.0
    constant_variance: float = 4.0
    offset: float = -1.0
    n_inducing: int | None = None
    standardise: bool | None = None
    clip: float = 3.0
    sample: int = 1000
    sample_seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.names if name not in KERNELS]
        if unknown and self.kernel != "auto":
            raise ValueError(
                f"expected a kernel out of {', '.join(KERNELS)}, a sum of them such as "
                f"linear+rbf, or auto; got {self.kernel!r}"
            )
        positive = (*self.length_scales, *self.amplitudes, self.linear_variance, self.clip)
        if min(positive, default=0.0) <= 0.0 or not self.length_scales or not self.amplitudes:
            raise ValueError("length scales, amplitudes, variances and the clip must be positive")
        if (self.n_inducing is not None and self.n_inducing < 1) or self.sample < 1:
            raise ValueError("expected at least one inducing point and one row in the sample")

    @property
    def names(self) -> tuple[str, ...]:
        """The summands."""
        return tuple(part.strip() for part in self.kernel.split("+"))

    def resolved(self, observed: Observed) -> tuple[tuple[str, ...], bool]:
        """Return the summands and whether to standardise, given what the data look like."""
        text = observed.unit >= TEXT_SHARE * observed.spread.count
        names = (("linear",) if text else ("rbf",)) if self.kernel == "auto" else self.names
        return names, (not text) if self.standardise is None else self.standardise


@dataclass(frozen=True)
class FeatureMap(State):
    """From instances to phi, for every kernel value of a grid, [K].

    Attributes
    ----------
    mean, scale
        Scaled features are clip((x - mean) / scale) over ``divisor``, [D].
    clip, divisor, offset
        See above; ``offset`` is c0.
    linear
        Whether there is a linear part.
    kinds
        The stationary kernels.
    points
        Inducing points z, scaled, [R, D].
    lengths
        Distinct length scales, [M].
    factors
        L_j for each length scale and kind, [M, J, R, R].
    which
        Length scale of each kernel value, [K].
    amplitude
        v_k of each kernel value, [K].
    weights
        sqrt of the variances that multiply the columns of phi, [K, P].
    """

    mean: FloatArray
    scale: FloatArray
    clip: float
    divisor: float
    offset: float
    linear: bool
    kinds: tuple[str, ...]
    points: FloatArray
    lengths: FloatArray
    factors: FloatArray
    which: IntArray
    amplitude: FloatArray
    weights: FloatArray

    @property
    def n_kernels(self) -> int:
        """Kernel values, K."""
        return int(self.which.size)

    @property
    def n_columns(self) -> int:
        """Columns of phi, P."""
        return int(self.weights.shape[1])

    @property
    def key(self) -> bytes:
        """Digest of all that columns depend on, for caches."""
        digest = hashlib.blake2b(repr((self.clip, self.divisor, self.linear, self.kinds)).encode())
        for array in (self.mean, self.scale, self.points, self.lengths, self.factors):
            digest.update(np.ascontiguousarray(array).data)
        return digest.digest()

    def scaled(self, rows: FloatArray) -> FloatArray:
        """Return scaled features of rows [n, D].

        Raises
        ------
        ValueError
            If the rows have another number of features than those of the fit.
        """
        if rows.shape[1] != self.mean.size:
            raise ValueError(
                f"expected {self.mean.size} features an instance, as in the fit, got "
                f"{rows.shape[1]}"
            )
        z = (rows - self.mean) / self.scale
        result: FloatArray = np.clip(z, -self.clip, self.clip) / self.divisor
        return result

    def base(self, rows: FloatArray) -> tuple[tuple[FloatArray, ...], tuple[FloatArray, ...]]:
        """Return columns before weights [n, P] and 1 - |L^-1 k|^2 summed [n], a length scale."""
        x = self.scaled(rows)
        one = np.ones((len(x), 1))
        distance = cdist(x, self.points) if self.kinds else np.empty((len(x), 0))
        columns, residuals = [], []
        for length, factors in zip(self.lengths, self.factors, strict=True):
            parts, residual = [x] if self.linear else [], np.zeros(len(x))
            for kind, factor in zip(self.kinds, factors, strict=True):
                part = solve_lower(factor, correlation(kind, distance / length).T).T
                residual += np.maximum(1.0 - np.einsum("np,np->n", part, part), 0.0)
                parts.append(part)
            columns.append(np.hstack([*parts, one]))
            residuals.append(residual)
        return tuple(columns), tuple(residuals)


def correlation(kind: str, r: FloatArray) -> FloatArray:
    """Return the stationary kernel of amplitude 1 at distances r over the length scale.

    Rasmussen and Williams (2006), eqs 4.9 and 4.17: exp(-r^2/2); exp(-r);
    (1 + a) exp(-a), a = sqrt(3) r; (1 + a + a^2/3) exp(-a), a = sqrt(5) r.
    """
    if kind == "rbf":
        result: FloatArray = np.exp(-0.5 * r**2)
    elif kind == "exponential":
        result = np.exp(-r)
    elif kind == "matern32":
        a = np.sqrt(3.0) * r
        result = (1.0 + a) * np.exp(-a)
    else:
        a = np.sqrt(5.0) * r
        result = (1.0 + a + a**2 / 3.0) * np.exp(-a)
    return result


def feature_map(options: KernelOptions, observed: Observed, rng: np.random.Generator) -> FeatureMap:
    """Choose scaling, inducing points and kernel values from what the partitions summed up."""
    spread = observed.spread
    if spread.count == 0.0:
        raise ValueError("expected instances, got none in any bag")
    names, standardise = options.resolved(observed)
    size = spread.mean.size
    mean, scale, clip, divisor = np.zeros(size), np.ones(size), np.inf, 1.0
    if standardise:
        sd = np.sqrt(spread.deviation / spread.count)
        varies = sd > 1e-12 * np.maximum(np.abs(spread.mean), 1e-300)
        mean, scale = spread.mean, np.where(varies, sd, 1.0)
        clip, divisor = options.clip, float(np.sqrt(size))
    kinds = tuple(name for name in names if name != "linear")
    blank = FeatureMap(
        mean=mean,
        scale=scale,
        clip=clip,
        divisor=divisor,
        offset=options.offset,
        linear="linear" in names,
        kinds=kinds,
        points=np.empty((0, size)),
        lengths=np.ones(1),
        factors=np.empty((1, 0, 0, 0)),
        which=np.zeros(1, dtype=np.int64),
        amplitude=np.zeros(1),
        weights=np.empty((1, 0)),
    )
    samples = [blank.scaled(s.rows) for s in observed.samples if len(s.rows)]
    count = options.n_inducing or min(40 + 10 * observed.positive.size, 200)
    points = inducing_points(samples, count, rng) if kinds else blank.points
    return _with_grid(blank, points, options)


def _with_grid(blank: FeatureMap, points: FloatArray, options: KernelOptions) -> FeatureMap:
    lengths = np.array(options.length_scales if blank.kinds else (1.0,))
    amplitudes = np.array(options.amplitudes if blank.kinds else (1.0,))
    between = cdist(points, points)
    factors = np.array(
        [
            [
                cholesky(
                    correlation(kind, between / length) + JITTER * np.eye(len(points)),
                    "the kernel matrix of the inducing points",
                )
                for kind in blank.kinds
            ]
            for length in lengths
        ]
    ).reshape(len(lengths), len(blank.kinds), len(points), len(points))
    which = np.repeat(np.arange(len(lengths)), len(amplitudes))
    amplitude = np.tile(amplitudes, len(lengths)) * float(bool(blank.kinds))
    linear = np.full(blank.mean.size if blank.linear else 0, np.sqrt(options.linear_variance))
    weights = np.array(
        [
            np.concatenate(
                [
                    linear,
                    np.full(len(points) * len(blank.kinds), np.sqrt(v)),
                    [np.sqrt(options.constant_variance)],
                ]
            )
            for v in amplitude
        ]
    )
    return FeatureMap(
        **{
            **vars(blank),
            "points": points,
            "lengths": lengths,
            "factors": factors,
            "which": which,
            "amplitude": amplitude,
            "weights": weights,
        }
    )


def inducing_points(samples: list[FloatArray], count: int, rng: np.random.Generator) -> FloatArray:
    """Choose ``count`` points, as many from each sample, by k-means from a k-means++ start.

    Samples hold distinct rows; clipping may make some equal, and those count once. A sample
    with too few leaves the rest to the other.
    """
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
    result: FloatArray = np.unique(np.concatenate(chosen), axis=0)
    return result
