"""What a run may rely on when it carries out tasks, with Prefect and without it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import pytest
from flows.run.memo import Memo
from flows.run.tasks import each

from flows.data import storage
from flows.data.storage import retry
from flows.data.storage.retry import Retry
from flows.events import Events
from flows.faults import Fault, InputError
from flows.run import tasks

FAST = Retry(times=3, first=0.01)


@dataclass(frozen=True)
class Read:
    rows: int
    names: tuple[str, ...]
    share: float | None = None


class Counted:
    """Fails as often as it is told to, then works; counts its calls."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures, self.error, self.calls = failures, error, 0
        self._lock = threading.Lock()

    def __call__(self, item: int) -> int:
        with self._lock:
            self.calls += 1
            if self.calls <= self.failures:
                raise self.error
        return 10 * item


@pytest.fixture(params=["plain", "recorded"])
def inside(request, monkeypatch):
    """Run a body with nobody listening, or in a Prefect flow run on a real server."""
    monkeypatch.setattr(tasks, "threads", lambda: 2)
    monkeypatch.setattr(retry, "TASK", FAST)
    if request.param == "plain":
        return lambda body: body(Events())
    request.getfixturevalue("prefect_server")
    from flows.keywords.settings import KeywordSettings
    from flows.prefect.flow import pipeline_flow

    def run(body):
        made = pipeline_flow("keywords", KeywordSettings, lambda events, *_: body(events))
        return made("source", "target")

    return run


def test_results_arrive_in_the_order_of_the_items(inside):
    def slow_first(item: int, plus: int) -> int:
        time.sleep(0.05 / (item + 1))
        return item + plus

    assert inside(lambda events: each(events, "read", slow_first, range(6), 100)) == list(
        range(100, 106)
    )
    assert inside(lambda events: each(events, "read", slow_first, [], 100)) == []


def test_storage_that_does_not_answer_is_asked_again(inside):
    counted = Counted(2, storage.TransientStorageError("no answer"))
    assert inside(lambda events: each(events, "read", counted, [4])) == [40]
    assert counted.calls == 3


def test_patience_with_storage_ends(inside):
    error = storage.TransientStorageError("no answer")
    counted = Counted(100, error)
    with pytest.raises(storage.TransientStorageError) as raised:
        inside(lambda events: each(events, "read", counted, [4]))
    assert raised.value is error
    assert counted.calls == 1 + FAST.times


@pytest.mark.parametrize(
    "error",
    [
        InputError([Fault("a.parquet", "a name", "null", "doc_id", 3)]),
        storage.StorageError("permission denied"),
        ValueError("a bug"),
    ],
)
def test_other_failures_arrive_unchanged_and_at_once(inside, error):
    counted = Counted(1, error)
    with pytest.raises(type(error)) as raised:
        inside(lambda events: each(events, "check", counted, [1]))
    assert raised.value is error
    assert counted.calls == 1
    counted = Counted(1, error)
    with pytest.raises(type(error)) as raised:
        inside(lambda events: events.task("check", lambda: counted(1)))
    assert raised.value is error


def test_the_first_failure_stops_what_has_not_begun(inside):
    begun = []

    def fail_first(item: int) -> int:
        begun.append(item)
        if item == 0:
            raise ValueError("first")
        time.sleep(0.02)
        return item

    with pytest.raises(ValueError, match="first"):
        inside(lambda events: each(events, "score", fail_first, range(60)))
    assert len(begun) < 20


@pytest.mark.thorough
def test_finished_items_are_kept_by_key(inside, tmp_path):
    calls = []

    def read(item: str) -> Read:
        calls.append(item)
        if item == "c" and len(calls) < 4:
            raise ValueError("not yet")
        return Read(len(item), (item, item), None)

    def body(events):
        return each(
            events, "ingest", read, ["a", "b", "c"], memo=Memo(str(tmp_path), read),
            key=lambda item: f"{item}:v1",
        )  # fmt: skip

    with pytest.raises(ValueError, match="not yet"):
        inside(body)
    expected = [Read(1, (name, name)) for name in "abc"]
    calls.extend(["again"] * 3)
    assert inside(body) == expected
    assert calls.count("a") == calls.count("b") == 1
    assert calls.count("c") == 2
    assert inside(body) == expected
    assert calls.count("c") == 2


def test_another_key_or_a_damaged_file_is_computed_again(inside, tmp_path):
    counted = Counted(0, ValueError())

    def read(item: int) -> int:
        return counted(item)

    def body(version):
        def inner(events):
            return each(
                events, "ingest", read, [1], memo=Memo(str(tmp_path), read),
                key=lambda item: f"{item}:{version}",
            )  # fmt: skip

        return inner

    assert [inside(body(version)) for version in "aab"] == [[10]] * 3
    assert counted.calls == 2
    for path in tmp_path.iterdir():
        path.write_text(path.read_text()[:-5])
    assert inside(body("a")) == [10]
    assert counted.calls == 3


@pytest.mark.parametrize("writes", [False, True])
def test_an_interrupt_waits_only_for_what_writes(tmp_path, monkeypatch, writes):
    begun, go_on, ended = threading.Event(), threading.Event(), []

    def slow(item: int) -> int:
        begun.set()
        go_on.wait(5)
        ended.append(item)
        return item

    def interrupted(futures):
        begun.wait(5)
        if writes:
            threading.Timer(0.2, go_on.set).start()
        raise KeyboardInterrupt

    monkeypatch.setattr(tasks, "as_completed", interrupted)
    monkeypatch.setattr(tasks, "threads", lambda: 1)
    memo = Memo(str(tmp_path), slow) if writes else None
    try:
        with pytest.raises(KeyboardInterrupt):
            each(Events(), "check", slow, range(4), memo=memo)
        assert ended == ([0] if writes else [])
    finally:
        go_on.set()
