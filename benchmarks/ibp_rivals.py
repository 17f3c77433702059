"""What the IBP is compared with on held-out cells.

Each function takes a batch with missing cells and returns the probability of every category in
each of them [M, R], in the order of `missing_cells`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from vbmodels.features.draw_kernels import draw_omega, row_keys
from vbmodels.features.ibp.predict import category_probabilities, missing_cells
from vbmodels.features.rivals import by_bic
from vbmodels.features.rivals import latent_classes as one_fit
from vbmodels.features.table import FeatureBatch, signs_of

Table = NDArray[np.float64]


def one_hot(batch: FeatureBatch) -> tuple[Table, NDArray[np.int64]]:
    """Return indicators of all categories, NaN where missing, and each column's first one."""
    codes = batch.codes[batch.row_of].astype(np.int64)
    blocks = []
    for d, r in enumerate(batch.levels.tolist()):
        block = (codes[:, d, None] == np.arange(r)).astype(float)
        block[codes[:, d] < 0] = np.nan
        blocks.append(block)
    return np.concatenate(blocks, 1), np.concatenate([[0], np.cumsum(batch.levels)])


def picked(p: Table, batch: FeatureBatch, first: NDArray[np.int64]) -> Table:
    """Take each missing cell's categories from row-wise values of all of them."""
    rows, columns = missing_cells(batch)
    result = np.zeros((len(rows), int(batch.levels.max())))
    for d, r in enumerate(batch.levels.tolist()):
        mine = columns == d
        result[mine, :r] = p[rows[mine], first[d] : first[d] + r]
    return result / result.sum(1, keepdims=True)


def margins(batch: FeatureBatch) -> Table:
    """Every cell at its column's frequencies."""
    x, first = one_hot(batch)
    return picked(np.broadcast_to(np.nanmean(x, 0), x.shape), batch, first)


def latent_classes(batch: FeatureBatch, k: int, starts: int, seed: int) -> Table:
    """Multinomial mixture by EM; starts averaged."""
    x, first = one_hot(batch)
    seen, rng = np.nan_to_num(x), np.random.default_rng(seed)
    fits = [one_fit(seen, batch.levels, k, rng, starts=1) for _ in range(starts)]
    return picked(np.sum([fit.categories(seen) for fit in fits], axis=0), batch, first)


def latent_classes_by_bic(batch: FeatureBatch, seed: int) -> Table:
    """Latent class analysis with the number of classes that the BIC chooses."""
    x, first = one_hot(batch)
    seen = np.nan_to_num(x)
    return picked(by_bic(seen, batch.levels, seed).categories(seen), batch, first)


def stepmix_by_bic(batch: FeatureBatch, seed: int) -> Table:
    """Latent classes by the package StepMix; their number has the lowest BIC."""
    from stepmix.stepmix import StepMix

    codes = batch.codes[batch.row_of].astype(float)
    codes[codes < 0] = np.nan
    best, least, risen = None, np.inf, 0
    for k in range(1, 41):
        model = StepMix(
            k, measurement="categorical_nan", n_init=3, max_iter=300, abs_tol=1e-6,
            random_state=seed, progress_bar=0, verbose=0,
        ).fit(codes)  # fmt: skip
        value = model.bic(codes)
        best, least, risen = (model, value, 0) if value < least else (best, least, risen + 1)
        if risen == 2:
            break
    assert best is not None
    chance = best.get_parameters()["measurement"]["pis"]
    rows, columns = missing_cells(batch)
    p = (best.predict_proba_class(codes) @ chance).reshape(len(codes), codes.shape[1], -1)
    found = np.maximum(p[rows, columns], 1e-9)
    return found / found.sum(1, keepdims=True)


def logistic_factors(batch: FeatureBatch, k: int, draws: tuple[int, int, int], seed: int) -> Table:
    """Logistic factor analysis by PG-Gibbs: psi = b + W f, f ~ N(0, I); chains averaged.

    ``draws`` is (chains, warm-up, draws that are averaged).
    """
    chains, warmup, kept = draws
    sign = signs_of(batch.codes[batch.row_of], batch.levels)
    half, n, units = 0.5 * sign, len(sign), sign.shape[1]
    rows, columns = missing_cells(batch)
    total = np.zeros((len(rows), int(batch.levels.max())))
    ids = np.arange(n)
    for c in range(chains):
        rng = np.random.default_rng([seed, c])
        f = np.concatenate([np.ones((n, 1)), rng.normal(size=(n, k))], 1)
        w, variance = rng.normal(0, 0.3, (units, k + 1)), 1.0
        for i in range(warmup + kept):
            omega = draw_omega(f @ w.T, sign, row_keys(ids, seed, c, i))
            outer = (f[:, :, None] * f[:, None, :]).reshape(n, -1)
            prior = np.diag([0.1, *[1 / variance] * k])
            precision = (omega.T @ outer).reshape(units, k + 1, k + 1) + prior
            w = _gaussian(precision, half.T @ f, rng)
            variance = (1 + 0.5 * (w[:, 1:] ** 2).sum()) / rng.gamma(1 + 0.5 * w[:, 1:].size)
            load = w[:, 1:]
            both = (load[:, :, None] * load[:, None, :]).reshape(units, -1)
            precision = (omega @ both).reshape(n, k, k) + np.eye(k)
            f[:, 1:] = _gaussian(precision, (half - omega * w[:, 0]) @ load, rng)
            if i >= warmup:
                psi = f[rows] @ w.T
                total += category_probabilities(psi, batch.levels, columns)
    return total / total.sum(1, keepdims=True)


def _gaussian(precision: Table, linear: Table, rng: np.random.Generator) -> Table:
    factor = np.linalg.cholesky(precision)
    half = np.linalg.solve(factor, linear[..., None]) + rng.standard_normal((*linear.shape, 1))
    drawn = np.linalg.solve(np.swapaxes(factor, -1, -2), half)
    return np.asarray(drawn[..., 0])


def logistic_columns(batch: FeatureBatch) -> Table:
    """Regress every column on the others' categories; a missing one is a category of its own."""
    codes = batch.codes[batch.row_of]
    rows, columns = missing_cells(batch)
    found = np.zeros((len(rows), int(batch.levels.max())))
    blocks = [codes[:, [d]] == np.arange(-1, r) for d, r in enumerate(batch.levels)]
    for d in np.unique(columns):
        others = np.concatenate([b for e, b in enumerate(blocks) if e != d], axis=1).astype(float)
        known, needed = codes[:, d] >= 0, np.flatnonzero(columns == d)
        if len(set(codes[known, d])) == 1:  # all others are hidden or missing
            found[needed, codes[known, d][0]] = 1.0
            continue
        model = LogisticRegression(C=0.1, max_iter=500).fit(others[known], codes[known, d])
        chance = model.predict_proba(others[rows[needed]])
        found[needed[:, None], model.classes_] = np.maximum(chance, 1e-9)
    return found / found.sum(1, keepdims=True)
