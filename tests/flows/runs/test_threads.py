"""A run's linear algebra takes one thread, so that its bits hang on no number of cores."""

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from flows.catalogue import pipeline_named
from flows.events import Sweep, listening
from flows.run import run as launch
from flows.settings import ComputeSettings


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


class Threads:
    """Keep how many threads BLAS has between two steps of a fit."""

    def __init__(self):
        self.seen = []

    def on_event(self, event):
        if isinstance(event, Sweep):
            self.seen.append(
                {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}
            )


@pytest.mark.thorough
def test_global_steps_have_one_thread_where_more_are_allowed(tmp_path):
    family = pipeline_named("bags")
    source = family.simulate(str(tmp_path / "data"), 60, 0)[0]
    listener = Threads()
    settings = family.settings(model="vmmic", max_iter=4, partitions=1)
    with threadpool_limits(2, user_api="blas"), listening(listener):
        launch("bags", source, str(tmp_path / "out"), settings, ComputeSettings())
        allowed = blas_threads()
    assert allowed == {2}
    assert listener.seen
    assert all(seen == {1} for seen in listener.seen)
