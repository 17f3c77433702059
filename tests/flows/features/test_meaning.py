"""What a feature is: contrasts by going through rows, and doubt."""

import numpy as np
from numpy.testing import assert_allclose

from flows.features.input.categories import Column
from flows.features.meaning import features_of, meaning_sums
from vbmodels.core.state import tree_sum
from vbmodels.features.forms import Stability

LEVELS = np.array([2, 3, 4])
COLUMNS = [Column(f"q{d}", tuple("abcd"[:n]), (0,) * n, 0) for d, n in enumerate(LEVELS)]
DRAWS = 40


def summed(nu, mean, ids, n_rows, levels=LEVELS):
    """Sums where the rows' features are known, and weights to a tenth."""
    noise = np.random.default_rng(1).standard_normal((DRAWS, *mean.shape))
    return meaning_sums(
        nu, mean + 0.1 * noise, lambda rows: np.tile(nu[rows] > 0.5, (DRAWS, 1, 1)), levels,
        ids, np.ones(len(ids)), n_rows,
    )  # fmt: skip


def known(rows=900, seed=0):
    """Two features: the first changes columns 0 and, weakly, 2; the second column 1."""
    rng = np.random.default_rng(seed)
    z = rng.random((rows, 2)) < [0.3, 0.4]
    mean = np.zeros((6, 3))
    mean[:, 0] = [-1.0, 0.5, -0.5, 0.2, 0.0, -0.3]
    mean[0, 1], mean[3, 1], mean[1, 2] = 3.0, 0.8, -2.5
    return z.astype(float), mean


def test_a_feature_is_described_by_the_columns_that_it_changes():
    nu, mean = known()
    sums = summed(nu, mean, np.arange(len(nu)), len(nu))
    first, second = features_of(sums, COLUMNS, Stability(np.array([1, 0]), 3), whole=True)
    assert [c.column for c in first.changes] == ["q0", "q2", "q1"]
    assert second.changes[0].column == "q1"
    assert (first.starts, second.starts) == (2, 1)
    share = nu[:, 0].mean()
    assert_allclose(first.share.value, share)
    assert first.sure == 1.0
    half = 1.96 * np.sqrt(share * (1 - share) / 900)
    assert_allclose(first.share.high - share, half)  # the rows' features are known
    best, *_, last = first.changes
    assert best.category == "b"
    on, off = 1 / (1 + np.exp(-2.0)), 1 / (1 + np.exp(1.0))
    assert_allclose([best.with_it, best.without_it], [on, off], atol=4 * best.sd)
    assert abs(last.with_it - last.without_it) < 4 * last.sd + 1e-6
    assert best.nats > 10 * last.nats
    assert first.name[0].columns == ("q0",)


def test_no_cut_of_the_rows_changes_what_a_feature_is():
    nu, mean = known(rows=2500)
    ids, parts = np.arange(2500), []
    whole = summed(nu, mean, ids, 2500)
    for part in (slice(0, 800), slice(800, 2500)):
        parts.append(summed(nu[part], mean, ids[part], 2500))
    assert 800 < whole.compared < 1200
    together = tree_sum(parts)
    assert together.compared == whole.compared
    assert_allclose(together.with_it, whole.with_it, rtol=1e-12)
