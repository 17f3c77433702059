"""A disk or a store that fails at the n-th call: the same bits, or one sentence and a resume."""

import random

import pytest

from flows import storage
from flows.faults import InputError, RunError
from flows.records.runs import RunPaths
from flows.storage.objects import retry
from tests.faults import journeys, pipelines, stores
from tests.faults.proxy import Proxy, never
from tests.faults.seam import FAULTS, Seam

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")

SEED = 15
LOCAL = [
    (name, kind, fault)
    for name in sorted(pipelines.SETTINGS)
    for kind in journeys.JOURNEYS
    for fault in FAULTS
]
REMOTE = [
    (name, kind, fault)
    for name in ("experts", "keywords")
    for kind in journeys.JOURNEYS
    for fault in ("slow down", "drop", "away")
]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Wait less for what does not come back, and leave out what storage has no part in."""
    journeys.quicken(monkeypatch)
    monkeypatch.setattr(retry, "CALL", retry.Retry(times=4, first=0.01))
    monkeypatch.setattr(retry, "PATIENCE", 0.2)


def survive(made, begun, give, heal):
    """Give a command where something fails; return the sentence, after all has come right."""
    said = ""
    try:
        outcome = give()
    except InputError as error:
        # A target that is full is refused, and half of an input is a damaged one.
        said = str(error)
        assert made.runs() == begun
    except RunError as error:
        said = str(error)
        assert "\n" not in said
    assert len(said) < 2000
    heal()
    made.latest()
    if said and "--resume" in said:
        outcome = made.go(said.rpartition("--resume ")[2])
    elif said:
        outcome = made.go()
    work = RunPaths(made.target, outcome["run_id"]).work
    if not said and storage.exists(work):
        # The last call failed, after the run was published, and the log says so.
        assert storage.names(work) in ([], ["lock.json"])
        storage.delete(work)
    made.check(outcome)
    return said


def fail_at(made, fault, number):
    """Let the n-th call fail that the fault can befall; return how many there were."""
    made.begin()
    begun, seam = made.runs(), Seam(fail_at=number, fault=fault)
    with pytest.MonkeyPatch.context() as patch:
        seam.enter(patch)
        survive(made, begun, made.go, patch.undo)
    return seam.befallen


def each_of(chosen, test):
    failed = {}
    for number in chosen:
        try:
            test(number)
        except Exception as error:
            failed[number] = f"{type(error).__name__}: {error}"[:300]
    assert not failed


@pytest.mark.parametrize(("name", "kind", "fault"), random.Random(SEED).sample(LOCAL, 3))
def test_a_disk_that_fails_at_a_call(name, kind, fault, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, str(tmp_path))
    calls = fail_at(made, fault, None)
    number = random.Random(f"{SEED} {name} {kind} {fault}").randint(1, calls)
    each_of([number], lambda n: fail_at(made, fault, n))


@pytest.mark.parametrize(
    "fault", ["short read", pytest.param("I/O error", marks=pytest.mark.thorough)]
)
def test_a_disk_that_fails_while_a_run_is_published(fault, tmp_path):
    made = journeys.set_out("bags", "resume", tmp_path, str(tmp_path))
    calls = fail_at(made, fault, None)
    each_of(range(calls - 10, calls + 1, 2), lambda n: fail_at(made, fault, n))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "kind", "fault"), LOCAL)
def test_a_disk_that_fails_at_every_call(name, kind, fault, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, str(tmp_path))
    calls = fail_at(made, fault, None)
    each_of(range(1, calls + 1), lambda n: fail_at(made, fault, n))


@pytest.fixture
def store(server, monkeypatch):
    """A store behind a proxy, which is given what to do to which request."""
    proxy = Proxy(server.port)
    stores.enter(monkeypatch, proxy.url)
    yield proxy
    proxy.close()


def answer_badly(made, proxy, fault, number):
    """Let the n-th request fail, or with "away" all from there; return how many there were."""
    made.begin()
    begun, first = made.runs(), len(proxy.seen)

    def plan(count, line):
        at = count - first
        if number is None or at < number or (fault != "away" and at > number):
            return None
        if fault == "drop":
            return "drop" if line.startswith("GET") else "reset"
        return "slow down"

    def heal():
        proxy.plan = never

    proxy.plan = plan
    survive(made, begun, made.go, heal)
    return len(proxy.seen) - first


@pytest.mark.parametrize(("name", "kind", "fault"), random.Random(19).sample(REMOTE, 1))
def test_a_store_that_fails_at_a_request(name, kind, fault, store, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, stores.make_bucket())
    requests = answer_badly(made, store, fault, None)
    number = random.Random(f"{SEED} {name} {kind} {fault}").randint(1, requests * 3 // 4)
    each_of([number], lambda n: answer_badly(made, store, fault, n))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("name", "kind", "fault"), REMOTE)
def test_a_store_that_fails_at_every_request(name, kind, fault, store, tmp_path):
    made = journeys.set_out(name, kind, tmp_path, stores.make_bucket())
    requests = answer_badly(made, store, fault, None)
    each_of(range(1, requests * 3 // 4), lambda n: answer_badly(made, store, fault, n))
