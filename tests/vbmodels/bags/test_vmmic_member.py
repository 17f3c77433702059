"""vMMIC in the stack: it wins where bags are its own, and is given up where it cannot."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import roc_auc_score

from tests.vbmodels.bags.test_auto import WITNESS
from tests.vbmodels.bags.test_embedding import some_bags
from vbmodels.bags.bags import split
from vbmodels.bags.multilabel import fold_of
from vbmodels.bags.simulate import simulate
from vbmodels.bags.stack import primary
from vbmodels.bags.stack.modalities import as_witnessed
from vbmodels.bags.stack.model import MEMBERS, PRIMARY, AutoModel
from vbmodels.bags.stack.predict import left_out, predict_auto
from vbmodels.bags.vmmic.likelihood import Points
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import predict
from vbmodels.core.fit import fit

MODEL = AutoModel(witness=WITNESS)
OF_PRIMARY = MEMBERS.index(PRIMARY)


@pytest.fixture(scope="module")
def study():
    rng = np.random.default_rng(7)
    data, _ = simulate(rng, 400)
    return data, simulate(rng, 500)


@pytest.fixture(scope="module")
def done(study):
    return fit(MODEL, split(study[0], 2), seed=1, max_iter=5000)


@pytest.mark.thorough
def test_the_default_finds_the_studys_bags_and_primary_instances(study, done):
    new, truth = study[1]
    said = predict_auto(MODEL, done.q, new)
    assert done.converged
    assert done.q.weights[OF_PRIMARY] > 0.8
    model = CollapsedVMMIC()
    alone = model.posterior(fit(model, [study[0]], seed=3, max_iter=5000).q)
    expected = predict(alone.draws(), alone.scaling, new).bag
    assert_allclose(said.members[:, OF_PRIMARY], expected, atol=0.15)
    area = roc_auc_score(new.label, said.probability)
    assert area > max(0.85, roc_auc_score(new.label, expected) - 0.01)
    instances = np.concatenate(said.instances(new))
    assert roc_auc_score(np.concatenate(truth.primary), instances) > 0.92


def test_a_fit_without_a_fold_does_not_see_its_labels(study):
    """Turning the labels of a fold over moves the modes of all fits but that without the fold."""
    data = study[0].take(np.arange(120))
    maps = fit(MODEL.embedding, [data], max_iter=3000).q.map.modalities
    fold = fold_of(as_witnessed(maps, data))
    label = np.where(fold == 0, 1 - data.label, data.label).astype(np.int8)
    turned = replace(data, label=label)
    start = primary.start(MODEL.vmmic, MODEL.embedding.observe(data), 0)
    points = Points(start.scaling, np.full((1, 1, start.scaling.layout.dim), 0.1))
    trials = primary.Trials(tuple(range(6)), (points,) * 6, maps)
    one, two = (MODEL.suff_stats(trials, of, None).fits for of in (data, turned))
    same = [a.value.tobytes() == b.value.tobytes() for a, b in zip(one, two, strict=True)]
    assert same == [True, False, False, False, False, False]


def test_it_is_given_up_where_it_has_no_weight():
    data = some_bags(n=80, d=2, seed=3)
    done = fit(MODEL, split(data, 3), seed=1, max_iter=3000)
    assert done.q.vmmic is None
    assert done.q.weights[OF_PRIMARY] == 0.0
    parts = zip(split(data, 3), done.reduce.local_states(done.iterations - 1), strict=True)
    assert all(np.isfinite(left_out(done.q, *one)).all() for one in parts)
