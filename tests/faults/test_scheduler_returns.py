"""A scheduler dies during a recorded run and comes back at its address: the stage goes on."""

import threading
import time

import pytest

from flows import pipelines, stages
from flows.events import Sweep, listening
from flows.faults import RunError
from flows.settings import ComputeSettings
from tests.faults import pipelines as small
from tests.faults.processes import Deployment

pytestmark = [pytest.mark.thorough, pytest.mark.filterwarnings("ignore::ResourceWarning")]
CHANGES = {"max_iter": 30, "checkpoint_every": 2, "tol": 1e-13, "partitions": 3}


class Kills:
    """Kills the scheduler after a sweep; starts it and its workers again so much later."""

    def __init__(self, deployment, seconds):
        self.deployment, self.seconds, self.sweeps = deployment, seconds, 0
        self.thread = threading.Thread(target=self.start_again)

    def on_event(self, event):
        self.sweeps += isinstance(event, Sweep)
        if self.sweeps == 5 and self.thread.ident is None:
            self.deployment.scheduler.end()
            self.thread.start()
            time.sleep(1.0)  # workers end where their scheduler is gone

    def start_again(self):
        if self.seconds is None:
            return
        time.sleep(self.seconds)
        made = self.deployment
        made.start_scheduler(made.address.rpartition(":")[2])
        for worker in made.workers:
            worker.end()
        made.workers = []
        made.start(2)


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return small.simulate("keywords", str(tmp_path_factory.mktemp("data")))


def recorded(source, target, made, kills, monkeypatch, delay):
    family_settings = {**small.SETTINGS["keywords"], **CHANGES}
    again = stages.fit.with_options(retries=1, retry_delay_seconds=delay)
    monkeypatch.setattr(stages, "fit", again)
    with listening(kills):
        return pipelines.keywords(
            source, target, settings=family_settings,
            compute=ComputeSettings(scheduler=made.address),
        )  # fmt: skip


@pytest.mark.timeout(400)
@pytest.mark.parametrize(("seconds", "delay"), [(0.0, 20), (9.0, 30)])
def test_a_stage_goes_on_where_the_scheduler_comes_back(
    seconds, delay, prefect_server, source, tmp_path, monkeypatch
):
    """Before the client gives it up, after 6 s, and later."""
    expected = small.run("keywords", source, str(tmp_path / "alone"), **CHANGES)
    made = Deployment(tmp_path / "cluster").start(2)
    kills = Kills(made, seconds)
    try:
        outcome = recorded(source, str(tmp_path / "out"), made, kills, monkeypatch, delay)
        kills.thread.join()
    finally:
        made.end()
    assert small.published(outcome) == small.published(expected)


@pytest.mark.timeout(400)
def test_a_scheduler_that_stays_away_ends_in_a_sentence(
    prefect_server, source, tmp_path, monkeypatch
):
    made = Deployment(tmp_path / "cluster").start(2)
    try:
        with pytest.raises(RunError, match="went away; start a cluster and go on with"):
            recorded(source, str(tmp_path / "out"), made, Kills(made, None), monkeypatch, 8)
    finally:
        made.end()
