"""Items 9 and 10 bite: bugs planted in the toy are caught, each by the check that is named here."""

from dataclasses import replace

import numpy as np
import pytest

from tests.contract import toy
from tests.contract.case_toy import CASE
from vbmodels.core.algorithm import NonFiniteBound
from vbmodels.core.expfam import Gamma
from vbmodels.testing import extremes, truth
from vbmodels.testing.case import ContractBroken


class MeanOfRows(toy.Toy):
    """What a partition reports is divided by its own number of rows, which may be 0."""

    def observe(self, batch):
        seen = super().observe(batch)
        with np.errstate(invalid="ignore"):
            return replace(seen, total=float(np.float64(seen.total) / seen.groups) * seen.groups)


class CountsPartitions(toy.Toy):
    """Every partition counts one group more than it has."""

    def suff_stats(self, q, batch, local):
        return super().suff_stats(q, batch, local) + toy.Sums(1.0, 0.0, 0.0, 0.0)


class SquaresOverflow(toy.Toy):
    """A logarithm of the data's spread, which is 0 where they are constant."""

    @staticmethod
    def squares(batch, z):
        with np.errstate(divide="ignore"):
            return toy.Toy.squares(batch, z) + 0.0 * np.log(np.ptp(batch.y))


class OneRowLess(toy.Toy):
    """The compiled loop leaves the last row of a partition as it found it."""

    def local_step(self, q, batch, local):
        new = super().local_step(q, batch, local)
        rate = new.lam.rate.copy()
        rate[-1] = self.d0
        return replace(new, lam=Gamma(new.lam.shape, rate))


@pytest.mark.parametrize("bug", [MeanOfRows, CountsPartitions])
def test_partitions_without_rows_that_matter_are_caught(bug):
    said = r"(bound|posterior) changed|the bound became nan"
    with pytest.raises((ContractBroken, NonFiniteBound), match=said):
        extremes.check_empty(replace(CASE, model=bug), CASE.extremes.empty)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_that_are_not_finite_are_caught():
    with pytest.raises((ContractBroken, NonFiniteBound), match=r"a constant|bound became nan"):
        extremes.check_finite(replace(CASE, model=SquaresOverflow), CASE.extremes)


def test_a_refusal_that_does_not_come_is_caught():
    item = replace(CASE.extremes, refused={"a million": "no such sentence"})
    with pytest.raises(ContractBroken, match="it was not refused"):
        extremes.check_finite(CASE, item)


def test_compiled_loops_that_miss_a_row_are_caught():
    item = replace(CASE.extremes, plain=toy.Toy)
    extremes.check_compiled(CASE, item)
    with pytest.raises(ContractBroken, match="is not the plain form's"):
        extremes.check_compiled(replace(CASE, model=OneRowLess), item)


def test_what_is_published_by_way_of_its_history_is_caught():
    with pytest.raises(ContractBroken, match="from cold, what is published differs"):
        truth.check_agreement(replace(CASE, model=toy.FrozenLocal), CASE.agreement)


def test_a_score_by_another_rule_is_caught():
    def narrower(model, q, batch):
        return 0.9 * model.local_step(q, batch, None).z.mean

    truth.check_agreement(CASE, replace(CASE.agreement, scored=by_the_same_rule))
    with pytest.raises(ContractBroken, match="a score of the training rows differs"):
        truth.check_agreement(CASE, replace(CASE.agreement, scored=narrower))


def by_the_same_rule(model, q, batch):
    return model.local_step(q, batch, None).z.mean


def test_a_score_that_may_differ_says_why():
    with pytest.raises(ValueError, match="a sentence that says why"):
        replace(CASE.agreement, largest=0.1)


def test_rows_of_one_score_prove_nothing():
    item = replace(CASE.agreement, published=lambda model, q, batch, local: 0.0 * local.z.mean)
    with pytest.raises(ContractBroken, match="prove nothing"):
        truth.check_agreement(CASE, item)
