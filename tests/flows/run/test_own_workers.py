"""How many workers a run starts where that is left to it."""

from __future__ import annotations

import logging
import multiprocessing
from dataclasses import replace

import pytest

from flows.catalogue import PIPELINES, pipeline_named
from flows.data.partition import Part, Slice
from flows.data.runs import RunPaths, open_run
from flows.family import Cost, Forecasts
from flows.run import workers
from flows.run.events import Events
from flows.run.running import Run
from flows.settings import AUTO, ComputeSettings
from tests.faults import pipelines

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


LOCKED = Cost(1.0, 1.0)
HALF = Cost(1.0, 1.0, locked=0.5)
FREE = Cost(1.0, 1.0, locked=0.0)


@pytest.mark.parametrize(
    ("seconds", "cost", "parts", "cores", "gib", "expected"),
    [
        (0.0, LOCKED, 100, 64, 256, (0, 1)),
        (12.5, LOCKED, 100, 64, 256, (64, 1)),
        (23.9, LOCKED, 100, 2, 256, (0, 1)),
        (24.1, LOCKED, 100, 2, 256, (2, 1)),
        (1e6, LOCKED, 100, 1, 256, (0, 1)),
        (1e6, LOCKED, 1, 64, 256, (0, 1)),
        (1e6, LOCKED, 5, 64, 256, (5, 1)),
        (1e6, LOCKED, 100, 64, 8, (8, 1)),
        (1e6, LOCKED, 100, 64, 0, (0, 1)),
        (0.9, HALF, 100, 2, 256, (0, 1)),
        (47.9, HALF, 100, 2, 256, (0, 2)),
        (48.1, HALF, 100, 2, 256, (2, 1)),
        (1e6, replace(HALF, workers=False), 100, 2, 256, (0, 2)),
        (1e6, replace(HALF, locked=0.9, workers=False), 100, 2, 256, (0, 1)),
        (1e6, HALF, 100, 2, 1, (0, 2)),
        (1e6, FREE, 5, 64, 256, (0, 5)),
        (1e6, FREE, 1, 64, 256, (0, 1)),
    ],
)
def test_the_shortest_way_is_taken(seconds, cost, parts, cores, gib, expected):
    assert workers.number(seconds, cost, parts, cores, gib * 2**30) == expected


def test_a_daemon_starts_none(monkeypatch):
    monkeypatch.setattr(multiprocessing.current_process(), "_config", {"daemon": True})
    assert workers.number(1e6, LOCKED, 100, 64, 2**40) == (0, 1)


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_every_family_forecasts(name):
    family = pipeline_named(name)
    assert isinstance(family, Forecasts)
    cost = family.cost(family.settings())
    assert 1e-6 < cost.fit < 1.0
    assert 1e-6 < cost.rest < 1.0
    assert 0.0 <= cost.locked <= 1.0


def test_a_score_and_words_alone_are_forecast_as_less():
    family = pipeline_named("keywords")
    parts = [Part(0, (Slice("a", 0, 1000, "f"),)), Part(1, (Slice("a", 1000, 3000, "f"),))]

    def seconds(fitted=None, **settings):
        paths = RunPaths("target", "run")
        events = Events()
        run = Run(family, "a", paths, family.settings(**settings), events, fitted=fitted)
        return workers.forecast(run, parts)

    cost = family.cost(family.settings())
    assert seconds() == pytest.approx(3000 * (cost.fit + cost.rest))
    assert seconds(fitted=RunPaths("target", "before")) == pytest.approx(3000 * cost.rest)
    assert seconds(unit="word") < 0.5 * seconds()


def test_a_run_that_is_left_to_itself(tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    source = pipelines.simulate("experts", str(tmp_path / "in"))
    auto = ComputeSettings(workers=AUTO)
    short = pipelines.run("experts", source, str(tmp_path / "short"), auto)
    _, record = open_run(short["target"])
    assert record.workers == 0
    assert "local workers are started" not in caplog.text
    monkeypatch.setattr(workers, "START", -1e9)
    long = pipelines.run("experts", source, str(tmp_path / "long"), auto)
    _, record = open_run(long["target"])
    if workers.most_workers(3) > 1:
        assert record.workers > 1
        assert f"{record.workers} local workers are started; --workers 0 keeps" in caplog.text
    assert pipelines.published(long) == pipelines.published(short)


@pytest.mark.parametrize("name", ["variants", "bags"])
def test_kernels_take_threads_and_leave_the_same_bits(name, tmp_path, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    source = pipelines.simulate(name, str(tmp_path / "in"))
    one = pipelines.run(name, source, str(tmp_path / "one"), ComputeSettings())
    _, record = open_run(one["target"])
    assert (record.workers, record.threads) == (0, 1)
    monkeypatch.setattr(workers, "SHORT", 0.0)
    monkeypatch.setattr(workers, "at_most", lambda parts, cores=None: 3)
    some = pipelines.run(name, source, str(tmp_path / "some"), ComputeSettings(workers=AUTO))
    _, record = open_run(some["target"])
    assert (record.workers, record.threads) == (0, 3)
    assert "3 threads of this process; --workers 0 keeps to one" in caplog.text
    assert pipelines.published(some) == pipelines.published(one)
