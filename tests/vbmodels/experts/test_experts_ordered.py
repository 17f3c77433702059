"""Classes in an order: what each fit sees, and what its probabilities make of each class."""

import numpy as np
from numpy.testing import assert_array_equal

from tests.vbmodels.experts.coded_rows import cut_coded
from vbmodels.core.fit import fit
from vbmodels.experts.additive.model import AdditiveExperts
from vbmodels.experts.additive.one_vs_rest import ClassRows, OneVersusRest, OrderedRows


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    f = 1.5 * x[:, 0]
    return x, np.digitize(f + rng.logistic(size=n), [-1.5, 0.0, 1.5])


def test_each_fit_is_of_being_above_a_class():
    x, classes = drawn(30, 0)
    classes[0] = -1
    (coded,) = cut_coded(x, np.sign(classes + 0.5))
    batch = OrderedRows(coded, classes, 4)
    for k, split in enumerate(batch.splits):
        assert_array_equal(split.t, np.where(classes < 0, 0, np.where(classes > k, 1, -1)))
    assert len(batch.splits) == 3


def test_an_order_helps_where_there_is_one():
    x, classes = drawn(400, 1)
    new, truth = drawn(4000, 2)
    (coded,) = cut_coded(x, np.where(classes > 0, 1.0, -1.0))
    (fresh,) = cut_coded(x, np.where(classes > 0, 1.0, -1.0), new=new)
    losses = {}
    for ordered, rows in ((False, ClassRows), (True, OrderedRows)):
        model = OneVersusRest(AdditiveExperts(1), ordered)
        found = model.posterior(fit(model, [rows(coded, classes, 4)], max_iter=2000).q)
        p = found.probabilities(fresh)
        losses[ordered] = -np.log(np.maximum(p[np.arange(4000), truth], 1e-12)).mean()
        assert np.all(p >= 0.0)
    assert losses[True] < losses[False]
