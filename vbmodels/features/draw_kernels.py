"""Compiled draws, each on a stream of its own row: no result depends on how rows are cut.

Streams are SplitMix64 (Steele, Lea and Flood 2014) from a key that hashes seed, iteration,
chain and row number. The reference for `draw_omega` is
`reproduce.polya_gamma.draw_polya_gamma`; for `draw_features` it is the plain conditional
in the tests.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from vbmodels.core.draws import FIRST, GOLDEN, SECOND
from vbmodels.core.state import FloatArray

Keys = NDArray[np.uint64]
LARGEST_PSI = 600.0
LARGEST_PRODUCT = 1e40
"""A product beyond this is taken to the sum of logarithms: one more factor is still finite."""
ROWS = 256
"""Rows whose log-odds are worked out at once."""
_CUT = 0.64
_SHARES_A_UNIT, _LARGEST_TABLED = 256, 16
"""Entries of a table for each unit of z, and the largest z in it."""
_TABLE_ERROR = 1e-5
"""A linear step between entries is off by less."""
_QUICK = 0.994
"""Below 1 - 3 exp(-4 / CUT) and 1 - 3 exp(-pi^2 CUT): the first two terms of the series accept."""
_U64: Any = np.uint64


@njit(inline="always")
def _mixed(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> _U64(30))) * FIRST
    x = (x ^ (x >> _U64(27))) * SECOND
    return x ^ (x >> _U64(31))


@njit(inline="always")
def _uniform(state):  # type: ignore[no-untyped-def]
    """Advance a stream and return a number in (0, 1)."""
    state[0] += GOLDEN
    return (float(_mixed(state[0]) >> _U64(11)) + 0.5) * (1.0 / 9007199254740992.0)


@njit(cache=True)
def _keys(row_id, words):  # type: ignore[no-untyped-def]
    keys = np.empty(len(row_id), np.uint64)
    for n in range(len(row_id)):
        key = _mixed(_U64(row_id[n]) + GOLDEN)
        for word in words:
            key = _mixed((key ^ word) + GOLDEN)
        keys[n] = key
    return keys


def row_keys(row_id: NDArray[np.int64], *words: int) -> Keys:
    """Return the key of each row's stream for some integers (seed, iteration, chain ...); [N]."""
    return np.asarray(_keys(row_id, np.array([w % 2**64 for w in words], dtype=np.uint64)))


@njit(cache=True)
def _log_product(ratio, step, count):  # type: ignore[no-untyped-def]
    """Return the sum of log(1 + ratio step) over the first units, in four running products.

    ``count`` is a multiple of four; units that fill it up have the ratio 0.
    """
    total, a, b, c, d = 0.0, 1.0, 1.0, 1.0, 1.0
    for i in range(0, count, 4):
        a *= 1.0 + ratio[i] * step[i]
        b *= 1.0 + ratio[i + 1] * step[i + 1]
        c *= 1.0 + ratio[i + 2] * step[i + 2]
        d *= 1.0 + ratio[i + 3] * step[i + 3]
        if max(max(a, b), max(c, d)) > LARGEST_PRODUCT:
            total += math.log(a) + math.log(b) + math.log(c) + math.log(d)
            a = b = c = d = 1.0
    # None of the four is beyond `LARGEST_PRODUCT`: their product is finite.
    return total + math.log((a * b) * (c * d))


@njit(cache=True)
def _draw_features(sign, ratio, weights, log_odds, z, chance, keys):  # type: ignore[no-untyped-def]
    n_rows, n_units = sign.shape
    k_all = z.shape[1]
    # exp(-s psi) after a feature has been switched: by its state before, and s of each unit.
    steps = np.empty((k_all, 2, 2 * n_units))
    for k in range(k_all):
        for j in range(n_units):
            up, down = math.exp(weights[j, k + 1]), math.exp(-weights[j, k + 1])
            steps[k, 0, j] = steps[k, 1, n_units + j] = up
            steps[k, 1, j] = steps[k, 0, n_units + j] = down
    own, step, ones = np.empty(n_units + 4), np.ones(n_units + 4), np.ones(n_units + 4)
    place = np.empty(n_units + 4, np.int64)
    state = np.empty(1, np.uint64)
    for n in range(n_rows):
        state[0] = keys[n]
        count = 0
        for j in range(n_units):
            # What has no answer is overwritten by the next that has one.
            place[count] = n_units + j if sign[n, j] > 0 else j
            own[count] = ratio[n, j]
            count += int(sign[n, j] != 0)
        while count % 4:
            place[count], own[count] = 0, 0.0
            count += 1
        present = _log_product(own, ones, count)
        for k in range(k_all):
            was = z[n, k] != 0
            switch = steps[k, int(was)]
            for i in range(count):
                step[i] = switch[place[i]]
            switched = _log_product(own, step, count)
            total = present - switched
            logit = log_odds[k] + (-total if was else total)
            chance[n, k] = 1.0 / (1.0 + math.exp(-min(max(logit, -LARGEST_PSI), LARGEST_PSI)))
            now = _uniform(state) < chance[n, k]
            if now != was:
                for i in range(count):
                    own[i] *= step[i]
                present = switched
                z[n, k] = now


def draw_features(
    sign: NDArray[np.int8],
    weights: FloatArray,
    log_odds: FloatArray,
    z: NDArray[np.int8],
    keys: Keys,
) -> FloatArray:
    """Draw z_n1, ..., z_nK in turn given the weights, omega summed out; z moves in place.

    Parameters
    ----------
    sign
        [N, J] answers.
    weights
        [J, K + 1] biases and weights; |psi| up to `LARGEST_PSI` and |weight| up to 80 are exact.
    log_odds
        [K] log(pi_k / (1 - pi_k)).
    z
        [N, K] the features before and after.
    keys
        [N] streams.

    Returns
    -------
    chance
        [N, K] the probability that each z_nk was drawn with.
    """
    chance = np.empty(z.shape)
    for start in range(0, len(z), ROWS):
        rows = slice(start, start + ROWS)
        psi = weights[:, 0] + z[rows] @ weights[:, 1:].T
        psi *= -sign[rows]
        ratio = np.exp(np.clip(psi, -LARGEST_PSI, LARGEST_PSI, out=psi))
        _draw_features(sign[rows], ratio, weights, log_odds, z[rows], chance[rows], keys[rows])
    return chance


@njit(inline="always")
def _log_ndtr(x):  # type: ignore[no-untyped-def]
    if x > -30.0:
        return math.log(0.5 * math.erfc(-x * math.sqrt(0.5)))
    s = 1.0 / (x * x)
    tail = math.log1p(-s * (1.0 - 3.0 * s * (1.0 - 5.0 * s)))
    return -0.5 * x * x - math.log(-x) - 0.5 * math.log(2.0 * math.pi) + tail


@njit(inline="always")
def _short(z, state):  # type: ignore[no-untyped-def]
    """Draw from the inverse Gaussian with mean 1/z and shape 1, given x < CUT."""
    if z < 1.0 / _CUT:
        while True:
            e = -math.log(_uniform(state))
            bar = -math.log(_uniform(state))
            if e * e > 2.0 * bar / _CUT:
                continue
            root = 1.0 + _CUT * e
            x = _CUT / (root * root)
            if _uniform(state) <= math.exp(-0.5 * z * z * x):
                return x
    mu = 1.0 / z
    while True:
        radius = -2.0 * math.log(_uniform(state))
        cosine = math.cos(2.0 * math.pi * _uniform(state))
        y = radius * (cosine * cosine)
        half = 0.5 * mu * y
        # mu (1 + half - sqrt(half (2 + half))), without cancellation.
        x = mu / (1.0 + half + math.sqrt(half * (2.0 + half)))
        if _uniform(state) * (mu + x) > mu:
            x = mu * mu / x
        if x < _CUT:
            return x


@njit(inline="always")
def _term(n, x):  # type: ignore[no-untyped-def]
    k = n + 0.5
    if x <= _CUT:
        return math.pi * k * math.pow(2.0 / (math.pi * x), 1.5) * math.exp(-2.0 * k * k / x)
    return math.pi * k * math.exp(-0.5 * k * k * math.pi * math.pi * x)


@njit
def _beyond(z):  # type: ignore[no-untyped-def]
    """Return the share of the proposals at psi = 2 z that are beyond the cut."""
    rate = math.pi * math.pi / 8.0 + 0.5 * z * z
    root = 1.0 / math.sqrt(_CUT)
    # log of 2 exp(-z) P(inverse Gaussian < CUT) and of the exponential's mass beyond it.
    near = _log_ndtr(root * (_CUT * z - 1.0)) - z
    far = _log_ndtr(-root * (_CUT * z + 1.0)) + z
    left = 2.0 * (math.exp(near) + math.exp(far))
    right = math.pi / (2.0 * rate) * math.exp(-rate * _CUT)
    return right / (left + right)


@lru_cache(maxsize=1)
@njit(cache=True)
def _table_of_shares() -> FloatArray:
    """Return `_beyond` at 0, 1/256, ..., from which most draws are decided."""
    found = np.empty(_LARGEST_TABLED * _SHARES_A_UNIT + 2)
    for i in range(len(found)):
        found[i] = _beyond(i / _SHARES_A_UNIT)
    return found


@njit(inline="always")
def _is_beyond(u, z, table):  # type: ignore[no-untyped-def]
    """Whether u < _beyond(z): by its table where that decides."""
    if z < _LARGEST_TABLED:
        place = z * _SHARES_A_UNIT
        i = int(place)
        share = table[i] + (place - i) * (table[i + 1] - table[i])
        if abs(u - share) > _TABLE_ERROR:
            return u < share
    return u < _beyond(z)


@njit
def _omega(psi, state, table):  # type: ignore[no-untyped-def]
    z = 0.5 * abs(psi)
    while True:
        if _is_beyond(_uniform(state), z, table):
            rate = math.pi * math.pi / 8.0 + 0.5 * z * z
            x = _CUT - math.log(_uniform(state)) / rate
        else:
            x = _short(z, state)
        u = _uniform(state)
        if u < _QUICK:
            return 0.25 * x
        total = _term(0, x)
        level = u * total
        n = 0
        while True:
            n += 1
            if n % 2 == 1:
                total -= _term(n, x)
                if level <= total:
                    return 0.25 * x
            else:
                total += _term(n, x)
                if level > total:
                    break


@njit(cache=True)
def _draw_omega(psi, sign, keys, table, omega):  # type: ignore[no-untyped-def]
    state = np.empty(1, np.uint64)
    for n in range(len(psi)):
        state[0] = keys[n]
        for j in range(psi.shape[1]):
            omega[n, j] = _omega(psi[n, j], state, table) if sign[n, j] != 0 else 0.0


def draw_omega(psi: FloatArray, sign: NDArray[np.int8], keys: Keys) -> FloatArray:
    """Draw omega ~ PG(1, psi) where a unit has an answer, 0 elsewhere; [N, J].

    Polson, Scott and Windle (2013), section 4, after Devroye (2009).
    """
    omega = np.empty(psi.shape)
    _draw_omega(psi, sign, keys, _table_of_shares(), omega)
    return omega


@njit(cache=True)
def draw_uniform(keys: Keys, size: int) -> FloatArray:
    """Draw ``size`` numbers in (0, 1) from each stream; [N, size]."""
    found = np.empty((len(keys), size))
    state = np.empty(1, np.uint64)
    for n in range(len(keys)):
        state[0] = keys[n]
        for k in range(size):
            found[n, k] = _uniform(state)
    return found
