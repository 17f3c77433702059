"""Schedules on one machine: a plan fires and publishes. Wrong ones: tests/sentences/plans.py."""

import json
import re
import sqlite3
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from flows.catalogue import pipeline_named
from flows.prefect.serve import read_plan
from tests import servers

POWER_CUT = """
deployments:
  - {{name: cut, pipeline: keywords, source: {source}, target: {out}/cut, every: 10,
     settings: {{unit: word, keyword_rate: 0.3, tol: 1.0e-15, max_iter: 200, checkpoint_every: 1}}}}
  - {{name: other, pipeline: keywords, source: {source}, target: {out}/other, every: 10,
     settings: {{unit: word, keyword_rate: 0.3, max_iter: 20}}}}
"""
SERVE = "import sys; from flows.cli import main; main(sys.argv[1:])"


@contextmanager
def serving(plan, home, url):
    log = plan.parent / "log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", SERVE, "serve", str(plan)],
            env=servers.environment(home, url), stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        yield process, log
    finally:
        if process.poll() is None:
            for one in [*psutil.Process(process.pid).children(recursive=True), process]:
                one.kill()
        process.wait()


def wait_for(condition, log):
    deadline = time.monotonic() + 240
    while not condition():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_after_a_power_cut_a_deployment_goes_on(prefect_home, tmp_path):
    """The run that died is continued by the next one; another deployment is not delayed."""
    (source,) = pipeline_named("keywords").simulate(str(tmp_path / "in"), 300, 1)
    plan, out, port = tmp_path / "plan.yaml", tmp_path / "out", servers.free_port()
    plan.write_text(POWER_CUT.format(source=source, out=out))
    with servers.started(prefect_home, port) as (url, server), serving(plan, prefect_home, url) as (
        _, log,
    ):  # fmt: skip
        wait_for(lambda: [*out.glob("cut/runs/*/work/checkpoints/*")], log)
        server.kill()
    assert not (out / "cut" / "latest.json").exists()
    (dead,) = (path.name for path in (out / "cut" / "runs").iterdir())
    with servers.started(prefect_home, port), serving(plan, prefect_home, url) as (process, log):
        latest = [out / name / "latest.json" for name in ("cut", "other")]
        wait_for(lambda: all(one.exists() for one in latest), log)
        assert json.loads(latest[0].read_text())["run_id"] == dead

        def ended():
            with sqlite3.connect(prefect_home / "prefect.db") as database:
                states = database.execute(
                    "select distinct s.type, s.message from flow_run r join flow_run_state s "
                    "on r.state_id = s.id"
                ).fetchall()
                names = database.execute("select name from flow_run where state_type = 'COMPLETED'")
                assert all(re.match(r"in/.*, \d{4}-\d\d-\d\d \d\d:\d\d UTC$", n) for (n,) in names)
            database.close()
            return "COMPLETED" in dict(states) and any("nothing to do" in s for _, s in states if s)

        wait_for(ended, log)
        process.terminate()
        assert process.wait(60) == 0
    assert [path.name for path in (out / "cut" / "runs").iterdir()] == [dead]
    assert "Traceback" not in log.read_text()


def test_the_plan_of_the_night_in_the_image_is_one(tmp_path):
    script = (Path(__file__).resolve().parents[3] / "deploy" / "try-image").read_text()
    plan = tmp_path / "plan.yaml"
    text = re.search(r"<< PLAN\n(.*?)^PLAN$", script, re.M | re.S)[1]
    plan.write_text(text.replace("$scheduler", "8786"))
    assert [one.name for one in read_plan(str(plan))] == ["every-minute"]


def test_the_example_is_a_plan():
    root = Path(__file__).resolve().parents[3]
    plan = read_plan(str(root / "deploy" / "nightly.yaml"))
    assert [one.pipeline for one in plan] == ["keywords", "variants"]
    assert [one.when for one in plan] == [
        "at 30 2 * * * (Europe/Berlin)",
        "at 0 3 * * * (UTC)",
    ]
