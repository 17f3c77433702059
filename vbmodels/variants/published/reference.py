"""RVD2's local step and sums in NumPy: the reference of the compiled forms."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, gammaln

from vbmodels.core.state import FloatArray, IntArray
from vbmodels.variants.published.objective import Derivatives, derivatives

LIMITS_LOG_M = (0.0, float(np.log(1e7)))


def sums_reference(
    r: IntArray,
    n: IntArray,
    points: FloatArray,
    prior: FloatArray,
    mean_field: bool,
    reach: float,
    size: int,
) -> FloatArray:
    """Return [J, 4 or 8], see the kernel; its NumPy reference."""
    given = (float(prior[0]), float(prior[1]), float(prior[2]), float(prior[3]))
    delta, gamma, log_m = np.exp(points[:, 0]), np.exp(points[:, 1]), points[:, 2]

    def at(log_m: FloatArray) -> Derivatives:
        return derivatives(r, n, delta, gamma, log_m, given, mean_field, size)

    here = at(log_m)
    total = digamma(delta + gamma)
    chosen = (gammaln(n + 1.0) - gammaln(r + 1.0) - gammaln(n - r + 1.0)).sum(axis=1)
    columns = [here.value, digamma(delta) - total, digamma(gamma) - total, chosen]
    if reach > 0.0:
        columns += [here.gradient[:, 2], here.hessian[:, 2, 2]]
        columns += [at(log_m + side).value - here.value for side in (-reach, reach)]
    return np.stack(columns, axis=1)


def newton_reference(
    r: IntArray,
    n: IntArray,
    start: FloatArray,
    prior: FloatArray,
    mean_field: bool,
    shared: bool,
    size: int,
    max_iter: int = 60,
) -> FloatArray:
    """Return [J, 3] (log delta, log gamma, log M); the NumPy reference of the kernel.

    Newton with a Levenberg shift where minus the Hessian is not positive definite, steps of
    at most 1.5, and halving until the bound does not fall. With a shared M it stands still.
    """
    point = start.copy()
    given = (float(prior[0]), float(prior[1]), float(prior[2]), float(prior[3]))

    def at(p: FloatArray, rows: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        d = derivatives(
            r[rows], n[rows], np.exp(p[:, 0]), np.exp(p[:, 1]), p[:, 2], given, mean_field, size
        )
        return d.value, d.gradient, d.hessian

    active = np.arange(len(point))
    for _ in range(max_iter):
        if not active.size:
            break
        value, gradient, hessian = at(point[active], active)
        if shared:
            gradient[:, 2], hessian[:, 2, :], hessian[:, :, 2] = 0.0, 0.0, 0.0
            hessian[:, 2, 2] = -1.0
        step = np.stack([_ascent(g, h) for g, h in zip(gradient, hessian, strict=True)])
        size_of = np.ones(len(active))
        far = np.abs(step).max(axis=1) >= 1e-4
        moved = point[active]
        for _ in range(30):
            trial = point[active] + size_of[:, None] * step
            trial[:, 2] = np.clip(trial[:, 2], *LIMITS_LOG_M)
            worse = far & ~(at(trial, active)[0] >= value - 1e-13 * np.abs(value))
            moved = np.where(worse[:, None], moved, trial)
            if not worse.any():
                break
            size_of = np.where(worse, 0.5 * size_of, size_of)
        change = np.abs(moved - point[active]).max(axis=1)
        point[active] = moved
        active = active[change >= 1e-7]
    return point


def _ascent(gradient: FloatArray, hessian: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(-hessian)
    floor = 1e-8 * max(1.0, float(np.abs(values).max()))
    step = vectors @ ((vectors.T @ gradient) / np.maximum(np.abs(values), floor))
    return np.asarray(step * min(1.0, 1.5 / max(float(np.abs(step).max()), 1e-300)))
