"""The embedding: partitions, both ways to its variances, empty bags, contributions, text."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.bags import multilabel as gp_data
from vbmodels.bags.bags import Instances, bags, split
from vbmodels.bags.embedding import pools as bag_pools
from vbmodels.bags.embedding import predict as bag_predict
from vbmodels.bags.embedding.blocks import POOL_NAMES
from vbmodels.bags.embedding.model import EmbeddingModel
from vbmodels.bags.embedding.predict import (
    contributions,
    feature_weights,
    marker_contributions,
    of_instances,
    predict_bags,
)
from vbmodels.core.fit import fit


def some_bags(n=70, d=4, seed=0, modalities=1, empty=(), wide=False):
    """Bags that are positive when an instance's first feature is large."""
    rng = np.random.default_rng(seed)
    parts, score = [], np.zeros(n)
    for _ in range(modalities):
        sizes = rng.integers(1, 7, n)
        sizes[list(empty)] = 0
        bag = np.repeat(np.arange(n), sizes)
        rows = rng.standard_normal((bag.size, d))
        np.add.at(score, bag, 2.0 * (rows[:, 0] > 1.0))
        parts.append(Instances.from_rows(bag, rows, n))
    label = (score + 0.3 * rng.standard_normal(n) > 1.0).astype(np.int8)
    own = rng.standard_normal((n, 2)) if modalities > 1 else None
    return bags(parts, label, own)


def fitted(data, parts=1, **options):
    return fit(EmbeddingModel(**options), split(data, parts), seed=1, max_iter=3000)


def cold(q):
    """Return sweeps at the variances of ``q`` before the first bag is seen."""
    factor = np.diag(1.0 / np.sqrt(q.variance))
    return replace(q, mean=np.zeros(len(factor)), factor=factor, sweep=0)


def left_out(done):
    return np.concatenate([x.log_z for x in done.reduce.local_states(done.iterations - 1)])


@pytest.mark.thorough
def test_both_ways_to_the_variances_meet():
    """The search by all bags, dual, and steps from that of some end at the same posterior."""
    data = some_bags()
    near, far = (fitted(data, 2, gathered=g, rise=1e-7) for g in (1000, 20))
    assert near.q.turn.size
    assert not far.q.turn.size
    assert_allclose(near.trace[-1], far.trace[-1], rtol=0, atol=1e-4)
    assert_allclose(near.q.block_variance, far.q.block_variance, rtol=0.02)
    a, b = (predict_bags(done.q, data) for done in (near, far))
    assert_allclose(a.mean, b.mean, rtol=2e-3, atol=5e-3)
    assert_allclose(a.sd, b.sd, rtol=2e-3, atol=5e-3)


def test_turned_columns_are_the_same_gaussian():
    """At one set of variances, the columns that bags span predict what all columns do."""
    data, new = some_bags(), some_bags(seed=5)
    q = fitted(data).q
    assert q.turn.size
    plain = EmbeddingModel()
    whole = replace(q, turn=np.empty((0, 0)), final=True)
    whole = cold(whole)
    local = None
    for _ in range(40):
        local = plain.local_step(whole, data, local)
        whole = plain.global_step(whole, plain.suff_stats(whole, data, local))
    for one, other in zip(q.marginals(q.map.columns(new)),
                          whole.marginals(whole.map.columns(new)), strict=True):  # fmt: skip
        assert_allclose(one, other, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("modalities", [1, 2])
def test_contributions_sum_to_the_score(modalities):
    data = some_bags(modalities=modalities, empty=(3, 8))
    q = fitted(data).q
    new = some_bags(seed=4, modalities=modalities, empty=(0,))
    said, each = predict_bags(q, new), contributions(q, new)
    names = [*q.map.names(), "constant"]
    assert_allclose(said.shares.sum(axis=1), said.mean, atol=1e-9)
    rest = said.shares[:, [not of_instances(name) for name in names]].sum(axis=1)
    total = rest
    for k, instances in enumerate(new.modalities):
        total = total + np.bincount(instances.bag, weights=each[k], minlength=new.n_bags)
    full = np.all([m.sizes > 0 for m in new.modalities], axis=0)
    assert_allclose(total[full], said.mean[full], atol=1e-9)


def test_an_empty_bag_has_its_size_alone():
    data = some_bags(empty=(3, 8, 20))
    q = fitted(data).q
    said = predict_bags(q, data)
    names = [*q.map.names(), "constant"]
    away = [i for i, name in enumerate(names) if name not in ("size", "constant")]
    assert np.all(said.shares[3][away] == 0.0)
    assert said.shares[3][names.index("size")] != 0.0
    assert 0.0 < said.probability[3] < 1.0


def test_left_out_is_near_a_fit_without_the_bag():
    """EP's leave-one-out, at variances that do not change, against a fit without the bag."""
    data = some_bags(n=40)
    done = fitted(data)
    log_z = left_out(done)
    model = EmbeddingModel()
    for i in (0, 7, 21):
        others = data.take(np.delete(np.arange(40), i))
        q = cold(done.q)
        local = None
        for _ in range(40):
            local = model.local_step(q, others, local)
            q = model.global_step(q, model.suff_stats(q, others, local))
        p = predict_bags(q, data.take(np.array([i]))).probability[0]
        expected = np.log(p if data.label[i] else 1.0 - p)
        assert_allclose(log_z[i], expected, atol=0.02)


def test_text_has_its_own_blocks():
    rng = np.random.default_rng(0)
    rows = np.zeros((240, 12))
    topic = rng.choice(4, 240)
    for i, t in enumerate(topic):
        rows[i, 3 * t + rng.choice(3, 2, replace=False)] = rng.uniform(0.5, 1.5, 2)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    bag = np.repeat(np.arange(60), 4)
    label = (np.bincount(bag, weights=topic == 0) > 0).astype(np.int8)
    data = bags([Instances.from_rows(bag, rows, 60)], label)
    q = fitted(data).q
    assert [*q.map.names(), "constant"] == ["size", "words", "constant"]
    said, each = predict_bags(q, data), contributions(q, data)[0]
    assert said.probability[label == 1].mean() > said.probability[label == 0].mean() + 0.3
    rest = said.shares[:, 0] + said.shares[:, 2]
    assert_allclose(rest + np.bincount(bag, weights=each), said.mean, atol=1e-9)


def test_a_large_bag_is_taken_a_piece_at_a_time(monkeypatch):
    """With pieces of 4 instances: bags of up to 6, some with the same instance in two pieces."""
    data = some_bags()
    q = fitted(data).q
    rows = data.modalities[0].features.copy()
    last = data.modalities[0].offsets[1:] - 1
    rows[last] = rows[data.modalities[0].offsets[:-1]]
    tied = bags([Instances(rows, data.modalities[0].offsets)], data.label)
    whole, each = predict_bags(q, tied), contributions(q, tied)[0]
    assert data.modalities[0].sizes.max() > 4
    for module in (gp_data, bag_pools, bag_predict):
        monkeypatch.setattr(module, "BLOCK", 4)
    assert_allclose(predict_bags(q, tied).mean, whole.mean, rtol=1e-12)
    assert_allclose(contributions(q, tied)[0], each, rtol=1e-9, atol=1e-12)


def test_features_of_instances_sum_to_the_pools_share():
    data = some_bags(d=3)
    q = fitted(data).q
    (weights,), (of,) = feature_weights(q), q.map.modalities
    scaled = dict(zip(POOL_NAMES, of.pools(bag_pools.pooled(data.modalities[0])), strict=True))
    ((which, adds),) = marker_contributions(q, data, 3)
    assert np.sort(which, axis=1).tolist() == [[0, 1, 2]] * len(which)
    assert np.all(np.diff(np.abs(adds), axis=1) <= 0.0)
    found = np.bincount(data.modalities[0].bag, adds.sum(axis=1), minlength=data.n_bags)
    expected = sum(scaled[name] @ weights[name] for name in POOL_NAMES[:3])
    assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    ((first, largest),) = marker_contributions(q, data, 1)
    assert np.array_equal(first, which[:, :1])
    assert_allclose(largest, adds[:, :1])


def test_a_features_weights_make_its_pools_share():
    """Shares of a block between bags differ by the differences of its scaled pools, weighed."""
    data = some_bags(d=3)
    q = fitted(data).q
    (weights,) = feature_weights(q)
    (of,), names = q.map.modalities, q.map.names()
    scaled = dict(zip(POOL_NAMES, of.pools(bag_pools.pooled(data.modalities[0])), strict=True))
    shares = predict_bags(q, data).shares
    assert set(weights) == set(POOL_NAMES)
    for name, weight in weights.items():
        own = shares[:, names.index(name)]
        expected = scaled[name] @ weight
        assert_allclose(own - own[0], expected - expected[0], rtol=1e-7, atol=1e-9)
