"""Instances with a label of their own: the likelihood, folds, and what they bring."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose
from scipy.special import ndtr

from flows.evaluate.estimate import auroc
from tests.vbmodels.bags.gp_bags import evaluate
from tests.vbmodels.bags.joined import concatenate
from vbmodels.bags.bags import UNLABELLED, Instances, bags, split
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.likelihood import split_known
from vbmodels.bags.mil_gp.model import DirectGP
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.bags.multilabel import MultiLabelBags
from vbmodels.core.fit import fit

OPTIONS = KernelOptions(kernel="rbf", length_scales=(0.5, 1.0), amplitudes=(3.0, 10.0))


def drawn(seed, n, share=0.0, size=8):
    """Bags that are positive where an instance is in a ring; a share of instances has labels."""
    rng = np.random.default_rng([seed, 3])
    rows = rng.standard_normal((n * size, 3))
    truth = (np.abs(np.hypot(rows[:, 0], rows[:, 1]) - 2.0) < 0.35).astype(np.int8)
    bag = np.repeat(np.arange(n), size)
    label = np.bincount(bag, truth, n) > 0
    known = np.where(rng.random(n * size) < share, truth, np.int8(UNLABELLED)).astype(np.int8)
    return bags([Instances.from_rows(bag, rows, n, known)], label.astype(np.int8)), truth


def test_the_likelihood_is_that_of_bags_and_their_known_instances():
    data, _ = drawn(0, 30, share=0.3)
    label = np.where(np.arange(30) % 5 == 0, UNLABELLED, data.label).astype(np.int8)
    data = replace(data, label=label)
    model = DirectGP(replace(OPTIONS, leak=False, n_inducing=8))
    q = model.init(model.observe(data), np.random.default_rng(0))
    w = 0.5 * np.random.default_rng(1).standard_normal(q.points.shape)
    found = model.suff_stats(replace(q, points=w), data, None).value[:, 0]
    of, features = data.modalities[0], q.features
    columns, residual = features.base(of.features)
    for k in range(features.n_kernels):
        s = np.sqrt(1.0 + features.amplitude[k] * residual[features.which[k]])
        t = features.offset + columns[features.which[k]] @ (features.weights[k] * w[k, 0])
        chance = ndtr(t / s)
        total = 0.0
        for b in range(30):
            here = of.bag == b
            own, p = of.known[here], chance[here]
            total += np.log(p[own == 1]).sum() + np.log1p(-p[own == 0]).sum()
            none = np.prod(1.0 - p[own < 0])
            if label[b] == 0:
                total += np.log(none)
            elif label[b] == 1 and not (own == 1).any():
                total += np.log(1.0 - none)
        assert_allclose(found[k], total, rtol=1e-9)


def test_a_folds_own_bags_hide_their_instances():
    data, _ = drawn(1, 20, share=0.4)
    labels = np.repeat(data.label[:, None], 3, axis=1)
    labels[np.arange(20), np.arange(20) % 3] = UNLABELLED
    found = split_known(MultiLabelBags(data, labels))
    of = data.modalities[0]
    some = np.flatnonzero((of.known >= 0) & (data.label == 1)[of.bag])
    own = found.labels[20:]
    assert len(own) == some.size
    fold = of.bag[some] % 3
    assert (own[np.arange(some.size), fold] == UNLABELLED).all()
    assert ((own == UNLABELLED).sum(axis=1) == 1).all()


def test_partitions_keep_the_known_instances():
    data, _ = drawn(2, 24, share=0.2)
    again = concatenate(split(data, 3))
    np.testing.assert_array_equal(again.modalities[0].known, data.modalities[0].known)
    (part,) = split(data.labelled(), 1)
    assert part.modalities[0].known.size == part.modalities[0].bag.size
    model = DirectGP(replace(OPTIONS, n_inducing=8))
    q = model.init(model.observe(data), np.random.default_rng(0))
    whole = evaluate(q.features, q.points + 0.1, split_known(data)).value
    parts = [evaluate(q.features, q.points + 0.1, split_known(p)).value for p in split(data, 3)]
    assert_allclose(np.sum(parts, axis=0), whole, rtol=1e-10)


def test_a_tenth_of_labelled_instances_finds_more_of_the_others():
    """Instances of new bags are ranked better, and no seed loses."""
    gains = []
    for seed in range(3):
        new, truth = drawn(seed + 50, 150)
        areas = []
        for share in (0.0, 0.1):
            data, _ = drawn(seed, 60, share)
            done = fit(DirectGP(OPTIONS), [data], seed=0, max_iter=2000)
            (found,) = predict(DirectGP(OPTIONS).posterior(done.q), new)
            areas.append(auroc(truth, found.probability))
        gains.append(areas[1] - areas[0])
    assert min(gains) > -0.01, gains
    assert np.mean(gains) > 0.02, gains
