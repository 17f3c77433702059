"""The mutual angular prior of type II in coordinate ascent, with a bound that is one.

beta_k = g_k a_k with q(a_k) = vMF(mu_k, khat_k) and q(g_k) = Gamma(r_k, s_k) (eq. 2 and 9 of
the supplement of Xie, Zhu and Xing 2016). Prior: g_k ~ Gamma(alpha1, rate alpha2), and
p(a_i | a_<i) = exp(-kappa s_i'a_i) / Z(kappa |s_i|), s_i = sum_{j<i} a_j; a_1 is uniform.

Its Lemma 1 is no bound on log Z for p >= 18: the area of the sphere is below 1 there, and as
gamma goes to minus infinity the expression does too. Instead, log Z(c) is concave in c^2:

    E log Z(kappa |s_i|) <= log Z(kappa sqrt(E |s_i|^2)),
    E |s_i|^2 = (i - 1) + |sum_{j<i} m_j|^2 - sum_{j<i} |m_j|^2,   m_j = A_p(khat_j) mu_j.

As a function of m_k, E |s_i|^2 is linear, so a tangent of log Z in c^2 is again a bound and
the update of one expert cannot lower it: mu_k maximises l'u - u'Q u on the sphere, with
l = A_k (E g_k b_k + h_k), Q = E g_k^2 (1 - p A_k / khat_k) S_k and

    h_k = -kappa sum_{j != k} m_j - sum_{i>k} kappa^2 A_p(x_i) / x_i sum_{j<i, j != k} m_j,

x_i = kappa sqrt(E |s_i|^2); E g_k in closed form, r_k and khat_k by searches in one variable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, lgamma, log, pi, sqrt

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import brentq, minimize_scalar
from scipy.special import digamma, gammaln, ive, polygamma

from vbmodels.core.state import FloatArray, State
from vbmodels.experts.rows import Rows

# Below this a scaled Bessel function is near underflow and has lost digits.
_SMALLEST = 1e-280


def _debye_polynomials(count: int) -> list[Polynomial]:
    """U_0, U_1, ... of Abramowitz and Stegun 9.3.10:

    U_{k+1} = t^2 (1 - t^2) U_k' / 2 + (1/8) int_0^t (1 - 5 s^2) U_k(s) ds.
    """
    polynomials = [Polynomial([1.0])]
    for _ in range(count - 1):
        u = polynomials[-1]
        grown = Polynomial([0, 0, 0.5, 0, -0.5]) * u.deriv()
        polynomials.append(grown + (Polynomial([1, 0, -5]) * u).integ() / 8.0)
    return polynomials


_DEBYE = _debye_polynomials(9)


def log_bessel_over_power(order: float, x: FloatArray) -> FloatArray:
    """Return log(I_order(x) / x^order), finite also at x = 0; [...].

    The power series where x^2 <= 4 (order + 1) (its terms fall faster than 1/k!); SciPy's
    ``ive`` where that does not underflow; else Debye's expansion (Abramowitz and Stegun
    9.3.7), whose order is then above 100. Error at most 5e-13 relative for orders
    0 to 2500 and x up to 1e5.
    """
    x = np.asarray(x, dtype=np.float64)
    square = 0.25 * np.minimum(x * x, 4.0 * (order + 1.0))
    term = np.ones_like(x)
    series = np.zeros_like(x)
    for k in range(1, 25):
        term = term * square / (k * (order + k))
        series += term
    small = np.log1p(series) - order * log(2.0) - gammaln(order + 1.0)
    safe = np.maximum(x, 1e-3)
    scaled = ive(order, safe)
    exact = scaled >= _SMALLEST
    large = safe + np.log(np.where(exact, scaled, 1.0))
    if not exact.all() and order > 0:
        large = np.where(exact, large, _log_bessel_debye(order, safe))
    return np.where(x * x <= 4.0 * (order + 1.0), small, large - order * np.log(safe))


def _log_bessel_debye(order: float, x: FloatArray) -> FloatArray:
    z = x / order
    root = np.sqrt(1.0 + z * z)
    t = 1.0 / root
    eta = root + np.log(z / (1.0 + root))
    series = np.zeros_like(x)
    for k in range(len(_DEBYE) - 1, 0, -1):
        series = (series + _DEBYE[k](t)) / order
    result: FloatArray = (
        order * eta - 0.5 * (np.log(2.0 * pi * order) + np.log(root)) + np.log1p(series)
    )
    return result


def bessel_ratio(order: float, x: FloatArray) -> FloatArray:
    """Return I_{order+1}(x) / I_order(x); [...].

    The ratio of SciPy's ``ive`` where neither underflows; else the continued fraction
    r_n = x / (2 (order + n + 1) + x r_{n+1}), from Amos's (1974) bound at n = 60 down. Error
    at most 1e-12 relative for orders up to 2500 and x up to 1e5.
    """
    x = np.asarray(x, dtype=np.float64)
    top, bottom = ive(order + 1.0, x), ive(order, x)
    exact = top >= _SMALLEST
    result: FloatArray = np.divide(top, bottom, out=np.zeros_like(x), where=exact)
    if exact.all():
        return result
    last = order + 60.0
    ratio = x / (last + 1.0 + np.sqrt((last + 1.0) ** 2 + x * x))
    for n in range(59, -1, -1):
        ratio = x / (2.0 * (order + n + 1.0) + x * ratio)
    return np.where(exact, result, ratio)


def log_sphere_norm(dimension: int, concentration: FloatArray) -> FloatArray:
    """Return log of the integral of exp(concentration mu'x) over the unit sphere; [...].

    (p/2) log 2 pi + log I_{p/2-1}(k) - (p/2 - 1) log k: minus the log of C_p(k) of Xie, Zhu
    and Xing (2016).
    """
    order = 0.5 * dimension - 1.0
    return 0.5 * dimension * log(2.0 * pi) + log_bessel_over_power(order, concentration)


def mean_length(dimension: int, concentration: FloatArray) -> FloatArray:
    """Return A_p(k) = I_{p/2}(k) / I_{p/2-1}(k), the mean's length (eq I of the same); [...]."""
    return bessel_ratio(0.5 * dimension - 1.0, concentration)


def second_moment(direction: FloatArray, concentration: FloatArray) -> FloatArray:
    """Return E[x x'] = (A_p/k) I + (1 - p A_p/k) mu mu' (eqs II, 14), directions [..., p]."""
    p = direction.shape[-1]
    k = np.asarray(concentration, dtype=np.float64)
    safe = np.maximum(k, 1e-6)
    # At k = 0, A_p/k is 1/p; below 1e-6 the next term of its series is below rounding.
    across = np.where(k > 1e-6, mean_length(p, safe) / safe, 1.0 / p)[..., None, None]
    outer = direction[..., :, None] * direction[..., None, :]
    return np.asarray(across * np.eye(p) + (1.0 - p * across) * outer)


def sphere_maximum(linear: FloatArray, quadratic: FloatArray) -> FloatArray:
    """Return the unit u with the largest l'u - u'Q u, for a symmetric Q; [p].

    u = (Q + nu I)^-1 l / 2 with nu above minus the least eigenvalue of Q, where |u| = 1
    (Sorensen 1982). In the hard case, l orthogonal to the space of that eigenvalue and
    |u| < 1 there, the rest of u lies in that space.
    """
    values, vectors = np.linalg.eigh(quadratic)
    share = 0.5 * (vectors.T @ linear)
    gaps = values - values[0]
    size = float(np.linalg.norm(share))
    least = gaps <= 1e-12 * max(1.0, float(abs(values).max()))
    bottom = float(np.linalg.norm(share[least]))
    if size == 0.0:
        return np.asarray(vectors[:, 0], dtype=np.float64)

    def length(nu: float) -> float:
        return float(np.linalg.norm(share / (gaps + nu)))

    # |u| = 1 lies between bottom (its own term alone) and size (all gaps 0).
    low = max(bottom, 1e-14 * size)
    if length(low) < 1.0:
        u = np.where(least, 0.0, share / np.where(least, 1.0, gaps + low))
        missing = np.sqrt(max(0.0, 1.0 - float(u @ u)))
        # Towards what l has there, however little: where all eigenvalues are alike it is all of u.
        u[least] = share[least] * (missing / bottom) if bottom > 0.0 else 0.0
        if bottom == 0.0:
            u[0] = missing
    else:
        # At size itself |u| is 1 or less, but for rounding: then that is where it is 1.
        nu = size
        if length(size) < 1.0:
            nu = brentq(lambda v: 1.0 / length(v) - 1.0, low, size, xtol=1e-15 * size, rtol=1e-14)
        u = share / (gaps + nu)
    maximum: FloatArray = vectors @ u
    return maximum / np.linalg.norm(maximum)


@dataclass(frozen=True)
class Angular(State, kind="experts/bmem.Angular"):
    """Factors of K vectors g a: direction [K, p], concentration, shape and mean of g [K]."""

    direction: FloatArray
    concentration: FloatArray
    shape: FloatArray
    length: FloatArray

    @property
    def unit_mean(self) -> FloatArray:
        """m = E a; [K, p]."""
        return mean_length(self.direction.shape[-1], self.concentration)[:, None] * self.direction

    @property
    def mean(self) -> FloatArray:
        """E[g a]; [K, p]."""
        return self.length[:, None] * self.unit_mean

    @property
    def square(self) -> FloatArray:
        """E[g^2]; [K]."""
        return self.length**2 * (1.0 + 1.0 / self.shape)

    @property
    def second(self) -> FloatArray:
        """E[g^2 a a']; [K, p, p]."""
        return self.square[:, None, None] * second_moment(self.direction, self.concentration)

    @property
    def covariance(self) -> FloatArray:
        """Covariance of g a; [K, p, p]."""
        return self.second - self.mean[:, :, None] * self.mean[:, None, :]

    def along(self, batch: Rows) -> tuple[FloatArray, FloatArray]:
        """Return E v'x and E (v'x)^2 of every row (eq 14); [K, N] each."""
        p = self.direction.shape[1]
        across = mean_length(p, self.concentration) / self.concentration
        straight = batch.project(self.direction)
        square = batch.project_squares(np.ones((1, p)))
        spread = across[:, None] * square + (1.0 - p * across)[:, None] * straight**2
        return batch.project(self.mean), self.square[:, None] * spread


@dataclass(frozen=True)
class AngularPrior:
    """The prior of type II.

    Parameters
    ----------
    kappa
        Concentration; 0 leaves the directions independent and uniform.
    alpha1, alpha2
        Shape and rate of the lengths.
    """

    kappa: float = 10.0
    alpha1: float = 2.0
    alpha2: float = 0.5

    def start(self, k: int, columns: int, rng: np.random.Generator) -> Angular:
        """Begin in random directions."""
        direction = rng.standard_normal((k, columns))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return Angular(direction, np.full(k, 10.0 * columns), np.full(k, 10.0), np.full(k, 1.0))

    def update(self, old: Angular, linear: FloatArray, quadratic: FloatArray) -> Angular:
        """Raise the bound one vector at a time (section 2)."""
        q = old
        for k in range(len(linear)):
            s = quadratic[min(k, len(quadratic) - 1)]
            q = self._updated(q, k, linear[k], s)
        return q

    def divergence(self, q: Angular) -> float:
        """Return an upper bound on E_q[log q - log p] (eqs IV, V, 6, 7); exact for K <= 2."""
        p = q.direction.shape[1]
        m = q.unit_mean
        before = np.cumsum(m, axis=0) - m
        log_p = -self.kappa * float(np.sum(before * m))
        log_p -= float(np.sum(log_sphere_norm(p, self.kappa * np.sqrt(_squares(m)))))
        r, mean = q.shape, q.length
        mean_log = digamma(r) - np.log(r / mean)
        log_p += float(
            np.sum((self.alpha1 - 1.0) * mean_log - self.alpha2 * mean)
            + len(m) * (self.alpha1 * log(self.alpha2) - lgamma(self.alpha1))
        )
        a = mean_length(p, q.concentration)
        entropy = np.sum(log_sphere_norm(p, q.concentration) - q.concentration * a)
        entropy += np.sum(r - np.log(r / mean) + gammaln(r) + (1.0 - r) * digamma(r))
        return -float(entropy) - log_p

    def pull(self, m: FloatArray, k: int) -> FloatArray:
        """Return h_k; [p]."""
        p = m.shape[1]
        other = m.sum(0) - m[k]
        x = self.kappa * np.sqrt(_squares(m))
        bend = self.kappa**2 * mean_length(p, x) / np.maximum(x, 1e-12)
        before = np.cumsum(m, axis=0) - m - m[k]  # for i > k: sum over j < i without k
        return np.asarray(-self.kappa * other - bend[k + 1 :] @ before[k + 1 :])

    def _updated(self, q: Angular, k: int, b: FloatArray, s: FloatArray) -> Angular:
        p = b.size
        h = self.pull(q.unit_mean, k)
        khat, shape, length = (float(v[k]) for v in (q.concentration, q.shape, q.length))
        a = float(mean_length(p, np.array(khat)))
        square = length**2 * (1.0 + 1.0 / shape)
        mu = sphere_maximum(a * (length * b + h), square * (1.0 - p * a / khat) * s)
        along, trace = float(mu @ s @ mu), float(np.trace(s))
        c1 = a * float(mu @ b) - self.alpha2
        c2 = a / khat * trace + (1.0 - p * a / khat) * along
        shape, length = self._length(c1, c2, shape)
        square = length**2 * (1.0 + 1.0 / shape)
        towards = float(mu @ (length * b + h))

        def gain(log_khat: float) -> float:
            value = exp(log_khat)
            a = float(mean_length(p, np.array(value)))
            spread = a / value * trace + (1.0 - p * a / value) * along
            return (
                a * towards
                - square * spread
                - value * a
                + float(log_sphere_norm(p, np.array(value)))
            )

        def slope(log_khat: float) -> float:
            value = exp(log_khat)
            a = float(mean_length(p, np.array(value)))
            bend = 1.0 - a * a - (p - 1.0) / value * a  # dA_p/dk
            thinner = bend / value - a / value**2
            return value * (bend * (towards - value) - square * thinner * (trace - p * along))

        khat = exp(_best(gain, slope, log(khat), (log(1e-2), log(1e8))))
        return Angular(
            _with(q.direction, k, mu),
            _with(q.concentration, k, khat),
            _with(q.shape, k, shape),
            _with(q.length, k, length),
        )

    def _length(self, c1: float, c2: float, shape: float) -> tuple[float, float]:
        """Maximise c1 M - c2 M^2 (1 + 1/r) + E log p(g) + H(g) over r and the mean M."""

        def mean(r: float) -> float:
            curve = 4.0 * c2 * (1.0 + 1.0 / r)
            root = sqrt(c1 * c1 + 2.0 * curve * self.alpha1)
            # The root of curve/2 M^2 - c1 M - alpha1, without cancellation where c1 < 0.
            return (c1 + root) / curve if c1 > 0.0 else 2.0 * self.alpha1 / (root - c1)

        def gain(log_r: float) -> float:
            r = exp(log_r)
            m = mean(r)
            value = c1 * m - c2 * m * m * (1.0 + 1.0 / r) + self.alpha1 * log(m)
            value += (self.alpha1 - 1.0) * (float(digamma(r)) - log_r)
            return value + r - log_r + lgamma(r) + (1.0 - r) * float(digamma(r))

        def slope(log_r: float) -> float:
            r = exp(log_r)
            m = mean(r)
            spread = c2 * m * m / r + self.alpha1 * (r * float(polygamma(1, r)) - 1.0)
            return spread + r - r * r * float(polygamma(1, r))

        shape = exp(_best(gain, slope, log(shape), (log(1e-2), log(1e8))))
        return shape, mean(shape)


def _squares(m: FloatArray) -> FloatArray:
    """Return E |s_i|^2 for i = 1..K (in eq 6); [K]."""
    total = np.cumsum(m, axis=0) - m
    squares = np.einsum("kp,kp->k", m, m)
    rest = np.arange(len(m)) + np.einsum("kp,kp->k", total, total) - (np.cumsum(squares) - squares)
    return np.asarray(np.maximum(rest, 0.0))


def _with(values: FloatArray, k: int, value: float | FloatArray) -> FloatArray:
    changed = values.copy()
    changed[k] = value
    return changed


def _best(
    gain: Callable[[float], float],
    slope: Callable[[float], float],
    now: float,
    limits: tuple[float, float],
) -> float:
    """Return where a function of one variable is largest near ``now``; never worse than there.

    The values find it to the root of rounding at best; the slope's zero near it is exact.
    """
    for width in (1.0, 4.0, 30.0):
        low, high = max(limits[0], now - width), min(limits[1], now + width)
        best = float(
            minimize_scalar(
                lambda v: -gain(v), bounds=(low, high), method="bounded", options={"xatol": 1e-5}
            ).x
        )
        if min(best - low, high - best) > 0.02 * width:
            break
    low, high = best - 1e-3, best + 1e-3
    if slope(low) > 0.0 > slope(high):
        best = float(brentq(slope, low, high, xtol=1e-14))
    return best if gain(best) >= gain(now) - 1e-13 * max(1.0, abs(gain(now))) else now
