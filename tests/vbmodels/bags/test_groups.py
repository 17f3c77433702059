"""Groups of bags: copies join them, and no member of the stack sees those of its own fold."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tests.vbmodels.bags.test_embedding import some_bags
from vbmodels.bags.bags import Instances, bags, split
from vbmodels.bags.embedding.ep import Weights
from vbmodels.bags.embedding.model import EmbeddingModel
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.model import DirectGP
from vbmodels.bags.multilabel import FOLDS, bag_prints, fold_of_groups, join_groups
from vbmodels.bags.stack.model import AutoModel, log_densities
from vbmodels.bags.stack.predict import left_out
from vbmodels.core.fit import fit
from vbmodels.estimators.bags import MILGPClassifier, StackedBagClassifier

MODEL = AutoModel(
    witness=DirectGP(KernelOptions(length_scales=(0.7,), amplitudes=(3.0,), n_inducing=8))
)


def test_copies_have_one_print_whatever_their_order():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(7, 2))
    features = np.concatenate([rows[:3], rows[3:5], rows[[2, 0, 1]], rows[5:]])
    one = Instances(features, np.array([0, 3, 5, 8, 8, 8, 10]))
    prints = bag_prints(bags([one, one], [0, 1, 0, 1, 0, 1]))
    assert prints[0] == prints[2]
    assert prints[3] == prints[4] == 0
    assert np.unique(prints[[0, 1, 5]]).size == 3
    assert prints.tolist() == bag_prints(bags([one, one], [1] * 6)).tolist()


def test_groups_join_names_and_copies():
    prints = np.array([5, 6, 5, 7, 0, 0])
    assert join_groups(np.array([5, 6, 0, 0]), np.arange(4)).size == 0
    found = join_groups(prints, np.array([1, 2, 3, 2, 4, 5]))
    assert found[0] == found[2]
    assert found[1] == found[3]
    assert np.unique(found).size == 4
    order = np.array([3, 2, 1, 0])
    again = join_groups(prints[order], np.array([1, 2, 3, 2])[order])
    assert again.tolist() == found[order].tolist()


@pytest.fixture(scope="module")
def grouped():
    data = some_bags(n=60, d=2, seed=3)
    return replace(data, group=np.arange(60) // 3 * 7 + 1)


def test_the_embedding_leaves_out_the_sites_of_a_fold(grouped):
    done = fit(EmbeddingModel(), split(grouped, 3), seed=1, max_iter=3000)
    states = done.reduce.local_states(done.iterations - 1)
    q, fold = done.q, fold_of_groups(grouped.group)
    tau = np.concatenate([one.tau for one in states])
    nu = np.concatenate([one.nu for one in states])
    columns = q.map.columns(grouped)
    columns = columns @ q.turn if q.turn.size else columns
    for f in range(FOLDS):
        rest = fold != f
        half = columns[rest] * np.sqrt(tau[rest])[:, None]
        own = Weights.of(q.variance, half.T @ half, columns[rest].T @ nu[rest])
        assert_allclose(q.fold_mean[f], own.mean, rtol=1e-6, atol=1e-9)


def test_a_groups_label_is_predicted_without_it(grouped):
    """Its base rate is that of the other folds."""
    parts = split(grouped, 3)
    done = fit(MODEL, parts, seed=1, max_iter=3000)
    states = done.reduce.local_states(done.iterations - 1)
    each = list(zip(parts, states, strict=True))
    found = [MODEL.suff_stats(done.q, part, state) for part, state in each]
    base = np.exp(log_densities(found[0] + found[1] + found[2])[:, -1])
    fold = fold_of_groups(grouped.group)
    for f in range(FOLDS):
        rest, own = grouped.label[fold != f], grouped.label[fold == f]
        share = (rest.sum() + 0.5) / (rest.size + 1.0)
        assert_allclose(base[fold == f], np.where(own == 1, share, 1.0 - share))
    p = np.concatenate([left_out(done.q, part, state) for part, state in each])
    assert p.shape == (60,)
    assert np.all((p > 0.0) & (p < 1.0))


def test_estimators_take_groups():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 2)) for _ in range(40)]
    y = [int(bag[:, 0].max() > 1.0) for bag in X]
    found = StackedBagClassifier(n_inducing=8, random_state=0).fit(X, y, groups=np.arange(40) // 4)
    assert "10 groups" in found.summary()
    assert found.q_.embedding.grouped
    assert not StackedBagClassifier(n_inducing=8, random_state=0).fit(X, y).q_.embedding.grouped
    with pytest.raises(ValueError, match="a group for each of the 40 bags, found 3"):
        MILGPClassifier(n_inducing=8).fit(X, y, groups=[1, 2, 3])
