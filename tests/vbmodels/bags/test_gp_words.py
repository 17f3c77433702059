"""Many words: the leading directions of their prior, and what they leave."""

import numpy as np
import pytest

from vbmodels.bags.bags import Instances, bags
from vbmodels.bags.mil_gp.features import KernelOptions, leading
from vbmodels.bags.mil_gp.model import DirectGP
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.bags.stack.model import AutoModel
from vbmodels.core.fit import fit


def text(width=30, n=60, seed=0):
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n), 4)
    topic = rng.integers(0, 5, bag.size)
    chances = rng.dirichlet(np.full(width, 0.1), 5)
    x = np.array([rng.multinomial(20, chances[t]) for t in topic], float)
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = np.bincount(bag, topic == 2, minlength=n) > 0
    return bags([Instances.from_rows(bag, x, n)], y.astype(np.int8))


def fitted(data, rank):
    model = DirectGP(KernelOptions(linear_rank=rank))
    q = fit(model, [data], seed=0, max_iter=10_000).q
    return q, predict(model.posterior(q), data)[0]


def test_leading_directions_are_those_of_the_data():
    """Of the products as `leading` rounds them, to single precision after a scaling."""
    x = text().modalities[0].features
    c, length = x.T @ x, np.linalg.norm(x, axis=0)
    turn = leading(c, length, 8)
    half = np.outer(np.sqrt(length), np.sqrt(length))
    rounded = (c / half).astype(np.float32) * half
    prior = rounded / length[:, None] / length
    kernel = np.sort(np.linalg.eigvals(rounded @ prior).real)[::-1]
    assert np.allclose(turn.T @ rounded @ turn, np.diag(kernel[:8]), atol=1e-9 * kernel[0])
    assert np.linalg.eigvalsh(prior - turn @ turn.T).min() > -1e-9
    assert np.abs(rounded - c).max() < 2.0**-24 * c.max()


def test_the_rest_of_words_is_noise_and_predictions_stay():
    data = text()
    whole, all_words = fitted(data, 30)
    part, few = fitted(data, 20)
    assert whole.features.n_columns == 32
    assert part.features.n_columns == 22
    assert part.features.alone.max() > 0.0
    assert few.bag_probability == pytest.approx(all_words.bag_probability, abs=0.15)
    assert np.corrcoef(few.score, all_words.score)[0, 1] > 0.95


def test_the_heavy_sweep_is_reported_where_there_is_one():
    data = text()
    model = AutoModel()
    q = model.init(model.observe(data), np.random.default_rng(0))
    at, share = model.heavy(q)
    stats = model.suff_stats(at, data, None)
    assert 0.0 < share < 1.0
    assert stats.value.shape == (5,)
    assert np.isfinite(stats.curvature).all()
    mode = AutoModel(witness=DirectGP(posterior_form="laplace"))
    assert mode.heavy(q) is None
