"""The fit in process: the same bits as the plain loop, after any stop, in any memory."""

import warnings
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest

from flows import storage
from flows.fit.cluster_executor import ClusterExecutor, Worker
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.fit.holder import Holder, PartitionMemoryError
from flows.fit.job import Job
from tests.contract import vmmic
from tests.contract.toy import Groups, Looping
from tests.fit.jobs import Killed, Overshooting, cluster_named, kill_at, rates, toy_job
from vbmodels.bags.bags import Bags, split
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.core.fit import NotConverged, fit
from vbmodels.core.state import from_bytes, same_bits, to_bytes


def plain(job):
    """Fit the same job with the loop of vbmodels alone."""
    batches = [from_bytes(storage.read_bytes(url), Groups) for url in job.partitions]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return fit(job.model, batches, seed=job.seed, tol=job.tol, max_iter=job.max_iter)


def uninterrupted(job):
    """Fit the same job elsewhere, in one go."""
    job = replace(job, store=job.store + "-whole")
    return run_fit(job, InProcess(job))


@pytest.mark.parametrize("loop", ["cavi", "squarem"])
def test_the_fit_equals_the_plain_loop(tmp_path, loop):
    job = toy_job(tmp_path, loop=loop)
    expected = plain(job)
    seen = []
    result = run_fit(job, InProcess(job), on_step=seen.append)
    assert same_bits(result.q, expected.q)
    assert result.trace.elbo.tolist() == expected.trace
    assert result.converged
    assert expected.converged
    assert result.iterations == expected.iterations
    assert [p.elbo for p in seen] == expected.trace
    assert seen[0].change is None
    assert [p.change for p in seen[1:]] == np.diff(expected.trace).tolist()
    assert np.all(np.diff(result.trace.seconds) >= 0)


@pytest.mark.parametrize("loop", ["cavi", "squarem"])
@pytest.mark.parametrize("stop", [0, 3, 4])
def test_resume_gives_the_same_bits(tmp_path, loop, stop):
    job = toy_job(tmp_path, loop=loop)
    expected = uninterrupted(job)
    with pytest.raises(Killed):
        run_fit(job, InProcess(job), on_step=kill_at(stop))
    executor = InProcess(job)
    result = run_fit(job, executor, resume=True)
    assert same_bits(result.q, expected.q)
    assert result.trace.elbo.tolist() == expected.trace.elbo.tolist()
    assert result.trace.iteration.tolist() == expected.trace.iteration.tolist()
    assert result.converged
    assert result.number == expected.number
    other = replace(job, store=job.store + "-again")
    whole = InProcess(other)
    final = run_fit(other, whole)
    for (i, a), (j, b) in zip(
        executor.map(rates, result.q, result.number),
        whole.map(rates, final.q, final.number),
        strict=True,
    ):
        assert i == j
        assert np.array_equal(a, b)


class Clock:
    """Four seconds a step, as far as the driver sees."""

    now = 0.0

    def perf_counter(self):
        return self.now

    def pass_and(self, stop):
        def on_step(progress):
            self.now += 4.0
            kill_at(stop)(progress)

        return on_step


@pytest.mark.parametrize(
    ("stop", "kept"), [(6, []), (7, []), (8, ["00000007"]), (20, ["00000007", "00000015"])]
)
def test_checkpoints_are_due_by_seconds(tmp_path, monkeypatch, stop, kept):
    job = toy_job(tmp_path, checkpoint_every=None, tol=1e-300)
    expected = uninterrupted(job)
    assert not storage.exists(storage.join(job.store + "-whole", "checkpoints"))
    clock = Clock()
    monkeypatch.setattr("flows.fit.driver.time", clock)
    with pytest.raises(Killed):
        run_fit(job, InProcess(job), on_step=clock.pass_and(stop))
    assert storage.names(storage.join(job.store, "checkpoints")) == kept
    assert same_bits(run_fit(job, InProcess(job), resume=True).q, expected.q)


def downhill(tmp_path, **options):
    """Return a job of a loop that may go downhill; the last average here is not the best."""
    parts = split(vmmic.simulate(2, 60, (3,), width=12), 2)
    urls = tuple(storage.join(str(tmp_path), f"bags-{i}.npz") for i in range(len(parts)))
    for url, part in zip(urls, parts, strict=True):
        storage.write_bytes(url, to_bytes(part))
    store = storage.join(str(tmp_path), "run")
    return Job(CollapsedVMMIC(), Bags, urls, store, "run", checkpoint_every=1, **options)


@pytest.mark.thorough
def test_the_best_that_was_visited_survives_a_resume(tmp_path):
    """The best parameters are those of a fit without a stop, however often there was one."""
    job = downhill(tmp_path, max_iter=130)
    whole = uninterrupted(job)
    batches = [from_bytes(storage.read_bytes(url), Bags) for url in job.partitions]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        expected = fit(job.model, batches, seed=job.seed, tol=job.tol, max_iter=130)
    assert same_bits(whole.q, expected.q)
    assert whole.trace.elbo[-1] == max(whole.trace.elbo)
    for number in whole.trace.iteration[1:-1:5]:
        with pytest.raises(Killed):
            run_fit(job, InProcess(job), on_step=kill_at(number))
        again = run_fit(job, InProcess(job), resume=True)
        assert same_bits(again.q, whole.q)
        assert again.trace.elbo.tolist() == whole.trace.elbo.tolist()
    # Nothing is left to do: what it leaves is the same.
    assert same_bits(run_fit(job, InProcess(job), resume=True).q, whole.q)


def test_a_longer_run_goes_on_from_a_shorter_one(tmp_path):
    job = toy_job(tmp_path)
    expected = uninterrupted(job)
    short = replace(job, max_iter=8)
    run_fit(short, InProcess(short))
    result = run_fit(job, InProcess(job), resume=True)
    assert same_bits(result.q, expected.q)


@pytest.mark.parametrize("memory", [0, 1000])
@pytest.mark.parametrize("loop", ["cavi", "squarem"])
def test_little_memory_changes_no_bit(tmp_path, memory, loop):
    job = toy_job(tmp_path, loop=loop)
    expected = uninterrupted(job)
    executor = InProcess(job, memory=memory)
    result = run_fit(job, executor)
    assert same_bits(result.q, expected.q)
    assert executor.holder.held <= memory
    assert executor.holder.reads > result.iterations


class Forgetful(ClusterExecutor):
    """An executor whose only worker is replaced before some sweeps."""

    def __init__(self, job, before=()):
        super().__init__(job, cluster_named("a cluster of one"))
        self.before = before

    def __call__(self, q, *, number, warm):
        if number in self.before:
            self._ready = False
        return super().__call__(q, number=number, warm=warm)

    def workers(self, silence):
        return {"alone": Worker(1, 0)}

    def open(self, workers):
        self.holder = Holder(self.job)

    def call(self, method, args):
        future = Future()
        for of_one in args.values():
            future.set_result(self.holder.call(self._doing(method, of_one), method, *of_one))
        return dict.fromkeys(args, future)

    def restart(self, address):
        raise AssertionError(address)

    def drop(self, workers):
        pass


@pytest.mark.parametrize("loop", ["cavi", "squarem"])
@pytest.mark.parametrize("every", [3, pytest.param(100, marks=pytest.mark.thorough)])
def test_a_roll_back_gives_the_same_bits(tmp_path, loop, every):
    job = toy_job(tmp_path, loop=loop, checkpoint_every=every)
    expected = uninterrupted(job)
    executor = Forgetful(job, before=range(2, 60))
    result = run_fit(job, executor)
    assert same_bits(result.q, expected.q)
    executor._ready = False
    lost = executor.map(rates, result.q, result.number)
    other = replace(job, store=job.store + "-again")
    kept = InProcess(other)
    again = run_fit(other, kept)
    for (_, a), (_, b) in zip(lost, kept.map(rates, again.q, again.number), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("stop", [2, 6])
def test_rejected_extrapolations_are_resumed_and_run_again(tmp_path, stop):
    job = toy_job(tmp_path, model=Overshooting(), loop="squarem", tol=1e-12)
    expected = uninterrupted(job)
    skipped = expected.iterations - len(expected.trace.elbo)
    assert skipped >= 2
    assert same_bits(expected.q, plain(job).q)
    with pytest.raises(Killed):
        run_fit(job, Forgetful(job, before=range(2, 60, 2)), on_step=kill_at(stop))
    result = run_fit(job, Forgetful(job, before=range(1, 60, 3)), resume=True)
    assert same_bits(result.q, expected.q)
    assert result.trace.iteration.tolist() == expected.trace.iteration.tolist()


@pytest.mark.parametrize("names", ["local-*", "*"])
def test_a_checkpoint_damaged_during_the_fit_gives_way_to_the_one_before(tmp_path, names, caplog):
    job = toy_job(tmp_path)
    expected = uninterrupted(job)
    damaged = []

    class Damaging(Forgetful):
        def __call__(self, q, *, number, warm):
            if number == 8 and not damaged:
                for path in (tmp_path / "runs/run/checkpoints/00000006").glob(names):
                    damaged.append(path.write_bytes(b"broken"))
            return super().__call__(q, number=number, warm=warm)

    result = run_fit(job, Damaging(job, before=[8]))
    assert same_bits(result.q, expected.q)
    assert result.trace.elbo.tolist() == expected.trace.elbo.tolist()
    assert damaged
    assert "going on from the checkpoint before" in caplog.text
    assert "resuming run run after sweep 3" in caplog.text or "trying the one before" in caplog.text


class Squares(Looping):
    """A toy whose local states hold something of the data alone, in the place of its own."""

    rebuilds_locals = True

    def local_step(self, q, batch, local):
        return super().local_step(
            self.init(self.observe(batch), np.random.default_rng(0)), batch, None
        )


def test_what_follows_from_the_data_is_in_no_checkpoint(tmp_path):
    job = toy_job(tmp_path, model=Squares(), max_iter=12, tol=0.0)
    expected = uninterrupted(job)
    executor = Forgetful(job, before=range(2, 12, 3))
    result = run_fit(job, executor)
    assert same_bits(result.q, expected.q)
    assert not executor._log
    folders = sorted((tmp_path / "runs/run/checkpoints").iterdir())
    assert folders
    for folder in folders:
        assert {p.name for p in folder.iterdir()} == {"fit.npz"}
    local = executor.map(rates, result.q, result.number)
    with pytest.raises(Killed):
        run_fit(job, InProcess(job), on_step=kill_at(4))
    again = Forgetful(job)
    assert same_bits(run_fit(job, again, resume=True).q, expected.q)
    for (_, a), (_, b) in zip(local, again.map(rates, result.q, result.number), strict=True):
        assert np.array_equal(a, b)


class Hungry(Looping):
    def local_step(self, q, batch, local):
        raise MemoryError("unable to allocate")


def test_a_partition_that_does_not_fit_is_named(tmp_path):
    job = toy_job(tmp_path, model=Hungry())
    with pytest.raises(PartitionMemoryError, match=r"partition 0 .*part-00000.*limit \d+ MB"):
        run_fit(job, InProcess(job))
