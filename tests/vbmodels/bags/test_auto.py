"""The stack: weights by EM, members as they are alone, folds that never see their bags."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from tests.vbmodels.bags.test_embedding import some_bags
from vbmodels.bags.bags import split
from vbmodels.bags.embedding.predict import predict_bags
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.likelihood import CACHE as BLOCKS
from vbmodels.bags.mil_gp.model import DirectGP, at_values, near
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.bags.multilabel import fold_of
from vbmodels.bags.stack.modalities import CACHE, parted
from vbmodels.bags.stack.model import FOLDS, POINTS, AutoModel, Witness, log_densities, weighed
from vbmodels.bags.stack.predict import predict_auto
from vbmodels.core.driver import Driver
from vbmodels.core.fit import InProcess, fit, loop_of
from vbmodels.core.optimise import objective, stacked
from vbmodels.core.state import tree_sum

OPTIONS = KernelOptions(length_scales=(0.7, 1.4), amplitudes=(1.0, 10.0), n_inducing=10)
WITNESS = DirectGP(OPTIONS)
MODEL = AutoModel(witness=WITNESS)


@pytest.fixture(scope="module")
def data():
    return some_bags(n=60, d=2, seed=3)


@pytest.fixture(scope="module")
def done(data):
    return fit(MODEL, split(data, 3), seed=1, max_iter=3000)


def test_weights_are_the_highest_of_their_objective():
    log_p = np.log(np.random.default_rng(0).uniform(0.05, 1.0, (50, 3)))
    log_p[:, 0] += 0.4
    further = np.array([0.5, 3.0, 0.0])
    found = stacked(log_p, further)

    def loss(at):
        w = np.exp(at - np.logaddexp.reduce(at))
        return -objective(log_p, w, further)

    best = minimize(
        loss, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}
    )
    assert objective(log_p, found, further) >= -best.fun - 1e-8
    assert_allclose(found.sum(), 1.0)


@pytest.mark.parametrize(("best", "least"), [(0, 0.8), (1, 0.75)])
def test_weights_of_few_labels_go_to_the_best_member_and_of_many_to_what_predicts(best, least):
    random = np.random.default_rng(1)
    chance = random.uniform(0.4, 0.6, (30, 3))
    chance[:, best] += 0.15
    few, _ = weighed(np.log(chance))
    plain = stacked(np.log(chance), np.zeros(3))
    assert few[best] > max(plain[best], least)
    many = np.log(np.repeat(chance, 200, axis=0))
    assert_allclose(weighed(many)[0], stacked(many, np.zeros(3)), atol=0.01)


def test_instances_are_bitwise_the_witness_alone(data, done):
    alone = fit(WITNESS, split(data, 3), seed=1, max_iter=3000).q
    said = predict_auto(MODEL, done.q, data)
    (own,) = predict(WITNESS.posterior(alone), data)
    assert said.witness.probability.tobytes() == own.probability.tobytes()
    assert said.witness.bag_probability.tobytes() == own.bag_probability.tobytes()


def test_bags_are_the_weighted_mean_of_members(data, done):
    said = predict_auto(MODEL, done.q, data)
    members = np.nan_to_num(said.members)
    assert_allclose(members @ done.q.weights, said.probability, rtol=1e-14)
    assert_allclose(done.q.weights.sum(), 1.0)
    embedding = predict_bags(done.q.embedding, data).probability
    assert_allclose(said.members[:, 0], embedding)


def test_a_folds_posterior_has_not_seen_its_bags(data, done):
    """Turning the labels of a fold's bags over moves every posterior but that fold's.

    That one may differ in its last digits: a product's rounding depends on how many searches are
    still made together.
    """
    fold = fold_of(data)
    assert set(fold.tolist()) == set(range(FOLDS))
    turned = replace(data, label=np.where(fold == 2, 1 - data.label, data.label).astype(np.int8))
    start = at_values(done.q.witness, near(done.q.witness), FOLDS)

    def found(of):
        def reduce(q, **_):
            view = CACHE.view(done.q.embedding.map.modalities, of, "folds")
            return WITNESS.suff_stats(q, view, None)

        *_, last = Driver(loop_of(WITNESS), WITNESS, start, reduce)
        return WITNESS.posterior(last.q)

    before, after = found(data), found(turned)
    away = [np.abs(before.mean[f] - after.mean[f]).max() for f in range(FOLDS)]
    same = [float(d) < 1e-11 for d in away]
    assert same == [f == 2 for f in range(FOLDS)]
    assert before.kernel[2] == after.kernel[2]


def test_what_is_weighed_is_predicted_without_the_bag(data, done):
    """The witness's part against a fit without a fold's bags, features held; the base by hand."""
    batches = split(data, 3)
    states = done.reduce.local_states(done.iterations - 1)
    found = [MODEL.suff_stats(done.q, b, s) for b, s in zip(batches, states, strict=True)]
    log_p = log_densities(found[0] + found[1] + found[2])
    n, positive = data.n_bags, int(data.label.sum())
    expected = np.where(data.label == 1, (positive - 0.5) / n, 1 - (positive + 0.5) / n)
    assert_allclose(np.exp(log_p[:, -1]), expected)
    fold = fold_of(data)
    held = np.flatnonzero(fold == 1)
    posterior = WITNESS.posterior(done.q.folds)
    p = predict(posterior, data, points=POINTS)[1].bag_probability[held]
    chance = np.where(data.label[held] == 1, p, 1 - p)
    assert_allclose(log_p[held, 1], np.log(chance), rtol=1e-6, atol=1e-9)


def test_several_modalities_are_united_for_the_witness():
    data = some_bags(n=80, d=2, modalities=2, empty=(5,))
    done = fit(MODEL, split(data, 2), seed=1, max_iter=3000)
    said = predict_auto(MODEL, done.q, data)
    of_first, of_second = parted(data, said.witness.probability)
    for m, p in zip(data.modalities, (of_first, of_second), strict=True):
        assert p.shape == (len(m.features),)
        high = m.features[:, 0] > 1.0
        assert p[high].mean() > p[~high].mean()
    assert 0.0 < said.members[5, 1] < 0.01
    one = fit(MODEL, [data], seed=1, max_iter=3000).q
    assert_allclose(one.weights, done.q.weights, rtol=1e-6)


def seen(batches):
    return tree_sum(MODEL.observe(b) for b in batches)


WIDER = replace(
    OPTIONS, length_scales=(0.35, 0.7, 1.4, 2.8), amplitudes=(0.3, 1.0, 3.0, 10.0, 30.0)
)
SINCE = AutoModel(witness=DirectGP(WIDER))


@pytest.fixture(scope="module")
def wide(data):
    return fit(SINCE, split(data, 3), seed=1, max_iter=3000)


def restarted(model, before, batches):
    """Go on from an earlier fit; where it began, where it ended, and its last step."""
    q = model.restart(seen(batches), before, np.random.default_rng(1))
    reduce = InProcess(model, batches)
    run = Driver(loop_of(model), model, q, reduce, tol=1e-6, max_iter=3000)
    *_, last = run
    assert run.converged
    return q, last.q, last.iteration


def test_a_restart_tries_the_last_kernel_value_and_its_neighbours(data, wide):
    """On the same bags: the witness's posterior to rounding, the rest to the search's end."""
    q, found, sweeps = restarted(SINCE, wide.q, split(data, 3))
    features = wide.q.witness.features
    neighbours = features.around(wide.q.witness.kernel)
    assert q.witness.features.n_kernels == found.witness.features.n_kernels == neighbours.size <= 9
    assert q.searched == found.searched == data.n_bags
    assert found.untried is None
    assert_allclose(q.embedding.at, wide.q.embedding.at)
    whole, own = SINCE.witness.posterior(wide.q.witness), SINCE.witness.posterior(found.witness)
    # A search ends where a step promises 1e-6 nats.
    assert_allclose(own.mean, whole.mean, atol=5e-3)
    assert sweeps < wide.iterations
    one, two = (predict_auto(SINCE, of, data).probability for of in (wide.q, found))
    assert_allclose(one, two, atol=5e-3)


def test_a_restart_tries_all_kernel_values_where_the_best_has_moved(data, wide):
    """From a corner far from the best, as if other bags had chosen it."""
    features = wide.q.witness.features
    best = int(wide.q.witness.kernel[0])
    corners = [0, 4, 15, 19]
    far = next(k for k in corners if best not in features.around(np.array([k])))
    moved = replace(wide.q, witness=replace(wide.q.witness, kernel=np.array([far])), searched=50)
    q, found, _ = restarted(SINCE, moved, split(data, 3))
    assert q.witness.features.n_kernels == 4
    assert q.searched == 50
    assert found.witness.features.n_kernels == features.n_kernels
    assert found.searched == data.n_bags
    assert found.witness.kernel[0] == best


def test_without_the_witness_the_others_are_stacked(data):
    needed = MODEL.init(seen([data]), np.random.default_rng(1)).needed
    for room, stays in ((needed, True), (needed - 1, False), (0, False)):
        model = replace(MODEL, witness_memory=room)
        q = model.init(tree_sum([model.observe(data)]), np.random.default_rng(1))
        assert (q.witness is not None) == stays
    model = replace(MODEL, witness_memory=needed - 1)
    q = fit(model, split(data, 3), seed=1, max_iter=3000).q
    assert q.weights[1] == 0.0
    assert_allclose(q.weights.sum(), 1.0)
    said = predict_auto(model, q, data)
    assert said.witness is None
    expected = q.weights[0] * said.embedding.probability + q.weights[3] * q.base
    assert_allclose(said.probability, expected, rtol=1e-12)


@pytest.mark.parametrize("few", [1000, 12])
def test_what_it_remembers_is_what_it_keeps(data, few):
    """No less than the columns of any phase, and at most four times the most that is kept."""
    model, fresh = replace(MODEL, few=few), replace(data)
    begun = model.init(seen([fresh]), np.random.default_rng(1))
    kept = {}

    def reduce(q, *, number, warm):
        found = inner(q, number=number, warm=warm)
        if isinstance(q, Witness):
            _, batch = CACHE.kept[id(fresh)]
            arrays = [x for b in BLOCKS.kept[id(batch)][1] for x in (*b.columns, *b.residual)]
            kept[q.view] = sum(x.nbytes for x in arrays)
        return found

    inner = InProcess(model, [fresh])
    run = Driver(loop_of(model), model, begun, reduce, tol=1e-6, max_iter=3000)
    assert list(run)
    assert run.converged
    assert ("some" in kept) == (few == 12)
    most = max(kept.values())
    assert most <= begun.needed <= model.remembered(begun, fresh) <= 4 * most


def test_of_many_bags_some_choose_the_kernel_value(data):
    """The same bags however they are cut; all bags fit the witness at the value they choose."""
    model = replace(MODEL, few=12)
    one, three = (fit(model, split(data, k), seed=1, max_iter=3000).q for k in (1, 3))
    assert one.shares == (12 / np.sum(data.label == 0), 12 / np.sum(data.label == 1))
    drawn = CACHE.view(one.embedding.map.modalities, replace(data), "some", one.shares)
    assert 12 <= drawn.n_bags <= 40
    assert set(drawn.label.tolist()) == {0, 1}
    assert one.witness.features.n_kernels == 1
    assert_allclose(one.weights, three.weights, rtol=1e-6)
    own = fit(
        DirectGP(replace(OPTIONS, length_scales=tuple(one.witness.features.lengths),
                         amplitudes=tuple(one.witness.features.amplitude))),
        [data], seed=1, max_iter=3000,
    ).q  # fmt: skip
    assert one.witness.features.same_values(own.features, own.kernel).tolist() == [0]
    a, b = WITNESS.posterior(one.witness), WITNESS.posterior(own)
    assert_allclose(a.mean, b.mean, atol=5e-3)
