"""The setting loop: what a run does with it, and which models refuse it."""

from __future__ import annotations

import json

import pytest

from flows.catalogue import pipeline_named
from flows.data import storage
from flows.engine.loops import why_not
from flows.faults import InputError
from flows.settings import ComputeSettings
from tests.faults import pipelines


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    return pipelines.simulate("experts", str(tmp_path_factory.mktemp("simulated")))


def trace(outcome):
    url = storage.join(outcome["target"], "runs", outcome["run_id"], "trace.parquet")
    return storage.read_table(url)["elbo"].to_pylist()


def test_a_run_in_rounds_has_the_same_bits_on_workers_and_its_bound_rises(rows, tmp_path):
    def go(name, compute=None, **changes):
        changes = {"max_iter": 12, **changes}
        return pipelines.run("experts", rows, str(tmp_path / name), compute, **changes)

    here = go("here", loop="memoised", rounds=2)
    there = go("there", ComputeSettings(workers=2), loop="memoised", rounds=2)
    assert pipelines.published(here) == pipelines.published(there)
    assert trace(here) == trace(there)
    rises = [b - a for a, b in zip(trace(here)[:-1], trace(here)[1:], strict=True)]
    assert min(rises) >= -1e-12 * abs(trace(here)[-1])
    plain = go("plain", loop="cavi")
    assert trace(plain)[0] == pytest.approx(trace(here)[0], rel=1e-12)
    assert trace(plain)[-1] < trace(here)[-1]
    record = json.loads((tmp_path / "here/runs" / here["run_id"] / "run.json").read_text())
    assert (record["settings"]["loop"], record["settings"]["rounds"]) == ("memoised", 2)


def test_a_model_with_phases_refuses_rounds_before_any_compute(tmp_path):
    source = pipelines.simulate("features", str(tmp_path / "in"))
    with pytest.raises(InputError, match=r"cannot be fitted by the memoised loop.*leave loop out"):
        pipelines.run("features", source, str(tmp_path / "out"), loop="memoised")
    assert not (tmp_path / "out").exists()


def test_settings_that_fit_no_model_take_no_loop(tmp_path):
    source = pipelines.simulate("keywords", str(tmp_path / "in"))
    with pytest.raises(InputError, match="found settings that fit none; leave loop out"):
        pipelines.run("keywords", source, str(tmp_path / "out"), model="textrank", loop="cavi")


@pytest.mark.parametrize(
    ("family", "changes", "loop", "refused"),
    [
        ("keywords", {}, "memoised", "phases, a search or draws"),
        ("experts", {"inference": "cavi"}, "memoised", None),
        ("experts", {}, "memoised", "phases, a search or draws"),
        ("experts", {}, "cavi", "a loop of its own"),
        ("bags", {}, "memoised", "phases, a search or draws"),
        ("features", {}, "squarem", "no coordinates"),
        ("variants", {}, None, None),
    ],
)
def test_who_takes_which_loop(family, changes, loop, refused):
    of = pipeline_named(family)
    said = why_not(of.model(of.settings(**changes)), loop)
    assert said is None if refused is None else refused in said
