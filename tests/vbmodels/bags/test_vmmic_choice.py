"""The prior scale of vMMIC's slopes: what candidates are judged by, and what is chosen."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import logsumexp

from tests.contract import vmmic
from vbmodels.bags.batch import Instances, bags, split
from vbmodels.bags.choice import Chosen, ChosenVMMIC, folds_of
from vbmodels.bags.collapsed import CollapsedVMMIC
from vbmodels.bags.layout import Layout
from vbmodels.bags.mode import ModeSearch, Sums, mode_step
from vbmodels.bags.posterior import predict
from vbmodels.bags.priors import Priors
from vbmodels.bags.simulate import simulate
from vbmodels.core.cavi import start
from vbmodels.core.fit import fit, loop_of
from vbmodels.core.in_process import InProcess
from vbmodels.core.protocol import Cursor
from vbmodels.core.state import from_bytes, same_bits, to_bytes

pytestmark = pytest.mark.filterwarnings("ignore::vbmodels.bags.mode.FewBags")

NARROW = CollapsedVMMIC(
    Priors(intercept_variance=vmmic.VARIANCE), both_starts_below=0.0, tolerance=0.01
)


def test_length_is_the_expected_squared_length_of_a_block():
    layout = Layout(3, (5, 2))
    priors = Priors(learn=False, length=6.0)
    sd = 1.0 / np.sqrt(priors.precision(layout))
    t = sd * np.random.default_rng(0).normal(size=(40_000, layout.dim))
    for block in layout.slope_blocks:
        assert_allclose((t[:, block] ** 2).sum(1).mean(), 6.0, rtol=0.05)
    assert_allclose(sd[layout.intercepts], 4.0)
    with pytest.raises(ValueError, match="learn=False"):
        Priors(length=1.0)


def test_evidence_is_near_that_of_quadrature():
    """With one feature a block a length is a variance: importance weights of the same points."""
    lengths = (0.1, 0.25, 0.6)
    data = [vmmic.simulate(4, 14, (2,))]
    points, weights = vmmic.quadrature(4, 16)
    weights = weights + vmmic.log_likelihood(points, data)
    sd = np.sqrt(vmmic.VARIANCE)
    judged = fit(ChosenVMMIC(NARROW, lengths), data, max_iter=4000).q.judged
    for length, value in zip(lengths, judged, strict=True):
        moved = stats.norm.logpdf(points[:, [1, 3]], 0.0, np.sqrt(length))
        moved -= stats.norm.logpdf(points[:, [1, 3]], 0.0, sd)
        assert abs(value - logsumexp(weights + moved.sum(1))) < 0.15


def test_folds_are_judged_by_fits_without_them():
    data, _ = simulate(np.random.default_rng(2), 90)
    lengths, folds = (0.5, 8.0), 3
    model = ChosenVMMIC(CollapsedVMMIC(tolerance=1.0), lengths, folds)
    found = fit(model, [data], max_iter=4000).q
    fold = folds_of(data, folds)
    scaling = data_scaling(data)
    for length, value in zip(lengths, found.judged, strict=True):
        total = 0.0
        for f in range(folds):
            train, held = (data.take(np.flatnonzero(x)) for x in (fold != f, fold == f))
            posterior = at_the_mode(train, scaling, Priors(learn=False, length=length))
            p = predict(posterior.draws(16), scaling, held).bag
            total += np.log(np.where(held.label == 1, p, 1.0 - p)).sum()
        assert_allclose(value, total, rtol=1e-9)
    assert found.length == lengths[int(np.argmax(found.judged))]


def data_scaling(data):
    model = CollapsedVMMIC()
    return model.init(model.observe(data), np.random.default_rng(0)).scaling


def at_the_mode(data, scaling, priors):
    search = ModeSearch.start(scaling, priors, 0, keep_first=False)
    likelihood = CollapsedVMMIC().likelihood(search)
    while not search.found:
        search = mode_step(search, Sums.at(search.points, likelihood, data, True), priors)
    return search.posterior(priors)


def test_folds_hold_both_classes_in_any_partitioning():
    data, _ = simulate(np.random.default_rng(0), 61)
    for parts in (1, 3, 61):
        label, fold = (
            np.concatenate(each)
            for each in zip(*((p.label, folds_of(p, 5)) for p in split(data, parts)), strict=True)
        )
        counts = np.array([[np.sum((label == y) & (fold == f)) for f in range(5)] for y in (0, 1)])
        assert counts.min() > 0


@pytest.mark.parametrize(("folds", "n"), [(0, 600), (4, 150)])
def test_noise_asks_for_less_than_signal(folds, n):
    data, _ = simulate(np.random.default_rng(1), n)
    mixed = np.random.default_rng(0).permutation(data.label)
    model = ChosenVMMIC(CollapsedVMMIC(tolerance=1.0), (0.01, 8.0, 1000.0), folds)
    signal = fit(model, [data], max_iter=4000).q
    noise = fit(model, [bags(data.modalities, mixed)], max_iter=4000).q
    assert (signal.length, noise.length) == (8.0, 0.01)


def test_partitions_and_threads_choose_alike():
    data, _ = simulate(np.random.default_rng(3), 80)
    model = ChosenVMMIC(CollapsedVMMIC(tolerance=1.0), (0.5, 8.0))
    one, four = (fit(model, split(data, n), max_iter=4000).q for n in (1, 4))
    assert_allclose(one.judged, four.judged, rtol=1e-8)
    by_folds = ChosenVMMIC(CollapsedVMMIC(tolerance=1.0), (0.5, 8.0), 3)
    alone, threaded = (fit(by_folds, split(data, 4), max_iter=4000, threads=n).q for n in (1, 3))
    assert same_bits(alone, threaded)


@pytest.mark.parametrize("folds", [0, 3])
def test_choice_goes_on_from_any_stored_point_with_the_same_bits(folds):
    data = [simulate(np.random.default_rng(0), 60)[0]]
    model = ChosenVMMIC(CollapsedVMMIC(both_starts_below=0.0, tolerance=1.0), (0.5, 8.0), folds)
    reduce = InProcess(model, data)
    q = model.init(reduce.observe(), np.random.default_rng(3))
    cursor = start(model, q, reduce)
    for number in range(1, 61):
        after = model.global_step(cursor.q, cursor.stats)
        stored = from_bytes(to_bytes(cursor), Cursor)
        assert same_bits(model.global_step(stored.q, stored.stats), after)
        stats_ = reduce(after, number=number, warm=number - 1)
        cursor = Cursor(after, stats_, number, model.elbo(after, stats_))
        assert np.isfinite(cursor.elbo)
        assert model.posterior(cursor.q).draws(4).shape == (4, 67)
    (step,) = itertools.islice(loop_of(model)(model, reduce, cursor), 1)
    assert isinstance(step.q, Chosen)


def test_many_features_of_noise_do_not_hurt():
    """60 bags, 60 features of which two tell: the choice holds the rest down."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 60))
    bag = np.repeat(np.arange(200), 5)
    score = np.bincount(bag, (x[:, 0] > 0.5) * 2.0 * x[:, 1], 200)
    data = bags([Instances.from_rows(bag, x, 200)], (score > 0).astype(np.int8))
    train, new = data.take(np.arange(60)), data.take(np.arange(60, 200))
    loss = {}
    for name, model in {
        "chosen": ChosenVMMIC(),
        "wide": CollapsedVMMIC(Priors(learn=False, slope_variance=4.0)),
    }.items():
        posterior = model.posterior(fit(model, [train], max_iter=4000).q)
        p = np.clip(predict(posterior.draws(), posterior.scaling, new).bag, 1e-9, 1 - 1e-9)
        loss[name] = -np.log(np.where(new.label == 1, p, 1.0 - p)).mean()
    assert loss["chosen"] < loss["wide"]
    assert loss["chosen"] < np.log(2.0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lengths": ()}, "a grid of squared lengths > 0"),
        ({"lengths": (1.0, -2.0)}, "a grid of squared lengths > 0"),
        ({"folds": 1}, "2 folds or more"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with pytest.raises(ValueError, match=said):
        ChosenVMMIC(**options)
