"""Stopped before every write, and in it: what goes on from there ends with the same bits."""

from __future__ import annotations

import random

import pytest

from tests.faults import journeys, pipelines

SEED, EACH = 15, 3
ALL = [(name, kind) for name in sorted(pipelines.SETTINGS) for kind in journeys.JOURNEYS]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    journeys.quicken(monkeypatch)


def moments(made):
    """Return every moment to stop at: before each call that changes storage, and in it."""
    changes = journeys.changes_of(made)
    return [(n, False) for n in range(1, len(changes) + 1)] + [
        (n, True) for n, (kind, _) in enumerate(changes, 1) if kind in ("write", "delete")
    ]


def stop_at(made, chosen):
    failed = {}
    for number, half in chosen:
        try:
            journeys.stopped_at(made, number, half)
        except Exception as error:
            failed[number, half] = f"{type(error).__name__}: {error}"[:300]
    assert not failed


@pytest.mark.parametrize(("name", "kind"), ALL)
def test_a_stop_at_a_few_writes(name, kind, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, str(tmp_path))
    chosen = random.Random(f"{SEED} {name} {kind}").sample(moments(made), EACH)
    stop_at(made, chosen)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "kind"), ALL)
def test_a_stop_at_every_write(name, kind, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, str(tmp_path))
    stop_at(made, moments(made))
