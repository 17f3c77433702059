"""The coordinate updates, their acceleration and the bound of VBSS, for all documents at once.

Letters as in chapter 1 of the dissertation: theta [n] importance, z [n] latent normal,
a, b intercept and slope, lambda = E[1/sigma^2], m = E a + E b E theta, c = exp(E ln alpha),
r = q(z > 0), B, P as in `spectrum`; D documents, W words of all of them. q(z) is
`labels.latent_importance` (A.1.1). Corrected here (errata of the text): the precision of
theta_i is E[b^2] + lambda P_ii, not E[b^2] + lambda / U_ii, and the means solve

    (E[b^2] I + lambda P) mu = lambda P theta_0 + E b (E z - E a),

in both the mean-field and the full-covariance form, where the covariance is
(E[b^2] I + lambda P)^-1. In the axes of B all of these are diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from scipy.special import digamma

from vbmodels.core.expfam import Beta, Gamma, Normal
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss.labels import latent_importance
from vbmodels.keywords.vbss.spectrum import Spectrum

Form = Literal["full", "mean_field"]
UNOBSERVED = 0.6
"""Share of a document's keywords that the start takes as not observed."""
TINY = 1e-30

SHRINK = 4.0
"""Factor of the longest stride after a leap that failed, or that reached it."""


@dataclass(frozen=True)
class Prior:
    """The hyperparameters, named as in section 1.2.

    Parameters
    ----------
    tau
        1/sigma^2 ~ Gamma(tau, rate tau).
    var_a, var_b
        a ~ N(0, var_a), b ~ N(0, var_b).
    alpha_1, alpha_2
        alpha ~ Beta(alpha_1, alpha_2), alpha the probability that a keyword is not observed.
    """

    tau: float
    var_a: float
    var_b: float
    alpha_1: float
    alpha_2: float


@dataclass(frozen=True)
class Factors(State, kind="keywords/vbss.Factors"):
    """q of every document: the factors' own parameters, so that the bound can be read.

    Parameters
    ----------
    location, log_c
        [W] q(z_i) is N(location_i, 1) weighted by exp(log_c_i) on z_i > 0 where y_i = 0,
        cut to z_i > 0 where y_i = 1.
    theta
        [W] the means of q(theta).
    curvature, precision
        [D] E[b^2] and lambda that q(theta)'s variances were made with.
    a, a_var, b, b_var
        [D] q(a) and q(b), normal.
    rate
        [D] q(1/sigma^2) is Gamma(tau + n/2, rate).
    hidden
        [D] q(alpha) is Beta(alpha_1 + hidden, alpha_2 + seen), hidden the expected number of
        keywords that are not observed.
    settled
        [D] whether the document's last sweep moved nothing any more; it is left alone then.
    sweeps
        [D] sweeps so far.
    stride
        [D] longest stride of the next leap; see `cycle`.
    """

    location: FloatArray
    log_c: FloatArray
    theta: FloatArray
    curvature: FloatArray
    precision: FloatArray
    a: FloatArray
    a_var: FloatArray
    b: FloatArray
    b_var: FloatArray
    rate: FloatArray
    hidden: FloatArray
    settled: BoolArray
    sweeps: IntArray
    stride: FloatArray


@dataclass(frozen=True)
class Block:
    """Consecutive documents with all that a sweep reads and no sweep changes."""

    spectrum: Spectrum
    y: FloatArray
    offsets: IntArray
    theta0_axes: FloatArray
    form: Form

    @classmethod
    def of(cls, batch: KeywordBatch, spectrum: Spectrum, scale: float, form: Form) -> Block:
        """Take the documents of ``spectrum`` out of ``batch``; theta_0 = scale B^-1 y."""
        first, last = spectrum.first, spectrum.last
        words = slice(int(batch.offsets[first]), int(batch.offsets[last]))
        offsets = batch.offsets[first : last + 1] - batch.offsets[first]
        y = batch.y[words].astype(float)
        return cls(spectrum, y, offsets, scale * spectrum.labels, form)

    @cached_property
    def n(self) -> FloatArray:
        """Words of each document [D]."""
        return np.diff(self.offsets).astype(np.float64)

    @cached_property
    def observed(self) -> BoolArray:
        """y [W] as flags."""
        return self.y > 0.0

    @cached_property
    def document(self) -> IntArray:
        """[W] the document of each word."""
        return np.repeat(np.arange(len(self.n)), np.diff(self.offsets))

    @cached_property
    def seen(self) -> FloatArray:
        """Observed keywords of each document [D]."""
        return self.total(self.y)

    @cached_property
    def theta0(self) -> FloatArray:
        """theta_0 [W]."""
        return self.from_axes(self.theta0_axes)

    @cached_property
    def stiffness(self) -> FloatArray:
        """[W] what lambda multiplies in the precisions of q(theta), by form."""
        return self.spectrum.values**2 if self.form == "full" else self.spectrum.p_diag

    def total(self, values: FloatArray) -> FloatArray:
        """Sum [W] over each document: [D]."""
        total = np.bincount(self.document, values, minlength=len(self.n))
        return np.asarray(total, dtype=np.float64)

    def to_axes(self, x: FloatArray) -> FloatArray:
        """V'x in every document."""
        return self._rotate(x, transpose=True)

    def from_axes(self, x: FloatArray) -> FloatArray:
        """V x in every document."""
        return self._rotate(x, transpose=False)

    def _rotate(self, x: FloatArray, transpose: bool) -> FloatArray:
        rotated = np.empty_like(x)
        bounds = self.offsets.tolist()
        for d, (i, j) in enumerate(pairwise(bounds)):
            v = self.spectrum.axes(d, j - i)
            np.dot(v.T if transpose else v, x[i:j], out=rotated[i:j])
        return rotated


def start(block: Block, prior: Prior) -> Factors:
    """Start as section 1.3.4 suggests: theta_0, a = 0, b = 1, lambda = 1.

    q(alpha) starts where the share `UNOBSERVED` of the keywords is not observed. The
    spreads of a and b are nil until their first update, which is why no bound is read here.
    """
    n_documents, n_words = len(block.n), len(block.y)
    one, nil = np.ones(n_documents), np.zeros(n_documents)
    hidden = block.seen * UNOBSERVED / (1.0 - UNOBSERVED)
    return Factors(
        location=np.zeros(n_words),
        log_c=np.zeros(n_words),
        theta=block.theta0.copy(),
        curvature=one,
        precision=one.copy(),
        a=nil,
        a_var=nil.copy(),
        b=one.copy(),
        b_var=nil.copy(),
        rate=prior.tau + 0.5 * block.n,
        hidden=hidden,
        settled=np.zeros(n_documents, dtype=bool),
        sweeps=np.zeros(n_documents, dtype=np.int64),
        stride=np.full(n_documents, 4.0),
    )


def sweep(block: Block, prior: Prior, f: Factors) -> Factors:
    """Update z, theta, a, b, sigma^2, alpha in turn (section 1.3.3; A.1.2 to A.1.4, A.2)."""
    doc, n = block.document, block.n
    location = f.a[doc] + f.b[doc] * f.theta
    log_c = _log_c(block, prior, f.hidden)
    importance = latent_importance(location, block.observed, log_c)
    z, r = importance.mean, importance.keyword
    precision = (prior.tau + 0.5 * n) / f.rate
    curvature = f.b**2 + f.b_var
    theta, theta_axes = _theta_means(block, curvature, precision, f.b[doc], z - f.a[doc])
    sum_theta, square, g = _theta_moments(block, curvature, precision, theta, theta_axes)
    a_var = 1.0 / (n + 1.0 / prior.var_a)
    a = a_var * (block.total(z) - f.b * sum_theta)
    b_var = 1.0 / (square + 1.0 / prior.var_b)
    b = b_var * (block.total(theta * z) - a * sum_theta)
    hidden = (1.0 - block.y) * r
    return Factors(
        location=location,
        log_c=log_c,
        theta=theta,
        curvature=curvature,
        precision=precision,
        a=a,
        a_var=a_var,
        b=b,
        b_var=b_var,
        rate=prior.tau + g,
        hidden=block.total(hidden),
        settled=f.settled,
        sweeps=f.sweeps + 1,
        stride=f.stride,
    )


def _log_c(block: Block, prior: Prior, hidden: FloatArray) -> FloatArray:
    """E ln alpha, as [W]; A.2."""
    first = prior.alpha_1 + hidden
    log_c: FloatArray = digamma(first) - digamma(first + prior.alpha_2 + block.seen)
    return log_c[block.document]


def _theta_means(
    block: Block, curvature: FloatArray, precision: FloatArray, b: FloatArray, target: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return E theta and V' E theta; section 1.3.3, corrected."""
    doc = block.document
    pull = precision[doc] * block.spectrum.values**2
    axes = (pull * block.theta0_axes + b * block.to_axes(target)) / (curvature[doc] + pull)
    return block.from_axes(axes), axes


def _theta_moments(
    block: Block,
    curvature: FloatArray,
    precision: FloatArray,
    theta: FloatArray,
    theta_axes: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return 1'E theta, E theta'theta, E (theta - theta_0)'P(theta - theta_0)/2 (A.1.2, A.1.4)."""
    doc, squares = block.document, block.spectrum.values**2
    variance = 1.0 / (curvature[doc] + precision[doc] * block.stiffness)
    weight = squares if block.form == "full" else block.spectrum.p_diag
    away = squares * (theta_axes - block.theta0_axes) ** 2
    square = block.total(theta**2 + variance)
    return block.total(theta), square, 0.5 * block.total(weight * variance + away)


def bound(block: Block, prior: Prior, f: Factors) -> FloatArray:
    """Return the evidence lower bound of each document [D]; section 1.3.1.

    E ln p(y, z | theta, a, b, alpha) - E ln q(z) is

        sum_i E z_i (m_i - l_i) + l_i^2/2 - E(a + b theta_i)^2/2 + ln Z_i
              + (1 - y_i) r_i (E ln alpha - ln c_i) + y_i E ln(1 - alpha),

    where q(z_i) was made with location l_i and ln c_i; the rest is
    E ln p(theta | sigma^2) + H[q(theta)] - KL(a) - KL(b) - KL(1/sigma^2) - KL(alpha).
    """
    doc, n, y = block.document, block.n, block.y
    importance = latent_importance(f.location, block.observed, f.log_c)
    z, r, log_z = importance.mean, importance.keyword, importance.log_norm
    axes = block.to_axes(f.theta)
    sum_theta, square, g = _theta_moments(block, f.curvature, f.precision, f.theta, axes)
    m = f.a[doc] + f.b[doc] * f.theta
    first, second = prior.alpha_1 + f.hidden, prior.alpha_2 + block.seen
    log_alpha = digamma(first) - digamma(first + second)
    log_rest = digamma(second) - digamma(first + second)
    log_alpha, log_rest = log_alpha[doc], log_rest[doc]
    words = z * (m - f.location) + 0.5 * f.location**2 + log_z
    words += (1.0 - y) * r * (log_alpha - f.log_c) + y * log_rest
    linear = n * (f.a_var + f.a**2) + 2.0 * f.a * f.b * sum_theta + (f.b**2 + f.b_var) * square
    shape = prior.tau + 0.5 * n
    spread = f.curvature[doc] + f.precision[doc] * block.stiffness
    theta = block.total(np.log(block.spectrum.values) - 0.5 * np.log(spread))
    theta += 0.5 * n * (1.0 + digamma(shape) - np.log(f.rate)) - shape / f.rate * g
    alpha = Beta(first, second).kl(Beta(np.asarray(prior.alpha_1), np.asarray(prior.alpha_2)))
    noise = Gamma(np.asarray(prior.tau), np.asarray(prior.tau))
    return (
        block.total(words)
        - 0.5 * linear
        + theta
        - Normal(f.a, 1.0 / f.a_var).kl(_centred(prior.var_a))
        - Normal(f.b, 1.0 / f.b_var).kl(_centred(prior.var_b))
        - Gamma(shape, f.rate).kl(noise)
        - alpha
    )


def _centred(variance: float) -> Normal:
    return Normal(np.asarray(0.0), np.asarray(1.0 / variance))


_BY_WORD = ("location", "log_c", "theta")


def take(f: Factors, documents: slice, words: slice) -> Factors:
    """Return the factors of consecutive documents, as copies."""
    return Factors(
        **{
            x.name: getattr(f, x.name)[words if x.name in _BY_WORD else documents].copy()
            for x in fields(f)
        }
    )


def join(parts: list[Factors]) -> Factors:
    """Return the factors of consecutive blocks as one; of no block, those of no document."""
    kinds = {"settled": np.bool_, "sweeps": np.int64}
    return Factors(
        **{
            x.name: np.concatenate(
                [
                    np.empty(0, dtype=kinds.get(x.name, np.float64)),
                    *(getattr(p, x.name) for p in parts),
                ]
            )
            for x in fields(Factors)
        }
    )


def choose(block: Block, first: BoolArray, one: Factors, other: Factors) -> Factors:
    """Return ``one`` for the documents where ``first`` [D] holds, ``other`` elsewhere."""
    words = first[block.document]
    return Factors(
        **{
            x.name: np.where(
                words if x.name in _BY_WORD else first,
                getattr(one, x.name),
                getattr(other, x.name),
            )
            for x in fields(one)
        }
    )


def mark_converged(block: Block, before: Factors, after: Factors, tolerance: float) -> Factors:
    """Mark the documents whose sweep from ``before`` to ``after`` moved nothing (section 1.3.4).

    What is watched: the location of every z, the slope, and ln rate; the last two because
    b theta can stay while b and theta move.
    """
    moved = np.zeros(len(block.n))
    np.maximum.at(moved, block.document, np.abs(after.location - before.location))
    moved = np.maximum(moved, np.abs(after.b - before.b))
    moved = np.maximum(moved, np.abs(np.log(after.rate / before.rate)))
    return replace(after, settled=before.settled | (moved <= tolerance))


def cycle(block: Block, prior: Prior, f: Factors, tolerance: float) -> Factors:
    """Make two sweeps, leap along their differences, and sweep once more.

    SQUAREM, scheme S3 of Varadhan and Roland (2008), in the coordinates that a sweep starts
    from: x = (a, b, ln var b, ln rate, ln hidden, theta). With r = x1 - x0 and
    v = (x2 - x1) - r the leap goes to x0 + 2 s r + s^2 v, s = |r|/|v| but no longer than the
    document's present stride. Where the bound is then lower than after the two sweeps, or not
    finite, the document stays where they led: its bound never falls. A document whose second
    sweep moved no more than ``tolerance`` has converged; see `mark_converged`.
    """
    first = sweep(block, prior, f)
    second = mark_converged(block, first, sweep(block, prior, first), tolerance)
    start, leap = _leap(block, f, first, second)
    leapt = sweep(block, prior, start)
    with np.errstate(invalid="ignore"):
        better = bound(block, prior, leapt) >= bound(block, prior, second)
    stride = np.where(leap >= f.stride, SHRINK * f.stride, f.stride)
    refused = np.maximum(1.0, f.stride / SHRINK)
    done = choose(block, better, leapt, second)
    return replace(done, stride=np.where(better, stride, refused), sweeps=leapt.sweeps)


def _leap(block: Block, f0: Factors, f1: Factors, f2: Factors) -> tuple[Factors, FloatArray]:
    """Return ``f2`` moved to the point that the three extrapolate to, and s [D]."""
    x0, x1, x2 = (_coordinates(block, f) for f in (f0, f1, f2))
    r = [q - p for p, q in zip(x0, x1, strict=True)]
    v = [(q - p) - d for p, q, d in zip(x1, x2, r, strict=True)]
    length, norm = _square(block, r), _square(block, v)
    ratio = np.divide(length, norm, out=np.ones_like(norm), where=norm > 0.0)
    stride = np.clip(np.sqrt(ratio), 1.0, f2.stride)
    x = [
        p + 2.0 * s * d + s**2 * e
        for p, d, e in zip(x0, r, v, strict=True)
        for s in [stride if len(p) == len(stride) else stride[block.document]]
    ]
    a, b, b_var, rate, hidden, theta = x
    # A leap of more than e^20 is no extrapolation; the guard would refuse it anyway.
    b_var, rate, hidden = (np.exp(np.clip(u, -60.0, 60.0)) for u in (b_var, rate, hidden))
    return replace(f2, a=a, b=b, b_var=b_var, rate=rate, hidden=hidden, theta=theta), stride


def _coordinates(block: Block, f: Factors) -> list[FloatArray]:
    # Where every word is observed nothing is hidden, whose logarithm must not spread.
    hidden = np.log(np.maximum(f.hidden, TINY))
    return [f.a, f.b, np.log(f.b_var), np.log(f.rate), hidden, f.theta]


def _square(block: Block, x: list[FloatArray]) -> FloatArray:
    """Sum of squares over each document's coordinates [D]."""
    total = np.zeros(len(block.n))
    for u in x:
        total += u**2 if len(u) == len(total) else block.total(u**2)
    return total
