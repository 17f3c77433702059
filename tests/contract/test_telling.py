"""What a broken identity says, and what the suite needs to be installed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.contract import toy
from tests.contract.case_toy import CASE
from vbmodels.core.cavi import cavi
from vbmodels.testing import ContractBroken, bits, rising, stationary, truth
from vbmodels.testing.bits import apart
from vbmodels.testing.contract import ITEMS, ModelContract


def told(check, *given) -> ContractBroken:
    with pytest.raises(ContractBroken) as broken:
        check(*given)
    return broken.value


def test_a_step_that_is_not_stationary_names_its_leaf_and_the_distance():
    case = replace(CASE, model=toy.MisscaledPrior)
    broken = told(stationary.check_global_step, case, case.global_step, 0)
    assert broken.item == 4
    assert "along coordinate 3, which moves rate" in broken.where
    assert broken.found.startswith("the maximum is ")
    local = told(
        stationary.check_local_step, replace(CASE, model=toy.WrongShape), CASE.local_step, 0
    )
    assert "which moves lam." in local.where or "which moves z." in local.where


def test_a_bound_off_its_definition_says_by_how_much():
    broken = told(truth.check_definition, replace(CASE, model=toy.UnnormalisedConstant),
                  CASE.monte_carlo, 0)  # fmt: skip
    off = 0.5 * np.log(2.0 * np.pi) * 3  # three groups
    assert float(broken.found.rpartition(": ")[2].split()[0]) == pytest.approx(off, rel=0.05)
    assert broken.where == "tiny(0), sweep 0"


def test_a_falling_bound_names_the_step():
    broken = told(rising.check_rise, replace(CASE, model=toy.PrecisionForVariance), cavi, 0)
    assert broken.where.startswith("batches(0, 2), from step ")
    assert "it fell by " in broken.found


def test_other_bits_name_the_leaf_and_both_values():
    broken = told(bits.check_resume, replace(CASE, model=toy.HiddenState), cavi)
    assert "resumed at step" in broken.where
    assert "in one and" in broken.found


def test_what_two_states_differ_in_is_told():
    one = toy.Groups(np.array([[1.0, 2.0]]))
    assert apart(one, toy.Groups(np.array([[1.0, 2.5]]))) == (
        "y[0, 1] is 2.0 in one and 2.5 in the other, 0.5 away"
    )
    assert apart(one, toy.Groups(np.array([[1.0]]))) == (
        "y has the shape (1, 2) in one and (1, 1) in the other"
    )


def test_every_test_of_the_contract_has_its_item():
    tests = {name for name in vars(ModelContract) if name.startswith("test_")}
    assert tests == set(ITEMS)


def test_a_class_without_a_row_says_so():
    class TestNothing(ModelContract):
        pass

    with pytest.raises(ValueError, match=r"TestNothing: expected `case = Case\(...\)` in its body"):
        TestNothing().pytest_generate_tests(None)


WITHOUT = """
import sys
sys.modules["pytest"] = None
import vbmodels.testing
assert "arviz" not in sys.modules, "arviz"
assert "numba" not in sys.modules, "numba"
print(vbmodels.testing.Case.__name__)
try:
    vbmodels.testing.ModelContract
except ImportError as error:
    print(error)
"""


def test_pytest_is_needed_for_the_class_alone():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "Case", "the contract's tests need pytest: install vbflows[testing]",
    ]  # fmt: skip
