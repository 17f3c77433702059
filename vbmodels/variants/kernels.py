# mypy: disable-error-code="misc,no-untyped-call,no-untyped-def,untyped-decorator"
"""Compiled forms of the two-groups table and pass; `two_groups` holds their NumPy reference."""

from __future__ import annotations

import math

import numpy as np
from numba import njit

_TAIL = 18.0
_BROAD = 0.1
_WIDTH = 0.7
_NEGLIGIBLE = 30.0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def stirling(z):
    """Return lgamma(z) - (z - 1/2) log z + z - log(2 pi)/2, for z >= 10 to 1e-15."""
    w = 1.0 / (z * z)
    return (1 / 12.0 - w * (1 / 360.0 - w * (1 / 1260.0 - w * (1 / 1680.0 - w / 1188.0)))) / z


@njit(cache=True, nogil=True, error_model="numpy")
def log_gamma(z):
    """Return lgamma(z) - log(2 pi)/2 for z > 0."""
    product = 1.0
    while z < 10.0:
        product *= z
        z += 1.0
    value = (z - 0.5) * math.log(z) - z + stirling(z)
    return value if product == 1.0 else value - math.log(product)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _log_rising(a, log_gamma_a, r):
    """Return lgamma(a + r) - lgamma(a) for a > 0 and a whole r >= 0, given `log_gamma` (a)."""
    if r == 0:
        return 0.0
    if r <= 12:
        product = a
        for i in range(1, r):
            product *= a + i
        return math.log(product)
    return log_gamma(a + r) - log_gamma_a


@njit(cache=True, nogil=True, error_model="numpy")
def log_rising(a, r):
    """Return lgamma(a + r) - lgamma(a) for a > 0 and a whole r >= 0."""
    return _log_rising(a, log_gamma(a) if r > 12 else 0.0, r)


@njit(cache=True, nogil=True, error_model="numpy")
def polygammas(z):
    """Return psi(z) and psi'(z) for z > 0, by recurrence to z >= 8 and asymptotic series."""
    psi = 0.0
    tri = 0.0
    while z < 8.0:
        inverse = 1.0 / z
        psi -= inverse
        tri += inverse * inverse
        z += 1.0
    v = 1.0 / z
    w = v * v
    psi += (
        math.log(z)
        - 0.5 * v
        - w
        * (
            1 / 12.0
            - w
            * (
                1 / 120.0
                - w * (1 / 252.0 - w * (1 / 240.0 - w * (1 / 132.0 - w * (691 / 32760.0))))
            )
        )
    )
    series = 1 / 6.0 - w * (
        1 / 30.0
        - w * (1 / 42.0 - w * (1 / 30.0 - w * (5 / 66.0 - w * (691 / 2730.0 - w * (7 / 6.0)))))
    )
    return psi, tri + v * (1.0 + 0.5 * v + w * series)


@njit(cache=True, nogil=True, error_model="numpy")
def _centre(r, n, member, m, start):
    """Return mode and scale in x of one sample's likelihood times sqrt(mu (1-mu))."""
    x = start
    curvature = -1.0
    for _ in range(12):
        mu = 1.0 / (1.0 + math.exp(-x))
        nu = 1.0 / (1.0 + math.exp(x))
        a = m * mu
        b = m * nu
        slope = 0.0
        bend = 0.0
        psi_a, tri_a = polygammas(a)
        psi_b, tri_b = polygammas(b)
        for i in range(r.shape[0]):
            if member[i] and n[i] > 0:
                psi, tri = polygammas(b + (n[i] - r[i]))
                slope += psi_b - psi
                bend += tri - tri_b
                if r[i] > 0:
                    psi, tri = polygammas(a + r[i])
                    slope += psi - psi_a
                    bend += tri - tri_a
        u = mu * nu
        slope *= m
        curvature = u * u * m * m * bend + u * (nu - mu) * slope - u
        stiff = max(-curvature, 0.1)
        step = (u * slope + 0.5 * (nu - mu)) / stiff
        step = min(max(step, -2.0), 2.0)
        x += step
        if abs(step) <= 0.05 / math.sqrt(stiff):
            break
    return x, 1.0 / math.sqrt(max(-curvature, 0.1))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _stretch(x, centres, scales):
    """Return t(x), dt/dx and d2t/dx2 of `quadrature.stretch`, with one logarithm."""
    product = 1.0
    density = 0.0
    bend = 0.0
    for i in range(centres.shape[0]):
        y = x - centres[i]
        s = math.sqrt(scales[i] * scales[i] + y * y)
        if y >= 0.0:
            product *= (y + s) / scales[i]
        else:
            product *= scales[i] / (s - y)
        density += 1.0 / s
        bend -= y / (s * s * s)
    return math.log(product), density, bend


@njit(cache=True, nogil=True, error_model="numpy")
def _nodes(centres, scales, low, high, x, log_weight):
    size = x.shape[0]
    t_low = _stretch(low, centres, scales)[0]
    step = (_stretch(high, centres, scales)[0] - t_low) / (size - 1)
    at = low
    density = _stretch(at, centres, scales)[1]
    for k in range(size):
        target = t_low + step * k
        if k > 0:
            # Midpoint prediction, then Halley with the bracket [previous node, high].
            middle = _stretch(at + 0.5 * step / density, centres, scales)[1]
            below = at
            above = high
            at = min(at + step / middle, high)
            for _ in range(60):
                t, density, bend = _stretch(at, centres, scales)
                miss = t - target
                if miss < 0.0:
                    below = at
                else:
                    above = at
                ratio = miss / density
                move = ratio / max(1.0 - 0.5 * ratio * bend / density, 0.3)
                at -= move
                if abs(miss) < 1e-4:
                    # Halley's error is the third power: no need to look again.
                    density -= bend * move
                    break
                if not (below <= at <= above):
                    at = 0.5 * (below + above)
        x[k] = at
        log_weight[k] = math.log(step / density)


@njit(cache=True, nogil=True, error_model="numpy")
def tabulate(r, n, case, m_nodes, anchor_x, anchor_scale, x, log_weight, log_case, log_control):
    """Fill nodes, log weights and log likelihoods; see `two_groups.tabulate_reference`.

    ``r`` and ``n`` are [U, R], ``m_nodes`` [Q], the anchors [U], the four tables [U, Q, K].
    """
    n_units, n_replicates = r.shape
    n_m, size = x.shape[1], x.shape[2]
    every = np.ones(n_replicates, dtype=np.bool_)
    control = ~case
    centres = np.empty(4)
    scales = np.empty(4)
    for u in range(n_units):
        hits_case = hits_control = rest_case = rest_control = 0
        r_case = n_case = r_control = n_control = 0.0
        for i in range(n_replicates):
            if case[i]:
                r_case += r[u, i]
                n_case += n[u, i]
                hits_case += r[u, i] > 0
                rest_case += n[u, i] > r[u, i]
            else:
                r_control += r[u, i]
                n_control += n[u, i]
                hits_control += r[u, i] > 0
                rest_control += n[u, i] > r[u, i]
        at_case = math.log((r_case + 0.5) / (n_case - r_case + 0.5))
        at_control = math.log((r_control + 0.5) / (n_control - r_control + 0.5))
        r_all, n_all = r_case + r_control, n_case + n_control
        at_all = math.log((r_all + 0.5) / (n_all - r_all + 0.5))
        most = r[u].max()
        hits = hits_case + hits_control
        rest = rest_case + rest_control
        for q in range(n_m - 1, -1, -1):
            m = m_nodes[q]
            at_case, c_case = _centre(r[u], n[u], case, m, at_case)
            at_control, c_control = _centre(r[u], n[u], control, m, at_control)
            at_all, c_all = _centre(r[u], n[u], every, m, at_all)
            centres[0], centres[1], centres[2] = at_case, at_control, at_all
            centres[3] = anchor_x[u]
            scales[0], scales[1], scales[2] = c_case, c_control, c_all
            scales[3] = anchor_scale[u]
            low = min(
                at_case - _TAIL / (_BROAD + hits_case) - 3.0 * c_case,
                at_control - _TAIL / (_BROAD + hits_control) - 3.0 * c_control,
                at_all - _TAIL / (_BROAD + hits) - 3.0 * c_all,
            )
            high = max(
                at_case + _TAIL / (_BROAD + rest_case) + 3.0 * c_case,
                at_control + _TAIL / (_BROAD + rest_control) + 3.0 * c_control,
                at_all + _TAIL / (_BROAD + rest) + 3.0 * c_all,
            )
            for i in range(4):
                scales[i] *= _WIDTH
            _nodes(centres, scales, low, high, x[u, q], log_weight[u, q])
            base_case = base_control = 0.0
            for i in range(n_replicates):
                if case[i]:
                    base_case -= log_rising(m, n[u, i])
                else:
                    base_control -= log_rising(m, n[u, i])
            for k in range(size):
                e = math.exp(-abs(x[u, q, k]))
                small = m * (e / (1.0 + e))
                large = m / (1.0 + e)
                a = large if x[u, q, k] >= 0.0 else small
                b = small if x[u, q, k] >= 0.0 else large
                total_case = base_case
                total_control = base_control
                gamma_a = log_gamma(a) if most > 12 else 0.0
                gamma_b = log_gamma(b)
                for i in range(n_replicates):
                    value = _log_rising(a, gamma_a, r[u, i])
                    value += _log_rising(b, gamma_b, n[u, i] - r[u, i])
                    if case[i]:
                        total_case += value
                    else:
                        total_control += value
                log_case[u, q, k] = total_case
                log_control[u, q, k] = total_control


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _survival_place(x, n):
    """Return index and fraction of u = asinh(x / 2) in a table of ``n`` nodes."""
    place = (math.asinh(0.5 * x) + 6.0) * ((n - 1) / 12.0)
    place = min(max(place, 0.0), n - 1.000001)
    i = int(place)
    return i, place - i


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _hermite(i, f, table):
    """Cubic Hermite interpolation between nodes i and i + 1; ``table`` is [2, n]: value, slope."""
    step = 12.0 / (table.shape[1] - 1)
    v0, v1 = table[0, i], table[0, i + 1]
    s0, s1 = table[1, i] * step, table[1, i + 1] * step
    return (
        v0
        + f * s0
        + f * f * (3.0 * (v1 - v0) - 2.0 * s0 - s1)
        + f * f * f * (2.0 * (v0 - v1) + s0 + s1)
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _above(g, backward, place, fraction, survival, above, c):
    """Fill above[c] with the integral of g[c] above every node over its cut S_c there."""
    size = g.shape[1]
    for k in range(size):
        above[c, k] = 0.0
    for j in range(size):
        weight = g[c, j]
        if weight > 0.0:
            # Adding rows, not summing products: the compiler can do several k at a time.
            row = backward[size - 1 - j : 2 * size - 1 - j]
            for k in range(size):
                above[c, k] += weight * row[k]
    rest = 0.0
    for k in range(size - 1, -1, -1):
        # Deep in the tail the sinc rule is noise: the trapezoid has the size.
        coarse = rest + 0.5 * g[c, k]
        total = min(max(above[c, k], 0.05 * coarse), 1.5 * coarse)
        rest += g[c, k]
        log_cut = _hermite(place[k], fraction[k], survival[c])
        above[c, k] = total * math.exp(-log_cut) if total > 0.0 else 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def reweigh(
    x,
    log_weight,
    log_case,
    log_control,
    kind,
    log_pi,
    log_not_pi,
    log_w,
    log_not_w,
    log_p,
    log_m,
    e_beta,
    alternatives,
    survival,
    restricted,
    cumulative,
    log_m0,
    log_m1,
    sums,
):
    """One pass over a table: log m0 and log m1 of every unit, and the sums of the EM.

    Parameters are those of `two_groups.reweigh_reference`; ``sums`` [6 + n_alt - 1 + 36] is
    filled with (log marginal, units, sum w, sum log M, sum log^2 M, sum z by alternative,
    then weight, sum log mu and sum log (1-mu) for each of 12 types).
    """
    n_units, n_m, size = x.shape
    n_alt = alternatives.shape[0]
    spike0 = np.empty(size)
    broad0 = np.empty(size)
    spike1 = np.empty(size)
    broad1 = np.empty(size)
    lmu = np.empty(size)
    lnu = np.empty(size)
    of_case = np.empty(size)
    above = np.empty((n_alt, size))
    g = np.empty((n_alt, size))
    place = np.empty(size, np.int64)
    fraction = np.empty(size)
    backward = cumulative[::-1].copy()
    # By node of M: H0 then H1; spike mass, broad mass, spike log mu, spike log(1-mu), offset.
    part = np.empty((n_m, 2, 5))
    z_alt = np.empty((n_m, n_alt))
    first_kind = 5 + n_alt
    for u in range(n_units):
        t = kind[u]
        a, b, log_b = e_beta[0, t], e_beta[1, t], e_beta[2, t]
        for q in range(n_m):
            top0 = -np.inf
            top1 = -np.inf
            top_g = -np.inf
            for k in range(size):
                at = x[u, q, k]
                soft = math.log1p(math.exp(-abs(at)))
                lmu[k] = -soft if at >= 0.0 else at - soft
                lnu[k] = -at - soft if at >= 0.0 else -soft
                base = log_weight[u, q, k] + log_control[u, q, k]
                lc = log_case[u, q, k]
                s = base + log_not_w + a * lmu[k] + b * lnu[k] - log_b
                d = base + log_w + alternatives[0, 0] * (lmu[k] + lnu[k]) - alternatives[0, 2]
                spike1[k] = s
                broad1[k] = d
                spike0[k] = s + lc
                broad0[k] = d + lc
                top1 = max(top1, s, d)
                top0 = max(top0, s + lc, d + lc)
                of_case[k] = log_weight[u, q, k] + lc
            for c in range(n_alt):
                alt_a, alt_b = alternatives[c, 0], alternatives[c, 1]
                shift = alternatives[c, 3] - alternatives[c, 2]
                for k in range(size):
                    g[c, k] = of_case[k] + alt_a * lmu[k] + alt_b * lnu[k] + shift
                for k in range(size):
                    top_g = max(top_g, g[c, k])
            for k in range(size):
                spike1[k] = math.exp(spike1[k] - top1)
                broad1[k] = math.exp(broad1[k] - top1)
                spike0[k] = math.exp(spike0[k] - top0)
                broad0[k] = math.exp(broad0[k] - top0)
                if restricted:
                    place[k], fraction[k] = _survival_place(x[u, q, k], survival.shape[2])
            for c in range(n_alt):
                # A peak's tails lie below the broad component's, which is never cut off.
                least = -_NEGLIGIBLE if c else -np.inf
                total = 0.0
                for k in range(size):
                    off = g[c, k] - top_g
                    g[c, k] = math.exp(off) if off > least else 0.0
                    total += g[c, k]
                if restricted and total > 0.0:
                    _above(g, backward, place, fraction, survival, above, c)
                else:
                    for k in range(size):
                        above[c, k] = total
            for v in range(5):
                part[q, 0, v] = 0.0
                part[q, 1, v] = 0.0
            tails = above[0]
            for c in range(n_alt):
                total = 0.0
                for k in range(size):
                    total += (spike1[k] + broad1[k]) * above[c, k]
                z_alt[q, c] = total
                if c > 0:
                    for k in range(size):
                        tails[k] += above[c, k]
            for k in range(size):
                tail = tails[k]
                s0 = spike0[k]
                s1 = spike1[k] * tail
                part[q, 0, 0] += s0
                part[q, 0, 1] += broad0[k]
                part[q, 0, 2] += s0 * lmu[k]
                part[q, 0, 3] += s0 * lnu[k]
                part[q, 1, 0] += s1
                part[q, 1, 1] += broad1[k] * tail
                part[q, 1, 2] += s1 * lmu[k]
                part[q, 1, 3] += s1 * lnu[k]
            part[q, 0, 4] = log_p[q] + top0
            part[q, 1, 4] = log_p[q] + top1 + top_g
        top0 = part[:, 0, 4].max()
        top1 = part[:, 1, 4].max()
        sum0 = 0.0
        sum1 = 0.0
        for q in range(n_m):
            sum0 += math.exp(part[q, 0, 4] - top0) * (part[q, 0, 0] + part[q, 0, 1])
            sum1 += math.exp(part[q, 1, 4] - top1) * (part[q, 1, 0] + part[q, 1, 1])
        log_m0[u] = top0 + math.log(sum0)
        log_m1[u] = top1 + math.log(sum1) if sum1 > 0.0 else -np.inf
        f0 = log_not_pi + log_m0[u]
        f1 = log_pi + log_m1[u]
        top = max(f0, f1)
        total = top + math.log(math.exp(f0 - top) + math.exp(f1 - top))
        sums[0] += total
        sums[1] += 1.0
        for q in range(n_m):
            w0 = math.exp(part[q, 0, 4] + log_not_pi - total)
            w1 = math.exp(part[q, 1, 4] + log_pi - total)
            node = w0 * (part[q, 0, 0] + part[q, 0, 1]) + w1 * (part[q, 1, 0] + part[q, 1, 1])
            sums[2] += w0 * part[q, 0, 1] + w1 * part[q, 1, 1]
            sums[3] += node * log_m[q]
            sums[4] += node * log_m[q] * log_m[q]
            for c in range(n_alt):
                sums[5 + c] += w1 * z_alt[q, c]
            for v in range(3):
                source = 0 if v == 0 else v + 1
                sums[first_kind + 3 * t + v] += w0 * part[q, 0, source] + w1 * part[q, 1, source]


@njit(cache=True, nogil=True, error_model="numpy")
def _mixture_cdf(at, x, cdf, density):
    total = 0.0
    n_m, size = x.shape
    for q in range(n_m):
        if at <= x[q, 0]:
            continue
        if at >= x[q, size - 1]:
            total += cdf[q, size - 1]
            continue
        low, high = 0, size - 1
        while high - low > 1:
            middle = (low + high) // 2
            if x[q, middle] <= at:
                low = middle
            else:
                high = middle
        width = x[q, high] - x[q, low]
        f = (at - x[q, low]) / width
        v0, v1 = cdf[q, low], cdf[q, high]
        s0, s1 = density[q, low] * width, density[q, high] * width
        value = (
            v0
            + f * s0
            + f * f * (3.0 * (v1 - v0) - 2.0 * s0 - s1)
            + f * f * f * (2.0 * (v0 - v1) + s0 + s1)
        )
        total += min(max(value, v0), v1)
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def mixture_quantiles(x, cdf, density, levels, result):
    """Fill quantiles [U, L] of x from CDFs on nodes; see `posterior.mixture_quantiles`."""
    n_units = x.shape[0]
    for u in range(n_units):
        for i in range(levels.shape[0]):
            low, high = x[u, :, 0].min(), x[u, :, -1].max()
            target = levels[i] * cdf[u, :, -1].sum()
            f_low = -target
            f_high = cdf[u, :, -1].sum() - target
            side = 0
            for _ in range(100):
                # Illinois, with a bisection every fourth step: tails are hundreds long.
                if _ % 4 == 3:
                    at = 0.5 * (low + high)
                else:
                    at = low - f_low * (high - low) / (f_high - f_low)
                value = _mixture_cdf(at, x[u], cdf[u], density[u]) - target
                if value <= 0.0:
                    low, f_low = at, value
                    if side == -1:
                        f_high *= 0.5
                    side = -1
                else:
                    high, f_high = at, value
                    if side == 1:
                        f_low *= 0.5
                    side = 1
                if abs(value) < 1e-7 or high - low < 1e-7:
                    break
            result[u, i] = at
