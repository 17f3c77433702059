"""Item 8: what users act on holds, for every row of the table that has it."""

from __future__ import annotations

import pytest

from tests.contract import calibration
from tests.contract.calibration import Calibration
from tests.contract.cases import cases

RUNS = 1000


def every_row():
    """Return every form of every row, and the rows that have none with their reason."""
    found = []
    for case in cases():
        items = (case.calibration,) if isinstance(case.calibration, str) else case.calibration
        for item in items:
            name = case.name if isinstance(item, str) else f"{case.name}-{item.form}"
            found.append(pytest.param(item, id=name))
    return found


def asked(item: Calibration | str) -> Calibration:
    if isinstance(item, str):
        pytest.skip(item)
    return item


@pytest.mark.parametrize("item", every_row())
def test_8_a_few_runs_are_calibrated(item, record_property):
    item = asked(item)
    found = calibration.collect(item, item.few, seed=1)
    for name, value in calibration.check(item, found, power=False).items():
        record_property(name, value)


@pytest.mark.slow
@pytest.mark.parametrize("item", every_row())
def test_8_a_thousand_runs_are_calibrated(item, record_property):
    item = asked(item)
    found = calibration.collect(item, RUNS)
    for name, value in calibration.check(item, found, power=True).items():
        record_property(name, value)
