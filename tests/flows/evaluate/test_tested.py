"""What a test says of a model, against its definition, and of models made to be this or that."""

import numpy as np
import pytest

from flows.evaluate.estimate import Estimate
from flows.evaluate.rivals import CLASSES, COUNT, LABEL, NUMBER, compare
from flows.evaluate.tested import of_classes, of_label, of_number

RANDOM = np.random.default_rng(4)
P = RANDOM.random(400)
Y = (RANDOM.random(400) < P).astype(float)
ALONE = np.arange(400)


def of(p, y=Y, group=ALONE, rivals=None):
    base = np.full(y.size, (y.sum() + 0.5) / (y.size + 1.0))
    return of_label(y, p, base, group, rivals or {})


def test_a_label_is_measured_as_scikit_learn_does():
    from sklearn.metrics import accuracy_score, confusion_matrix, log_loss, roc_auc_score

    found = of(P)
    assert found.auroc.value == pytest.approx(roc_auc_score(Y, P))
    assert found.loss.value == pytest.approx(log_loss(Y, P))
    assert found.share.value == pytest.approx(accuracy_score(Y, P > 0.5))
    _, called, missed, _ = confusion_matrix(Y, P > 0.5).ravel().tolist()
    assert (found.missed, found.called) == (missed, called)
    assert found.right == 400 - missed - called
    assert found.common == max(Y.sum(), 400 - Y.sum())
    assert found.gain.value == pytest.approx(found.base - found.loss.value)
    assert found.better


def test_bands_and_bins_hold_every_row_once():
    found = of(P)
    assert sum(band.rows for band in found.bands) == sum(one.rows for one in found.bins) == 400
    assert sum(band.wrong for band in found.bands) == 400 - found.right
    expected = np.minimum(P, 1.0 - P)
    assert sum(band.expected for band in found.bands) == pytest.approx(expected.sum())
    assert found.bands[0].rows == (P <= 0.2).sum()


def test_probabilities_that_are_shares_are_seldom_too_sure_or_too_cautious():
    """Each is said of at most one in twenty of right probabilities, and of all that are wrong."""

    def said(by):
        p = 1.0 / (1.0 + np.exp(-by * np.log(P / (1.0 - P))))
        draws = [np.random.default_rng(100 + seed).random(400) < P for seed in range(40)]
        found = [of(p, y.astype(float)) for y in draws]
        return sum(one.too_cautious for one in found), sum(one.too_sure for one in found)

    assert said(0.2) == (40, 0)
    assert said(5.0) == (0, 40)
    assert max(said(1.0)) <= 5


def test_labels_that_are_turned_round_have_no_area():
    found = of(np.where(Y == 1, 0.1, 0.9))
    assert (found.auroc.value, found.auroc.low, found.right) == (0.0, 0.0, 0)
    assert not found.better


def test_guesses_are_seldom_better_than_the_base_rate():
    """Of guesses one in forty is, by chance."""
    draws = [np.random.default_rng(200 + seed).random(400) for seed in range(40)]
    assert sum(of(0.5 + 0.1 * (p - 0.5)).better for p in draws) <= 2


def test_labels_of_groups_tell_less():
    """With labels drawn by group, guesses by group look good to a test that does not know."""
    group = np.repeat(np.arange(20), 20)
    wider = of(P, group=group)
    assert wider.groups == 20
    assert wider.auroc.high - wider.auroc.low > 2.0 * (of(P).auroc.high - of(P).auroc.low)


def test_rivals_are_compared_row_by_row_the_best_first():
    rivals = {"itself": P, "half": np.full(400, 0.5), "truth": np.where(Y == 1, 0.99, 0.01)}
    found = of(P, rivals=rivals).rivals
    assert [one.name for one in found] == ["truth", "itself", "half"]
    assert found[0].more.high < 0.0
    assert found[2].more.is_above
    assert found[1].more == Estimate(0.0, 0.0, 0.0)
    assert found[2].auroc == 0.5
    turned = compare(LABEL, Y, rivals["half"], {"ours": P}, ALONE)[0].more
    assert turned.value == pytest.approx(-found[2].more.value)


def test_a_verdict_does_not_hang_on_the_order_of_rows():
    """The draws are of groups: another order of the same rows moves an end by less than 3 %."""
    rival = {"half": 0.5 + 0.6 * (P - 0.5)}
    one = of(P[:200], Y[:200], ALONE[:200], {"half": rival["half"][:200]}).rivals[0].more
    order = RANDOM.permutation(200)
    other = compare(LABEL, Y[order], P[order], {"half": rival["half"][order]}, order)[0].more
    assert other.value == pytest.approx(one.value)
    assert abs(other.low - one.low) < 0.03 * (one.high - one.low)


def test_classes_are_counted_and_their_base_is_their_shares():
    truth = RANDOM.integers(0, 3, 300).astype(float)
    p = 0.2 + 0.4 * np.eye(3)[np.where(RANDOM.random(300) < 0.7, truth.astype(int), 0)]
    shares = np.tile(np.bincount(truth.astype(int)) / 300, (300, 1))
    found = of_classes(truth, p, shares, ALONE[:300], {"shares": shares}, ordered=True)
    assert np.sum(found.counts) == 300
    assert found.right == np.trace(found.counts)
    assert [sum(row) for row in found.counts] == np.bincount(truth.astype(int)).tolist()
    assert found.better
    assert found.near >= found.right
    assert found.rivals[0].more.value == pytest.approx(found.gain.value)
    assert found.rivals == compare(CLASSES, truth, p, {"shares": shares}, ALONE[:300])
    none = of_classes(truth, shares, shares, ALONE[:300], {}, ordered=False)
    assert (none.near, none.better) == (None, False)


def test_a_number_is_explained_as_far_as_it_saves_of_the_means_squares():
    y = RANDOM.normal(size=200)
    predicted = y + 0.5 * RANDOM.normal(size=200)
    base, ours = np.full(200, y.mean()), ALONE[:200]
    inside = (np.abs(y - predicted) < 1.0).astype(float)
    found = of_number(y, predicted, base, ours, {"mean": base}, NUMBER, inside)
    error, total = np.mean((y - predicted) ** 2), np.mean((y - y.mean()) ** 2)
    assert found.explained.value == pytest.approx(1.0 - error / total)
    assert (found.loss.value, found.base) == pytest.approx((np.sqrt(error), np.sqrt(total)))
    assert found.rivals[0].more.value == pytest.approx(found.explained.value)
    assert found.rivals[0].explained == pytest.approx(0.0)
    assert found.inside.value == inside.mean()
    assert found.better
    assert not of_number(y, base + 0.01 * RANDOM.normal(size=200), base, ours, {}, NUMBER).better


def test_what_is_explained_is_at_most_all():
    """Also where few rows have most of the spread: the interval is of a ratio."""
    y = np.array([*RANDOM.normal(size=28), 40.0, -35.0])
    predicted = 0.98 * y + 0.1 * RANDOM.normal(size=30)
    base, group = np.full(30, y.mean()), np.arange(30)
    found = of_number(y, predicted, base, group, {}, NUMBER).explained
    assert found.low < found.value < found.high <= 1.0
    same = of_number(np.ones(5), np.ones(5), np.ones(5), np.arange(5), {}, NUMBER)
    assert (same.explained.value, same.better) == (1.0, False)


def counted(test):
    """Return the numbers of a test that rows of some weight and as many rows have alike."""
    (rival,) = test.rivals
    numbers = {name: value for name, value in vars(test).items() if isinstance(value, float | int)}
    estimates = {n: value.value for n, value in vars(test).items() if isinstance(value, Estimate)}
    of_rival = {"loss of the other": rival.loss, "more": rival.more.value, "area": rival.auroc}
    return {**numbers, **estimates, **of_rival, "counts": getattr(test, "counts", None)}


@pytest.mark.parametrize("kind", ["label", "classes", "number", "count"])
def test_a_weight_counts_as_so_many_rows(kind):
    """In every figure, but for the number of groups and what chance can do."""
    rng = np.random.default_rng(5)
    times = rng.permutation(np.repeat([1, 2, 5], [100, 50, 20]))
    n = times.size
    truth = rng.integers(0, 3 if kind == "classes" else 2, n).astype(float)
    p, base = rng.random(n), np.full(n, truth.mean())
    if kind == "classes":
        p, base = rng.dirichlet(np.ones(3), n), np.full((n, 3), 1.0 / 3.0)

    def test_of(rows, weight):
        y, own, mean, group = truth[rows], p[rows], base[rows], rows
        rivals = {"other": p[::-1][rows]}
        if kind == "label":
            return of_label(y, own, mean, group, rivals, weight)
        if kind == "classes":
            return of_classes(y, own, mean, group, rivals, True, weight)
        target = NUMBER if kind == "number" else COUNT
        return of_number(y, own, mean, group, rivals, target, own > 0.5, weight)

    scaled = times / times.mean()
    one, many = test_of(np.arange(n), scaled), test_of(np.repeat(np.arange(n), times), 1.0)
    share = times.sum() / n
    for name, value in counted(many).items():
        if name in ("rows", "groups", "off", "too_cautious", "too_sure"):
            continue
        if isinstance(value, int) and name != "better":
            assert counted(one)[name] == round(value / share), name
        elif name == "counts" and value:
            assert np.allclose(one.counts, np.array(value) / share, atol=0.5)
        elif name != "counts":
            assert counted(one)[name] == pytest.approx(value), name
