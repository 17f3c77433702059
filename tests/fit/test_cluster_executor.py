"""Workers that are made up, with a seeded schedule of mishaps: the same bits, or a sentence.

Holders, executor, driver and checkpoints are the real ones. More seeds:
``python -m tests.fit.test_cluster_executor 2000``.
"""

import random
import shutil
import sys
import tempfile
from collections import Counter
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from flows.faults import ComputeError
from flows.fit import cluster_executor, tree
from flows.fit.cluster_executor import ClusterExecutor, Lost, Worker, no_workers
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.fit.holder import Answer, Holder
from flows.records import lock
from flows.storage import StorageError, TransientStorageError
from tests.fit.jobs import cluster_named, rates, toy_job
from vbmodels.core.state import same_bits

LOOPS = ("cavi", "squarem")
QUICK = {"POLL": 0.0005, "NO_WORKERS": 0.05, "UNKNOWN": 0.1, "LEAST": 0.1}


class World(ClusterExecutor):
    """Some workers; each call of a holder may meet a mishap, and workers come."""

    def __init__(self, job, seed, count, rate, kinds=None):
        super().__init__(job, cluster_named("the made-up cluster"))
        self.random, self.rate = random.Random(seed), rate
        self.kinds = kinds or sorted(MISHAPS)
        self.met = Counter()
        self.present = {f"worker-{i}": 1 + (seed + i) % 2 for i in range(count)}
        self.holders, self.names = {}, count
        self.deadly = None

    def workers(self, silence):
        if self.random.random() < self.rate / 4 and self.rate < 1:
            self.come()
        present = sorted(self.present.items())
        return {
            a: Worker(n, 0, progress=getattr(self.holders.get(a), "done", 0)) for a, n in present
        }

    def come(self):
        self.names += 1
        self.present[f"worker-{self.names}"] = 1

    def die(self, address):
        self.present.pop(address, None)
        self.holders.pop(address, None)
        if self.random.random() < 0.9:
            self.come()

    def open(self, workers):
        for address in workers:
            if address not in self.present or (
                self.rate < 1 and self.random.random() < self.rate / 4
            ):
                self.met["took no holder"] += 1
                raise Lost(f"{address} took no holder", {address}, died=False)
            if address not in self.holders:
                self.holders[address] = Holder(self.job, workers[address].threads)

    def call(self, method, args):
        return {address: self.one(address, method, of) for address, of in args.items()}

    def one(self, address, method, args):
        future = Future()
        kind = self.random.choice(self.kinds) if self.random.random() < self.rate else None
        holder = self.holders.get(address)
        if self.deadly is not None and self.deadly in holds(holder, method, args):
            kind = "dies"
        if kind is not None:
            self.met[kind] += 1
            MISHAPS[kind](self, address, future)
        elif holder is None:
            future.set_exception(OSError("it is gone"))
        else:
            future.set_result(holder.call(self._doing(method, args), method, *args))
        return future

    def restart(self, address):
        self.met["ended"] += 1
        self.die(address)

    def drop(self, workers):
        for address in workers:
            self.holders.pop(address, None)


def holds(holder, method, args):
    """Return the partitions that a call works on."""
    return args[0] if method == "take" else holder._locals if holder else ()


def dies(world, address, future):
    world.die(address)
    future.set_exception(OSError("the connection broke"))


def dies_in_silence(world, address, future):
    world.die(address)


def all_die(world, address, future):
    for one in list(world.present):
        world.die(one)
    future.set_exception(OSError("the connection broke"))


def hangs(world, address, future):
    pass


def answer_lost(world, address, future):
    future.set_exception(OSError("the connection broke"))


def storage_fails(world, address, future):
    future.set_result(Answer(None, TransientStorageError("no answer")))


MISHAPS = {f.__name__.replace("_", " "): f for f in
           (dies, dies_in_silence, all_die, hangs, answer_lost, storage_fails)}  # fmt: skip


class Scene:
    """Jobs, and what they give without any mishap."""

    def __init__(self, folder):
        self.folder, self.jobs, self.expected = Path(folder), {}, {}
        for loop in LOOPS:
            self.jobs[loop] = job = toy_job(
                self.folder / loop, 13, loop=loop, max_iter=7, checkpoint_every=2, tol=1e-300
            )
            alone = replace(job, store=f"{job.store}-alone")
            self.expected[loop] = self.fit(alone, InProcess(alone))

    def fit(self, job, executor, resume=False):
        result = run_fit(job, executor, resume=resume)
        scored = executor.map(rates, result.q, result.number)
        executor.close()
        return result, [(i, None if mean is None else mean.tobytes()) for i, mean in scored]

    def run(self, seed, count=None, rate=None, **more):
        """Fit on made-up workers; return the sentence, if there is one, and what was met."""
        rng = random.Random(f"of {seed}")
        loop = LOOPS[seed % len(LOOPS)]
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        job = replace(self.jobs[loop], store=str(folder / "run"))
        deadly, local = more.pop("deadly", None), more.pop("local", False)
        rate = rng.choice([0.02, 0.08, 0.2]) if rate is None else rate
        world = World(job, seed, count or rng.choice([1, 2, 3, 5]), rate, **more)
        world.deadly, world.local, sentence = deadly, local, None
        try:
            found = self.fit(job, world)
        except (ComputeError, StorageError) as error:
            sentence = str(error)
            assert "\n" not in sentence
            assert len(sentence) < 500
            found = self.fit(job, InProcess(job), resume=True)
        expected = self.expected[loop]
        assert same_bits(found[0].q, expected[0].q), seed
        assert found[0].trace.elbo.tolist() == expected[0].trace.elbo.tolist(), seed
        assert found[1] == expected[1], seed
        shutil.rmtree(folder)
        return sentence, world


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    with patch.multiple(cluster_executor, **QUICK), patch.object(lock, "SETTLE", 0.0):
        yield Scene(tmp_path_factory.mktemp("worlds"))


def test_the_same_bits_or_a_sentence(scene):
    ended = [scene.run(seed) for seed in range(40)]
    met = sum((world.met for _, world in ended), Counter())
    assert set(MISHAPS) < set(met)
    assert sum(sentence is None for sentence, _ in ended) > 20
    assert sum(world.rolled for _, world in ended) > 40


def test_a_roll_back_reads_only_what_its_workers_do_not_hold(scene):
    world = World(scene.jobs["cavi"], 1, 3, 0.0)
    world.restore(None, ())
    world.digests()
    before, holders = dict(world.placed), dict(world.holders)
    world.present.pop(gone := min(before))
    world.holders.pop(gone)
    world.observe()
    assert world.rolled == 1
    for address, ids in world.placed.items():
        holder = holders[address]
        assert world.holders[address] is holder
        assert holder.reads == len({*before[address], *ids})


def test_32_workers(scene):
    for seed in range(3):
        sentence, world = scene.run(seed, 32, 0.005)
        assert sentence is None
        assert len(world.placed) == 13, "each partition has a worker"


def test_the_partition_that_kills_workers_is_named_and_no_other(scene):
    for seed in range(6):
        sentence, world = scene.run(seed, 3, 0.0, deadly=(partition := seed % 13))
        assert f"workers die on partition {partition} (" in sentence or "no worker" in sentence
        assert world.met["dies"] >= 3


@pytest.mark.parametrize("local", [False, True])
def test_advice_on_lost_workers_is_of_their_kind(scene, monkeypatch, local):
    """Workers of this machine have no logs, and nobody else can start some."""
    said = str(no_workers("2 local workers", local))
    assert ("start some" in said, "fewer or no --workers" in said) == (not local, local)
    monkeypatch.setattr(cluster_executor, "UNKNOWN", 0.01)
    sentence, _ = scene.run(1, 2, 1.0, kinds=["hangs"], local=local)
    assert ("fewer or no --workers" in sentence) == local
    assert "--resume" in sentence


def test_a_worker_that_is_never_heard_of_ends_in_a_sentence(scene, monkeypatch):
    monkeypatch.setattr(cluster_executor, "UNKNOWN", 0.01)
    sentence, world = scene.run(1, 2, 1.0, kinds=["hangs"])
    assert "failed 8 times in a row" in sentence or "no worker" in sentence
    assert world.met["ended"] >= 2


def test_it_finds_local_states_that_are_not_run_again(scene, monkeypatch):
    take = Holder.take
    monkeypatch.setattr(Holder, "take", lambda self, d, n, k, sweeps: take(self, d, n, k, ()))
    with pytest.raises((AssertionError, LookupError)):
        run(scene, range(20), 0.2)


def test_it_finds_sums_whose_order_depends_on_workers(scene, monkeypatch):
    """Holders add what they hold, and the driver adds those sums: other bits."""
    monkeypatch.setattr(
        "flows.fit.holder.cover",
        lambda held, low, high: sorted({(i, i + 1) for i in held if low <= i < high}),
    )
    monkeypatch.setattr("flows.fit.executor.finish", lambda sums, low, high: sum_in_order(sums))
    with pytest.raises(AssertionError):
        run(scene, range(9), 0.0)


def test_an_error_of_a_holder_comes_as_itself(scene):
    """Also where it was raised while a loss was handled, and copies take the loss along."""
    holder = Holder(scene.jobs["cavi"])
    holder.take({1: None}, None, {}, ())
    try:
        raise Lost("gone", {"worker-1"}, died=True)
    except Lost:
        holder._locals = {1: {0: None}}
        answer = holder.call("checkpoint", "keep", 4)
    assert isinstance(answer.error, LookupError)


def run(scene, seeds, rate):
    return [scene.run(seed, rate=rate) for seed in seeds]


def sum_in_order(sums):
    total, *others = [sums[key] for key in sorted(sums, reverse=True)]
    for other in others:
        total = total + other
    return total


def test_3000_placements_give_one_tree():
    rng = random.Random(5)
    values = [rng.uniform(-1, 1) ** 5 for _ in range(97)]
    for _ in range(3000):
        n = rng.randint(1, 97)
        threads = {f"w{i}": rng.randint(1, 4) for i in range(rng.randint(1, 9))}
        homes = {i: rng.choice(["w0", "w1", "gone"]) for i in range(0, n, rng.randint(1, 5))}
        placed = tree.place(n, threads, homes)
        assert sorted(i for ids in placed.values() for i in ids) == list(range(n))
        sums = {
            (a, b): tree.finish({(i, i + 1): values[i] for i in range(n)}, a, b)
            for ids in placed.values()
            for a, b in tree.cover(ids, 0, n)
        }
        whole = tree.finish({(i, i + 1): values[i] for i in range(n)}, 0, n)
        assert tree.finish(sums, 0, n) == whole


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as name,
        patch.multiple(cluster_executor, **QUICK),
        patch.object(lock, "SETTLE", 0.0),
    ):
        made = Scene(name)
        said, met = Counter(), Counter()
        for number in range(int(sys.argv[1])):
            sentence, world = made.run(number)
            met.update(world.met)
            said.update(["the same bits at once" if sentence is None else sentence[:60]])
        print(said, met)
