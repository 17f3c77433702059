"""What a broken identity says, and what the suite needs to be installed."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.contract import toy
from tests.contract.case_toy import CASE
from vbmodels.core.cavi import cavi
from vbmodels.testing import ContractBroken, runs, stationary, truth
from vbmodels.testing.contract import ITEMS, ModelContract


def broken_by(check, bug, *given) -> ContractBroken:
    with pytest.raises(ContractBroken) as broken:
        check(replace(CASE, model=bug), *given)
    return broken.value


@pytest.mark.parametrize(
    ("check", "bug", "given", "where", "found"),
    [
        (stationary.check_global_step, toy.MisscaledPrior, (CASE.global_step, 0),
         "along coordinate 3, which moves rate", "the maximum is "),
        (stationary.check_local_step, toy.WrongShape, (CASE.local_step, 0), "which moves ", ""),
        (runs.check_rise, toy.PrecisionForVariance, (cavi, 0),
         "batches(0, 2), from step ", "it fell by "),
        (runs.check_resume, toy.HiddenState, (cavi,), "resumed at step", "in one and"),
    ],
)  # fmt: skip
def test_a_broken_identity_says_where_and_what(check, bug, given, where, found):
    broken = broken_by(check, bug, *given)
    assert where in broken.where
    assert found in broken.found


def test_a_bound_off_its_definition_says_by_how_much():
    broken = broken_by(truth.check_definition, toy.UnnormalisedConstant, CASE.monte_carlo, 0)
    off = 0.5 * np.log(2.0 * np.pi) * 3  # three groups
    assert float(broken.found.rpartition(": ")[2].split()[0]) == pytest.approx(off, rel=0.05)
    assert broken.where == "tiny(0), sweep 0"


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
