"""How many threads a run takes where no workers are requested."""

import pytest

from flows import stages
from flows.catalogue import pipeline_named
from flows.events import Events
from flows.records.runs import RunPaths, open_run
from flows.runs.context import Run
from flows.settings import ComputeSettings
from flows.tables.partition import Part, Slice
from tests.faults import pipelines


@pytest.mark.parametrize(
    ("name", "given", "compute", "rows", "expected"),
    [
        ("bags", {}, {}, 5000, 2),
        ("bags", {}, {}, 4999, 1),
        ("variants", {}, {}, 5000, 2),
        ("variants", {"test": "posterior_difference"}, {}, 5000, 1),
        ("experts", {}, {}, 10**9, 1),
        ("bags", {}, {"workers": 2}, 5000, 1),
        ("bags", {}, {"scheduler": "tcp://host:8786"}, 5000, 1),
    ],
)
def test_threads_where_kernels_release_the_lock(name, given, compute, rows, expected, monkeypatch):
    monkeypatch.setattr(stages, "at_most", lambda parts: parts)
    family = pipeline_named(name)
    settings, options = family.settings(**given), ComputeSettings(**compute)
    run = Run(family, "a", RunPaths("target", "run"), settings, Events(), options)
    sizes = (500, rows - 500)
    run.parts = [Part(i, (Slice("a", 0, n, "f"),)) for i, n in enumerate(sizes)]
    assert stages.choose_threads(run) == expected


def test_no_more_threads_than_partitions():
    assert stages.at_most(1) == 1


@pytest.mark.parametrize("name", ["variants", "bags"])
def test_kernels_take_threads_and_leave_the_same_bits(name, tmp_path, monkeypatch):
    source = pipelines.simulate(name, str(tmp_path / "in"))
    one = pipelines.run(name, source, str(tmp_path / "one"), ComputeSettings())
    _, record = open_run(one["target"])
    assert (record.workers, record.threads) == (0, 1)
    monkeypatch.setattr(stages, "MANY", 0)
    monkeypatch.setattr(stages, "at_most", lambda parts: 3)
    some = pipelines.run(name, source, str(tmp_path / "some"), ComputeSettings())
    _, record = open_run(some["target"])
    assert (record.workers, record.threads) == (0, 3)
    assert pipelines.published(some) == pipelines.published(one)


@pytest.mark.parametrize(("rows", "said"), [(250, True), (5000, False)])
def test_workers_on_little_work_are_advised_against(rows, said):
    family = pipeline_named("experts")
    options = ComputeSettings(workers=2)
    run = Run(family, "a", RunPaths("target", "run"), family.settings(), Events(), options)
    run.parts = [Part(0, (Slice("a", 0, rows, "f"),))]
    found = stages.advice(run)
    assert (found is not None) == said
    if said:
        assert found.startswith("250 rows: one process (without --workers) is faster; ")
    run.options = ComputeSettings()
    assert stages.advice(run) is None
