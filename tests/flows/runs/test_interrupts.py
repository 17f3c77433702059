"""A run that is stopped once it is published, or before its workers are there."""

from contextlib import contextmanager

import pytest

from flows import stages
from flows.faults import Interrupted, RunError
from flows.runs.context import LocalCompute
from tests.faults import pipelines


def stopped(monkeypatch, at):
    """Stop the run where its workers are started or ended."""

    @contextmanager
    def computing(*given):
        if at == "start":
            raise KeyboardInterrupt
        if at == "memory":
            raise MemoryError
        if at == "temporary file":
            with open("/dev/full", "wb", buffering=0) as file:
                file.write(b"x")
        yield LocalCompute()
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "computing", computing)


def test_a_stop_while_workers_end_says_that_the_run_is_published(tmp_path, monkeypatch):
    source = pipelines.simulate("experts", str(tmp_path / "in"))
    stopped(monkeypatch, "end")
    with pytest.raises(Interrupted, match=r"interrupted; run \S+ is published"):
        pipelines.run("experts", source, str(tmp_path / "out"), max_iter=2)
    assert (tmp_path / "out" / "latest.json").exists()


def test_a_stop_while_workers_start_leaves_nothing(tmp_path, monkeypatch):
    source = pipelines.simulate("experts", str(tmp_path / "in"))
    stopped(monkeypatch, "start")
    with pytest.raises(KeyboardInterrupt):
        pipelines.run("experts", source, str(tmp_path / "out"), max_iter=2)
    assert not (tmp_path / "out" / "latest.json").exists()
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("memory", r"memory ran out in the stage \w+ .* \(--partitions\) in a new run; "
         "nothing was published; "),
        ("temporary file", r"no space is left for temporary files in \S+; free some, or set TMPDIR "
         "to another disk; nothing was published; "),
    ],
)  # fmt: skip
def test_what_a_library_lacks_is_said_with_what_became_of_the_run(at, said, tmp_path, monkeypatch):
    source = pipelines.simulate("experts", str(tmp_path / "in"))
    stopped(monkeypatch, at)
    with pytest.raises(RunError, match=said):
        pipelines.run("experts", source, str(tmp_path / "out"), max_iter=2)
    assert not (tmp_path / "out" / "runs").exists()
