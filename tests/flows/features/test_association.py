"""Whether columns are related, and answers on a scale of which rows give few."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.stats import pearsonr

from flows.features.input.categories import Column
from flows.features.input.pairs import best_cut, score_linear, test_pairs
from tests.flows.commands import setting_args, succeed
from tests.flows.experts.runs import latest, written
from vbmodels.features.imputation.latent import one_hot

test_pairs.__test__ = False
AGREE = ["strongly disagree", "disagree", "neutral", "agree", "strongly agree"]


def planned(rows, effect, seed=0):
    """Nine answers from 0 to 4, of which each row gives three or four, and two groups of rows."""
    rng = np.random.default_rng(seed)
    z = rng.random((rows, 1)) < 0.4
    sign = np.where(np.arange(9) % 3 == 2, -1, 1)
    codes = (2 + effect * sign * (z - 0.4) + rng.normal(0, 1.2, (rows, 9))).round().clip(0, 4)
    given = np.arange(9) // 3 == rng.integers(0, 3, (rows, 1))
    given[np.arange(rows), rng.integers(0, 9, rows)] = True
    return z[:, 0], np.where(given, codes, -1).astype(int)


def columns_of(codes):
    names = tuple("01234")
    counts = [tuple((codes[:, d] == r).sum() for r in range(5)) for d in range(codes.shape[1])]
    return [
        Column(f"q{d}", names, n, 0, ordered=names, scale="numbers") for d, n in enumerate(counts)
    ]


def joint_of(codes):
    cells = one_hot(codes, np.full(codes.shape[1], 5))
    return cells.T @ cells


def test_the_score_is_that_of_the_correlation():
    _, codes = planned(300, 2.0)
    both = codes[(codes[:, :2] >= 0).all(1), :2]
    joint = joint_of(codes)[:5, 5:10]
    r = pearsonr(*both.T).statistic
    assert_allclose(score_linear(joint, np.arange(5.0), np.arange(5.0)), (len(both) - 1) * r**2)


def test_the_test_holds_its_level_and_finds_two_groups_of_rows_with_few_answers():
    null = [
        test_pairs(columns_of(c), joint_of(c)).p
        for _, c in (planned(300, 0.0, s) for s in range(40))
    ]
    assert 0.3 < np.mean(null) < 0.7
    assert np.mean(np.array(null) < 0.1) < 0.25
    _, codes = planned(300, 2.0)
    found = test_pairs(columns_of(codes), joint_of(codes))
    assert found.related
    assert found.pairs == 36
    assert found.power > 0.5
    few = codes[:40]
    assert test_pairs(columns_of(few), joint_of(few)).power < 0.1


def test_a_scale_is_cut_where_it_says_most_of_the_others():
    codes = np.repeat(np.arange(5), 20)[:, None] @ np.ones((1, 2), int)
    codes[:, 1] = np.where(codes[:, 0] > 2, 4, 0)
    one, other = columns_of(codes)
    assert best_cut(one, [(other, joint_of(codes)[:5, 5:])]) == 3


def test_two_groups_are_found_among_rows_that_answer_few_of_the_questions(tmp_path):
    z, codes = planned(300, 2.0)
    columns = {
        f"q{d}": [AGREE[c] if c >= 0 else None for c in column] for d, column in enumerate(codes.T)
    }
    source = written(tmp_path, columns)
    succeed("features", source, tmp_path / "out", *setting_args("n_features=3", "tol=1e-4"))
    _, record = latest(tmp_path / "out")
    assert all(len(column["levels"]) == 2 for column in record["results"]["columns"])
    (feature,) = record["results"]["features"]
    assert abs(feature["share"]["value"] - z.mean()) < 0.15
    succeed("score", tmp_path / "out", source, tmp_path / "scored")
