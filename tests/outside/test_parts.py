"""What the example packages do before and around their models."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import digamma
from vbflows_lda import kernels, vocabulary
from vbflows_lda.model import Topics
from vbflows_lda.settings import TopicSettings
from vbflows_lda.tests import row as topics_row
from vbflows_logistic import model as logistic
from vbflows_logistic.simulate import simulate as simulate_labels
from vbflows_mixture import start
from vbflows_mixture.model import Mixture, Rows
from vbflows_mixture.predict import told
from vbflows_mixture.simulate import simulate

from flows.data import scale
from flows.faults import InputError
from vbmodels.core.fit import fit
from vbmodels.core.in_process import tree_sum
from vbmodels.core.moments import Moments
from vbmodels.testing import memoising
from vbmodels.testing.identity import ContractBroken


def test_words_are_counted_and_chosen_by_documents():
    table = vocabulary.counted(
        pa.chunked_array([["a", "b"]]), pa.chunked_array([["A cat, the cat; x 12", "The dog"]])
    )
    assert table["words"].to_pylist() == [["cat", "the"], ["dog", "the"]]
    assert table["counts"].to_pylist() == [[2, 1], [1, 1]]
    parts = [Counter(cat=3, the=5), Counter(cat=1, dog=1)]
    assert vocabulary.chosen(parts, 10, TopicSettings(largest_share=0.4)) == ["cat"]


def test_a_vocabulary_without_words_is_refused_in_a_sentence():
    with pytest.raises(InputError, match=r"expected words that stand in 2 documents or more.*none"):
        vocabulary.chosen([Counter(dog=1)], 1, TopicSettings())


def test_the_digamma_of_the_kernel_is_scipys():
    x = np.concatenate([np.geomspace(1e-6, 1e6, 300), [1.4616321449683622]])
    found = np.array([kernels._digamma(one) for one in x])
    np.testing.assert_allclose(found, digamma(x), rtol=1e-13, atol=1e-14)


def test_a_row_with_other_columns_is_named():
    lists = pa.array([[1.0, 2.0], [3.0]], pa.list_(pa.float64()))
    table = pa.table({"id": ["first", "second"], "features": pa.chunked_array([lists])})
    with pytest.raises(InputError, match="expected 2 features in every row, found 1 in row second"):
        scale.features_of(table, "rows.parquet")


def test_scales_of_partitions_are_that_of_all_rows():
    x = np.random.default_rng(0).normal([1e6, 0.0, 3.0], [1.0, 1e-3, 0.0], (50, 3))
    found = scale.merged([Moments.of(p) for p in np.array_split(x, 4)])
    np.testing.assert_allclose(found.mean, x.mean(0), rtol=1e-14)
    np.testing.assert_allclose(found.sd[:2], x.std(0)[:2], rtol=1e-8)
    assert found.sd[2] == 1.0


def test_a_mixture_starts_at_the_same_centres_however_rows_are_cut():
    x, _ = simulate(np.random.default_rng(1), 400, 3, 2)
    model, found = Mixture(3), []
    for parts in (1, 5):
        seen = tree_sum([model.observe(Rows(p)) for p in np.array_split(x, parts)])
        found.append(start.centres(seen, 3, np.random.default_rng(0)))
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-12)
    assert found[0][0].sum() == 400


def test_the_density_of_a_mixture_integrates_to_one():
    x, _ = simulate(np.random.default_rng(2), 200, 2, 2)
    q = fit(Mixture(2), [Rows(x)], tol=1e-6).q
    line = np.linspace(-30.0, 30.0, 601)
    grid = np.stack(np.meshgrid(line, line), -1).reshape(-1, 2)
    total = np.exp(told(q, grid)[1]).sum() * (line[1] - line[0]) ** 2
    assert total == pytest.approx(1.0, abs=0.01)


def test_with_many_columns_a_step_on_all_rows_brings_the_start_nearer(monkeypatch):
    rng = np.random.default_rng(3)
    drawn = simulate_labels(rng, 48_000, 0.1 * rng.standard_normal(logistic.MANY))
    cuts = np.array_split(np.arange(48_000), 2)
    parts = [logistic.Rows(drawn.x[cut], drawn.label[cut]) for cut in cuts]
    model = logistic.LogisticRegression()
    end = fit(model, parts, tol=1e-8).q.w

    def away() -> float:
        start = model.init(tree_sum([model.observe(part) for part in parts]), rng).w
        return float((((start.mean - end.mean) @ end.factor) ** 2).mean())

    with_step = away()
    monkeypatch.setattr(logistic, "GAIN", 0.0)
    assert with_step < 0.2 * away()


def test_half_a_product_is_the_whole_one():
    rng = np.random.default_rng(4)
    x, weight = rng.standard_normal((500, logistic.MANY)), rng.random(500)
    np.testing.assert_allclose(
        logistic._gram(x, weight), (x.T * weight) @ x, rtol=1e-12, atol=1e-12
    )


class OneMaximum(Topics):
    """It says that its bound has one maximum, where topics may change places."""

    unimodal = True


def test_a_model_that_is_not_unimodal_is_caught_when_it_says_so():
    case = topics_row.row(OneMaximum)
    with pytest.raises(ContractBroken, match=r"(?s)ends at the same maximum.*they end"):
        memoising.check_one_maximum(case, case.global_step, 0)
