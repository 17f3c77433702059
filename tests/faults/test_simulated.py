"""Some seeds of the simulated cluster, and proof that it would find what it looks for."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flows.engine import block, calls, on_cluster, placement
from flows.engine.on_cluster import OnCluster
from flows.engine.seam import Lost
from tests.faults import simulated_cluster
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


def test_it_finds_a_lost_block_that_is_forgotten(made, monkeypatch):
    take = OnCluster._take

    def forgetful(self, asked, sent, results):
        if not isinstance(sent.outcome(), Lost):
            take(self, asked, sent, results)

    monkeypatch.setattr(OnCluster, "_take", forgetful)
    monkeypatch.setattr(OnCluster, "_look_after", lambda *_: None)
    caught(made, "heard and said nothing|no end")


def test_it_finds_a_lost_call_that_is_forgotten(made, monkeypatch):
    monkeypatch.setattr(calls._Calling, "_ask_for_missing", lambda _: None)
    caught(made, "heard and said nothing|no end")


class NobodyComesBack(World):
    def _plan(self):
        super()._plan()
        self.kinds, self.replaced = ["all workers die"], 0.0


def test_it_finds_a_wait_for_workers_without_a_limit(made, monkeypatch):
    sentences = [one.sentence or "" for one in ended(made, range(30), NobodyComesBack)]
    assert sum("no worker for 120 s" in sentence for sentence in sentences) > 10
    monkeypatch.setattr(calls, "NO_WORKERS", math.inf)
    caught(made, "no worker for", world=NobodyComesBack)


def test_it_finds_a_late_block_that_is_never_asked_for_again(made, monkeypatch):
    monkeypatch.setattr(placement.Placement, "patience", lambda *_: math.inf)
    caught(made, "heard and said nothing|no end")


def test_it_finds_local_states_that_are_not_replayed(made, monkeypatch):
    """A worker that does not know a partition's local state starts it cold."""

    def cold(order, job, index, number, cache):
        return cache.get_local(order.attempt, index, number)[1]

    monkeypatch.setattr(block, "local_state", cold)
    caught(made, "other bits|Error")


def test_it_finds_a_job_that_a_new_worker_is_not_given(made, monkeypatch):
    monkeypatch.setattr(on_cluster, "JobUnknown", ())
    caught(made, "JobUnknown|Error")


def test_it_finds_a_direct_call_that_is_waited_for_when_its_worker_is_gone(made, monkeypatch):
    """Dask never says that a call of a worker that is gone is lost."""
    monkeypatch.setattr(World, "_tell_lost", lambda *_: None)
    monkeypatch.setattr(placement.Placement, "patience", lambda *_: math.inf)
    monkeypatch.setitem(simulated_cluster.QUIET, "fit", 60.0)

    class OneDies(World):
        def _plan(self):
            super()._plan()
            self.rates, self.pace, self.budget = dict.fromkeys(self.rates, 0.0), 0.3, 0
            self.deadly, self.replaced = None, 1.0
            self.coming = [one for one in self.coming if one[2] == self.join]
            self.join()

        def _ask_desk(self, entry):
            super()._ask_desk(entry)
            if self.direct == 2:
                self.die(next(w for w in self.present() if w.address == entry.task.worker))

    ended(made, range(20), OneDies)
    unknown = property(lambda block: False, lambda block, direct: None)
    monkeypatch.setattr(on_cluster._Asked, "direct", unknown)
    monkeypatch.setattr(OnCluster, "_ask_for_missing", lambda *_: None)
    caught(made, "heard and said nothing", range(20), OneDies)


def test_it_finds_a_worker_that_is_not_given_the_log(made, monkeypatch):
    monkeypatch.setattr(on_cluster, "LogNeeded", ())
    caught(made, "LogNeeded|Error")


class ThePreferredDiesWhileTheOtherPauses(World):
    """Dask leaves what then prefers the first unscheduled for good."""

    def _plan(self):
        super()._plan()
        self.rates, self.budget, self.pace = dict.fromkeys(self.rates, 0.0), 0, 0.3
        self.deadly, self.replaced, self.latency = None, 0.0, 0.5
        self.coming = []
        self.join()
        self.join()
        self.lost = False

    def _arrive(self, entry):
        if self.stage == "fit" and not self.lost and entry.task.worker is not None:
            self.lost = True
            one, other = self.present()
            gone, stays = (one, other) if one.address == entry.task.worker else (other, one)
            stays.paused = True
            self.die(gone)
            self.after(1.0, lambda: self.resume(stays))
        super()._arrive(entry)


def test_what_the_scheduler_has_with_nobody_is_asked_for_again(made, monkeypatch):
    for one in ended(made, range(30), ThePreferredDiesWhileTheOtherPauses):
        assert one.sentence is None
    monkeypatch.setattr(OnCluster, "_ask_for_missing", lambda *_: None)
    caught(made, "was with nobody", range(30), ThePreferredDiesWhileTheOtherPauses)
