"""A panel, and several cases, stopped at writes and by kill -9: the same bits when resumed."""

import random

import numpy as np
import pyarrow as pa
import pytest

from tests.faults import journeys
from tests.faults.test_every_write import moments, stop_at

PANEL = {"control": "", "panel": "normal1,normal2,normal3"}
CASES = {"cases": "case1,case2,case3"}
SEED = 4


def renamed(sample):
    """Return a function that makes a sample of every replicate of a sample."""

    def change(table):
        samples, replicates = (np.array(table[n].to_pylist()) for n in ("sample", "replicate"))
        of = samples == sample
        word = {"control": "normal", "case": "case"}[sample]
        names = np.where(of, np.char.add(word, replicates.astype(str)), samples)
        return table.set_column(
            table.column_names.index("sample"), "sample", pa.array(names.tolist())
        )

    return change


@pytest.fixture
def set_out(monkeypatch, tmp_path):
    journeys.quicken(monkeypatch)

    def made(kind, sample, changes):
        real, change = journeys._input, renamed(sample)
        monkeypatch.setattr(
            journeys, "_input", lambda *where: [change(table) for table in real(*where)]
        )
        return journeys.set_out("variants", kind, tmp_path, str(tmp_path), **changes)

    return made


@pytest.mark.thorough
@pytest.mark.parametrize("kind", journeys.JOURNEYS)
@pytest.mark.parametrize(("sample", "changes"), [("control", PANEL), ("case", CASES)])
def test_a_stop_at_a_few_writes(set_out, kind, sample, changes):
    made = set_out(kind, sample, changes)
    stop_at(made, random.Random(f"{SEED} {kind}").sample(moments(made), 2))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("sample", "changes"), [("control", PANEL), ("case", CASES)])
def test_a_stop_at_every_write(set_out, sample, changes):
    made = set_out("fit", sample, changes)
    stop_at(made, moments(made))
