"""The suite bites: bugs planted in the toy are caught, and by the items named here."""

from dataclasses import fields, replace

import pytest

from tests.contract import toy
from tests.contract.case_toy import CASE
from vbmodels.core.cavi import cavi, squarem
from vbmodels.testing import runs, stationary, truth
from vbmodels.testing.case import Case, ContractBroken
from vbmodels.testing.contract import hook_or_skip

CAUGHT = {
    toy.MissingGlobalDivergence: {"definition", "global step"},
    toy.MisscaledPrior: {"global step", "rise"},
    toy.UnnormalisedLocal: {"definition", "local step", "rise"},
    toy.UnnormalisedConstant: {"definition"},
    toy.StaleLocal: {"local step", "rise"},
    toy.FrozenLocal: {"local step"},
    toy.PriorInEveryPartition: {"global step", "partition", "rise"},
    toy.WrongSignEntropy: {"definition", "local step", "rise"},
    toy.PrecisionForVariance: {"global step", "rise"},
    toy.WrongShape: {"local step", "rise"},
    toy.HiddenState: {"executors", "resume"},
}


def caught(case: Case) -> set[str]:
    """Return the items that a case fails; those that need long sampling are left out."""
    items = {
        "rise": lambda: [runs.check_rise(case, cavi, seed) for seed in case.seeds],
        "partition": lambda: runs.check_partitions(case, cavi),
        "executors": lambda: runs.check_executors(case, cavi),
        "resume": lambda: runs.check_resume(case, cavi),
        "global step": lambda: stationary.check_global_step(case, case.global_step, 0),
        "local step": lambda: stationary.check_local_step(case, case.local_step, 0),
        "definition": lambda: truth.check_definition(case, case.monte_carlo, 0),
    }
    failed = set()
    for name, check in items.items():
        try:
            check()
        except ContractBroken:
            failed.add(name)
    return failed


@pytest.mark.thorough
def test_the_toy_itself_is_clean():
    assert caught(CASE) == set()


@pytest.mark.thorough
@pytest.mark.parametrize("bug", CAUGHT, ids=lambda bug: bug.__name__)
def test_planted_bug_is_caught(bug):
    assert caught(replace(CASE, name=bug.__name__, model=bug)) == CAUGHT[bug]


@pytest.mark.parametrize(
    ("bug", "said"),
    [
        (toy.PrecisionLeftBehind, "the local steps take the bound from"),
        (toy.WeightBeforeItsLogarithm, "at sweep 0\n.*that of the state of its vector"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_vector_that_is_no_states_is_caught(bug, said):
    case = replace(CASE, model=bug)
    with pytest.raises(ContractBroken, match=said):
        stationary.check_near(case, case.global_step, 0)


@pytest.mark.parametrize("bug", [toy.MissingGlobalDivergence, toy.UnnormalisedConstant])
def test_bound_off_the_evidence_is_caught(bug):
    with pytest.raises(ContractBroken, match="evidence"):
        truth.check_evidence(replace(CASE, model=bug), CASE.evidence, seed=0)


@pytest.mark.thorough
@pytest.mark.parametrize("bug", [toy.MisscaledPrior, toy.WrongShape, toy.FrozenLocal])
def test_posterior_off_the_sampler_is_caught(bug):
    item = replace(CASE.sampler, mean_tolerance=0.1, sd_ratio=(0.7, 1.05))
    with pytest.raises(ContractBroken):
        truth.check_sampler(replace(CASE, model=bug), item)


def test_wrong_recovery_is_caught():
    item = replace(CASE.recovery, error=lambda seed: 5.0 if seed == 3 else 1.0)
    with pytest.raises(ContractBroken, match="errors by seed"):
        truth.check_recovery(CASE, item)


def test_bound_that_stands_still_proves_nothing():
    class Still(toy.Toy):
        def global_step(self, q, stats):
            return q

    with pytest.raises(ContractBroken):
        runs.check_rise(replace(CASE, model=Still), cavi, seed=0)
    with pytest.raises(ContractBroken):
        stationary.check_global_step(replace(CASE, model=Still), CASE.global_step, seed=0)


def test_reason_in_place_of_an_item_skips_with_it():
    with pytest.raises(pytest.skip.Exception, match="there are no local parameters"):
        hook_or_skip("there are no local parameters")


def test_an_item_left_out_is_an_error():
    given = {field.name: getattr(CASE, field.name) for field in fields(CASE)}
    del given["recovery"]
    with pytest.raises(TypeError, match="recovery"):
        Case(**given)


def test_an_excuse_is_no_reason():
    with pytest.raises(ValueError, match=r"expected sampler, or a sentence.*got 'later'"):
        replace(CASE, sampler="later")


class Picky(toy.Toy):
    """Its extrapolated points are always refused, so a cycle has an evaluation in between."""

    def from_vector(self, q, vector):
        return replace(super().from_vector(q, vector), mean=1e3)


def test_resume_around_refused_trials():
    runs.check_resume(replace(CASE, model=Picky), squarem)


class OwnHidden(toy.HiddenState):
    """Its own loop does not save it from what it hides."""

    def algorithm(self, q):
        return cavi(self, q)


def test_a_loop_of_ones_own_excuses_nothing():
    case = replace(CASE, model=OwnHidden)
    assert list(runs.loops(case)) == ["own"]
    with pytest.raises(ContractBroken, match="resumed at step"):
        runs.check_resume(case, runs.plain_loop(case))
