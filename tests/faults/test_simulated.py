"""Some seeds of the simulated cluster, and proof that it would find what it looks for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flows.engine import block, calls
from flows.engine.on_cluster import OnCluster
from tests.faults.simulated import scene
from tests.faults.simulated_cluster import Box, Violation, World

FIRST = 300  # `python -m tests.faults.simulated` starts at 0


@pytest.fixture(scope="module")
def made():
    with scene() as found:
        yield found


def ended(made, seeds=range(FIRST, FIRST + 120), world=World):
    return [made.run(seed, world(seed)) for seed in seeds]


def test_the_same_bits_or_a_sentence(made):
    found = ended(made)
    assert sum(one.sentence is None for one in found) > 60
    assert sum(one.sentence is not None for one in found) > 3
    faults = sum((one.faults for one in found), start=type(found[0].faults)())
    assert len(faults) >= 12, faults
    assert faults["direct call lost"] > 10, faults


def test_a_seed_repeats_itself(made):
    first, again = ended(made, [FIRST + 3] * 2)
    assert replace(first, seed=0) == replace(again, seed=0)


class OneDeadlyPartition(World):
    """Nothing is wrong but partition 4, which takes every worker that touches it."""

    def _plan(self):
        super()._plan()
        self.budget, self.deadly, self.replaced = 0, 4, 1.0
        self.rates = dict.fromkeys(self.rates, 0.0)
        self.coming = [one for one in self.coming if one[2] == self.join]


def test_what_died_with_a_deadly_partition_is_not_blamed(made):
    for one in ended(made, range(FIRST, FIRST + 30), OneDeadlyPartition):
        assert "workers die on partition 4 " in one.sentence or "no worker for" in one.sentence
        assert one.faults.keys() <= {"job unknown", "result lost"}, one.faults


def caught(made, pattern, seeds=range(400), world=World):
    with pytest.raises(Violation, match=pattern):
        ended(made, seeds, world)


class OneMailbox(World):
    """Everything that is ever heard of lands in one place."""

    def mailbox(self):
        if not hasattr(self, "box"):
            self.box = Box(self)
        return self.box


def test_it_finds_stale_results(made, monkeypatch):
    """Results of an earlier sweep, heard late, count for the one that runs."""
    take = OnCluster._take

    def credulous(self, asked, sent, results):
        asked.sent.append(sent)
        take(self, asked, sent, results)

    monkeypatch.setattr(OnCluster, "_take", credulous)
    caught(made, "other bits|Error", world=OneMailbox)


class NobodyComesBack(World):
    def _plan(self):
        super()._plan()
        self.kinds, self.replaced = ["all workers die"], 0.0


def test_it_finds_a_wait_for_workers_without_a_limit(made, monkeypatch):
    sentences = [one.sentence or "" for one in ended(made, range(30), NobodyComesBack)]
    assert sum("no worker for 120 s" in sentence for sentence in sentences) > 10
    monkeypatch.setattr(calls, "NO_WORKERS", math.inf)
    caught(made, "no worker for", world=NobodyComesBack)


def test_it_finds_local_states_that_are_not_replayed(made, monkeypatch):
    """A worker that does not know a partition's local state starts it cold."""

    def cold(order, job, index, number, cache):
        return cache.get_local(order.attempt, index, number)[1]

    monkeypatch.setattr(block, "local_state", cold)
    caught(made, "other bits|Error")
