"""The features of a sparse Gaussian process: kernels, inducing points, scaling.

A kernel is a linear one, k(a, b) = exp(-|a - b|^2/(2 l^2)) with R inducing points z (FITC:
Snelson and Ghahramani 2005), or the sum of both. With L L' = k(z, z), w ~ N(0, I) and

    phi(x) = [sqrt(v_lin) x, sqrt(v_k) L^-1 k(z, x), sqrt(v_c)]
    f(x) = c0 + phi(x)'w + r(x),    r(x) ~ N(0, v_k (1 - |L^-1 k(z, x)|^2)),

independent over instances. x is scaled: z-scores, clipped, over sqrt(D) (so that a length
scale of 1 suits any D), or as it is for rows of unit length. Mean and sd are rounded to single
precision: sums over partitions differ in their last digits, and where features are few and whole,
k-means meets ties that the last digit would break, to other inducing points.

In rows of text the columns are words, and words that stand together mean alike. The linear part
then is v_lin x'R x: weights of words are N(0, v_lin R) a priori,

    R_jk = C_jk / sqrt(C_jj C_kk),   C = sum x x' over all instances,   R_jj = 1,

the kernel of the generalised vector space model (Wong, Ziarko and Wong 1985) and of latent
semantics (Cristianini, Shawe-Taylor and Lodhi 2002), with words of unit length: a single word's
variance stays v_lin, and what a bag says of a word is said of its companions too. R reads no
label. In phi it is x L, L L' = R (with the jitter of k(z, z)).

With more words than ``linear_rank`` it is x T + e, R ~ T T' + diag(d): T has the directions in
which phi varies most over all instances, and d_j = 1 - |T_j|^2 is what they leave of a word's
variance, which is noise, independent over instances, as r is (`words`).

A leak is one more instance in every bag, with f = u, u ~ N(-3.5, .5^2) the same in all (a column
of phi that is 1 for leaks and 0 elsewhere): by it a bag may be positive though no instance of its
own is, and a bag without instances has a chance. Leaks have no other column and no r.

The prior of words' weights in the probit Gaussian process: R, its factor, or a part of it.

The linear part for text is v x'R x, R_jk = C_jk / (s_j s_k), s_j^2 = C_jj, C = sum x x'.
With few words phi is x L, L L' = R. With many, a fit takes time with the square of
the words, though some hundred bags cannot determine so many directions. Then

    R = T T' + (R - T T') ~ T T' + diag(d),    d_j = 1 - |T_j|^2,
    T = S^-1/2 V Lambda^1/2,    S^-1/2 C S^-1/2 = V Lambda V' + the rest,    S = diag(s)

V and Lambda being the ``rank`` leading eigenvectors and values. Over all instances phi = X T has
phi'phi = Lambda^2, its principal values: X S^-1/2 V = U Lambda^1/2, so X T = U Lambda, and of all
maps of that rank it is the one nearest to X L. A word's prior variance stays v (the diagonal of
factor analysis), and what T leaves of it is noise, independent over instances, as in FITC.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.sparse.linalg import eigsh
from scipy.spatial.distance import cdist
from scipy.special import ndtri

from vbmodels.bags.landmarks import JITTER, factor_of, rbf, single
from vbmodels.bags.multilabel import Observed, refuse_words
from vbmodels.core.linalg import cholesky, solve_lower, unpack
from vbmodels.core.state import FloatArray, IntArray, State

KERNELS = ("auto", "linear", "rbf", "linear+rbf")
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
        between the columns of the rows of unit length. "auto" is correlated
        for text, whose features are words.
    linear_rank
        Most columns of the linear part of text; with more words it is cut to so many directions
        (`words`). Quality and time: `benchmarks/bag_stack.md`.
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
        of its own is.
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


LEAST = 1e-12
"""Smallest eigenvalue kept, as a share of the largest."""


def words(
    options: KernelOptions, observed: Observed, names: tuple[str, ...], standardise: bool
) -> FloatArray:
    """Return L or T; [0, 0] where the weights of columns are independent.

    Raises
    ------
    ValueError
        If correlated words are requested where the rows are not text, or there are more than
        `MOST_WORDS`.
    """
    text = options.is_text(observed) and not standardise
    if "linear" not in names or options.linear_prior == "independent" or not text:
        if options.linear_prior == "correlated":
            raise ValueError(
                "expected a linear kernel on rows of unit length without negative numbers for "
                "linear_prior 'correlated'; take 'auto' or 'independent'"
            )
        return np.empty((0, 0))
    refuse_words(observed.spread.mean.size)
    products = unpack(observed.products.total)
    length = np.sqrt(np.diag(products))
    seen = length > 0.0
    length = np.where(seen, length, 1.0)
    if names == ("linear",) and options.linear_rank < length.size:
        return leading(products, length, options.linear_rank)
    cosines = single(products / length[:, None] / length)
    np.fill_diagonal(cosines, 1.0 + JITTER)
    return cholesky(cosines, "the cosines between words")


def leading(products: FloatArray, length: FloatArray, rank: int) -> FloatArray:
    """Return T [D, rank] from C [D, D] and s [D].

    C is rounded to single precision, as its sums over partitions differ in their last digits.
    A column of T is as long as its eigenvector says, with its largest entry positive. Lanczos'
    iteration starts at s, so that the same C gives the same T.
    """
    half = np.sqrt(length)
    scaled = single(products / half[:, None] / half)
    values, vectors = eigsh(scaled, k=rank, v0=length)
    kept = np.flatnonzero(values > LEAST * values.max())[::-1]
    turn = vectors[:, kept] * np.sqrt(values[kept]) / half[:, None]
    largest = turn[np.abs(turn).argmax(axis=0), np.arange(kept.size)]
    turn *= np.sign(largest)
    return np.ascontiguousarray(turn)


LEAK = (-3.5, 0.5)
"""Mean and standard deviation of u."""


@dataclass(frozen=True)
class FeatureMap(State, kind="bags/mil_gp.FeatureMap"):
    """From instances to phi, for every kernel value of a grid, [K].

    Attributes
    ----------
    mean, scale
        Scaled features are clip((x - mean) / scale) over ``divisor``, [D].
    clip, divisor, offset
        See above; ``offset`` is c0.
    linear
        Whether there is a linear part.
    turn
        L, lower triangular, [D, D], or T, [D, rank]; [0, 0] where R is I.
    rbf
        Whether there is an RBF part.
    points
        Inducing points z, scaled, [R, D].
    lengths
        Distinct length scales, [M].
    factors
        L for each length scale, [M, R, R].
    which
        Length scale of each kernel value, [K].
    amplitude
        v_k of each kernel value, [K]; v_lin where the linear part is T.
    weights
        sqrt of the variances that multiply the columns of phi, [K, P].
    leak
        Whether bags have a leak.
    """

    mean: FloatArray
    scale: FloatArray
    clip: float
    divisor: float
    offset: float
    linear: bool
    turn: FloatArray
    rbf: bool
    points: FloatArray
    lengths: FloatArray
    factors: FloatArray
    which: IntArray
    amplitude: FloatArray
    weights: FloatArray
    leak: bool = False

    @property
    def n_kernels(self) -> int:
        """Kernel values, K."""
        return int(self.which.size)

    @property
    def n_linear(self) -> int:
        """Columns of the linear part."""
        if not self.linear:
            return 0
        return int(self.turn.shape[1] if self.turn.size else self.mean.size)

    @cached_property
    def alone(self) -> FloatArray:
        """What T leaves of the words' variances of 1, d, [D]; [0] where there is no T."""
        if not self.turn.size or self.turn.shape[1] == self.mean.size:
            return np.empty(0)
        return np.asarray(np.maximum(1.0 - (self.turn**2).sum(axis=1), 0.0))

    @property
    def n_columns(self) -> int:
        """Columns of phi, P."""
        return int(self.weights.shape[-1])

    @cached_property
    def key(self) -> bytes:
        """Digest of all that columns depend on, for caches."""
        digest = hashlib.blake2b(
            repr((self.clip, self.divisor, self.linear, self.rbf, self.leak, self.offset)).encode()
        )
        for array in (self.mean, self.scale, self.turn, self.points, self.lengths, self.factors):
            digest.update(np.ascontiguousarray(array).data)
        return digest.digest()

    def linear_weights(
        self, kernel: int, mean: FloatArray, half: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and sd of the linear part's weights of the scaled features, [D] each.

        Parameters
        ----------
        kernel
            The kernel value in use.
        mean, half
            Of the columns' weights as they multiply `base`: their mean [P], and rows [n, P] whose
            outer products sum to their covariance.
        """
        width = self.n_linear
        of_features, spread = mean[:width], half[:, :width]
        if self.turn.size:
            of_features, spread = self.turn @ of_features, spread @ self.turn.T
        variance = (spread**2).sum(axis=0)
        if self.alone.size:
            variance = variance + self.amplitude[kernel] * self.alone
        return of_features, np.sqrt(variance)

    def at_values(self, kernels: IntArray) -> FeatureMap:
        """Return the map of some kernel values, [K']."""
        length, which = np.unique(self.which[kernels], return_inverse=True)
        return replace(
            self,
            lengths=self.lengths[length],
            factors=self.factors[length],
            which=which,
            amplitude=self.amplitude[kernels],
            weights=self.weights[kernels],
        )

    def same_values(self, other: FeatureMap, kernels: IntArray) -> IntArray:
        """Return the kernel values that are among ``kernels`` of another map."""
        if self.rbf != other.rbf or self.linear != other.linear:
            return np.empty(0, np.int64)
        length, amplitude = other.lengths[other.which[kernels]], other.amplitude[kernels]
        own = self.lengths[self.which][:, None]
        same = (own == length) & (self.amplitude[:, None] == amplitude)
        return np.flatnonzero(same.any(axis=1))

    def around(self, kernels: IntArray) -> IntArray:
        """Return kernel values and those of adjacent lengths and amplitudes in the grid."""
        length = np.searchsorted(np.unique(self.lengths), self.lengths[self.which])
        amplitude = np.searchsorted(np.unique(self.amplitude), self.amplitude)
        place = np.column_stack([length, amplitude])
        away = np.abs(place[:, None] - place[kernels]).max(axis=-1)
        return np.flatnonzero((away <= 1).any(axis=1))

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
        return np.clip((rows - self.mean) / self.scale, -self.clip, self.clip) / self.divisor

    def base(self, rows: FloatArray) -> tuple[tuple[FloatArray, ...], tuple[FloatArray, ...]]:
        """Return columns before weights [n, P] and 1 - |L^-1 k|^2 [n], (eqs 2, 3, 5, 6)."""
        x = self.scaled(rows)
        last = [np.ones((len(x), 1))]
        if self.leak:
            last.insert(0, np.zeros((len(x), 1)))
        distance = cdist(x, self.points) if self.rbf else np.empty((len(x), 0))
        turned = x @ self.turn if self.turn.size else x
        columns, residuals, alone = [], [], self.alone
        for length, factor in zip(self.lengths, self.factors, strict=True):
            parts = [turned] if self.linear else []
            residual = x**2 @ alone if alone.size else np.zeros(len(x))
            if self.rbf:
                part = solve_lower(factor, rbf(distance, length).T).T
                residual += np.maximum(1.0 - np.einsum("np,np->n", part, part), 0.0)
                parts.append(part)
            columns.append(np.hstack([*parts, *last]))
            residuals.append(residual)
        return tuple(columns), tuple(residuals)


def feature_map(options: KernelOptions, observed: Observed, rng: np.random.Generator) -> FeatureMap:
    """Choose scaling, inducing points and kernel values from what the partitions summed up.

    Raises
    ------
    ValueError
        If there is no instance, or if words are to be correlated where the rows are not text.
    """
    spread = observed.spread
    if spread.count == 0.0:
        raise ValueError("expected instances, got none in any bag")
    names, standardise = options.resolved(observed)
    size, n_classes = spread.mean.size, observed.positive.size
    mean, scale, clip, divisor = np.zeros(size), np.ones(size), np.inf, 1.0
    if standardise:
        sd = np.sqrt(spread.deviation / spread.count)
        sd = np.where(sd > 1e-12 * np.maximum(np.abs(spread.mean), 1e-300), sd, 1.0)
        mean, scale = single(spread.mean, sd), single(sd)
        clip, divisor = options.clip, float(np.sqrt(size))
    blank = FeatureMap(
        mean=mean,
        scale=scale,
        clip=clip,
        divisor=divisor,
        offset=options.offset,
        linear="linear" in names,
        turn=words(options, observed, names, standardise),
        rbf="rbf" in names,
        points=np.empty((0, size)),
        lengths=np.ones(1),
        factors=np.empty((1, 0, 0)),
        which=np.zeros(1, dtype=np.int64),
        amplitude=np.zeros(1),
        weights=np.empty((1, 0)),
        leak=options.leak,
    )
    samples = [blank.scaled(s.rows) for s in observed.samples if len(s.rows)]
    count = options.n_inducing or min(40 + 10 * n_classes, 200)
    points = inducing_points(samples, count, rng) if blank.rbf else blank.points
    return _with_grid(blank, points, options)


def _with_grid(blank: FeatureMap, points: FloatArray, options: KernelOptions) -> FeatureMap:
    lengths = np.array(options.length_scales if blank.rbf else (1.0,))
    amplitudes = np.array(options.amplitudes if blank.rbf else (1.0,))
    factors = np.empty((len(lengths), 0, 0))
    if blank.rbf:
        between = cdist(points, points)
        factors = np.array([factor_of(rbf(between, length)) for length in lengths])
    which = np.repeat(np.arange(len(lengths)), len(amplitudes))
    if blank.alone.size:
        amplitudes = np.array([options.linear_variance])
    amplitude = np.tile(amplitudes, len(lengths)) * float(bool(blank.rbf or blank.alone.size))
    linear = np.full(blank.n_linear, np.sqrt(options.linear_variance))
    constant = [np.sqrt(options.constant_variance)]
    leak = [LEAK[1]] if blank.leak else []
    columns = len(points) * blank.rbf
    weights = [
        np.concatenate([linear, np.full(columns, np.sqrt(v)), leak, constant]) for v in amplitude
    ]
    return replace(
        blank,
        points=points,
        lengths=lengths,
        factors=factors,
        which=which,
        amplitude=amplitude,
        weights=np.array(weights),
    )


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


def sobol_normals(count: int, size: int, seed: int) -> FloatArray:
    """Return scrambled Sobol points of N(0, I), [count, size]; ``count`` is a power of two."""
    from scipy.stats import qmc

    uniform = qmc.Sobol(size, rng=np.random.default_rng(seed)).random(count)
    return np.asarray(ndtri(np.clip(uniform, 1e-15, 1.0 - 1e-15)))
