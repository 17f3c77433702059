"""Schedules on one machine: a plan is checked, fires, and publishes."""

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
import yaml

from flows.catalogue import pipeline_named
from flows.cli import main
from flows.faults import InputError
from flows.prefect.serve import read_plan
from tests import servers

PLAN = """
deployments:
  - name: often
    pipeline: keywords
    source: {source}
    target: {target}
    every: 5
    settings: {{unit: word, keyword_rate: 0.3, max_iter: 50}}
"""


def refused(plan, tmp_path, capsys):
    path = tmp_path / "plan.yaml"
    path.write_text(plan)
    with pytest.raises(SystemExit) as stopped:
        main(["serve", str(path)])
    assert stopped.value.code == 2
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    return printed


def test_a_wrong_plan_is_refused(tmp_path, capsys):
    right = PLAN.format(source="in", target="out")
    assert "either cron or every" in refused(right.replace("    every: 5\n", ""), tmp_path, capsys)
    assert (
        "a pipeline out of bags, experts, features, keywords, variants, found 'words'"
        in refused(right.replace("pipeline: keywords", "pipeline: words"), tmp_path, capsys)
    )
    assert "keyword_rate" in refused(right.replace("0.3", "3.0"), tmp_path, capsys)
    assert "plan.yaml: expected the key deployments" in refused("runs: []", tmp_path, capsys)
    printed = refused(right.replace("every: 5", "every: 0.1"), tmp_path, capsys)
    assert (
        "plan.yaml, deployment often, every: expected a number of at least 1, found 0.1" in printed
    )
    printed = refused(right.replace("    target", "    traget"), tmp_path, capsys)
    assert "plan.yaml, deployment often: expected the key target, found none" in printed
    assert "found traget; did you mean target?" in printed
    wrong = right + "    compute: {worker: 2}\n"
    printed = refused(wrong, tmp_path, capsys)
    assert "plan.yaml, deployment often, compute: expected a key out of workers, " in printed
    assert "found worker; did you mean workers?" in printed
    printed = refused(right + "    columns: {text: body}\n", tmp_path, capsys)
    assert "found columns; write columns below settings" in printed
    printed = refused(right.replace("unit: word", "unti: word"), tmp_path, capsys)
    assert (
        "often, setting unti: expected a known setting, found unti; did you mean unit?" in printed
    )
    for source in ("5", "[1, in]", "{a: b}"):
        printed = refused(right.replace("source: in", f"source: {source}"), tmp_path, capsys)
        sentence = "often, source: expected a path, folder, glob or URL, or a list of these, found"
        assert printed.count("expected") == printed.count(sentence) == 1
    printed = refused(right.replace("name: often", "every: 5", 1), tmp_path, capsys)
    assert "deployments.0" not in printed
    printed = refused("deployments: [text]", tmp_path, capsys)
    assert "plan.yaml, deployment 1: expected keys with values" in printed
    for many in ("1.0e+300", ".inf"):
        printed = refused(right.replace("every: 5", f"every: {many}"), tmp_path, capsys)
        assert "every" in printed
        assert "31622400" in printed.replace(",", "").replace(".0", "")
    printed = refused(right.replace("every: 5", "cron: often"), tmp_path, capsys)
    assert "a cron expression such as 30 2 * * *, found 'often'" in printed
    cron = right.replace("every: 5", 'cron: "30 2 * * *"\n    timezone: Europe/Berln')
    printed = refused(cron, tmp_path, capsys)
    assert "a name of a time zone, such as Europe/Berlin, found 'Europe/Berln'" in printed
    twice = right + right.split("deployments:")[1]
    assert "found keywords/often twice" in refused(twice, tmp_path, capsys)
    url = "https://store/a?X-Amz-Signature=canary"
    printed = refused(right.replace("source: in", f"source: {url}"), tmp_path, capsys)
    assert "an address without secrets" in printed
    assert "canary" not in printed


WRONG = {
    "settings: {max_iter: many}": "setting max_iter: expected a whole number, found 'many'",
    "settings: {fdr: 2}": "setting fdr: expected a number less than 1, found 2",
    "settings: {fdr: -0.1}": "setting fdr: expected a number greater than 0, found -0.1",
    "settings: {stop_words: [a]}": "setting stop_words: expected true or false or text, found",
    "settings: {columns: text}": "setting columns: expected names with values, such as name: value",
    "settings: {unit: sentence}": "setting unit: expected 'phrase' or 'word', found 'sentence'",
    "settings: [unit]": "settings: expected names with values, such as name: value, found ['unit']",
    "compute: 4": "compute: expected keys with values, such as name: nightly, found 4",
    "compute: {workers: two}": "compute.workers: expected a whole number, found 'two'",
    "compute: {workers: 0}": "compute.workers: expected a number of at least 1, found 0",
    "compute: {workers: 1, scheduler: 'tcp://h:1'}":
        "compute: both workers and a scheduler",
    "compute: {reports: here}": "compute.reports: expected an address such as https://host/path",
    "target: 5": "target: expected text, found 5",
    "name: ''": "name: expected text of at least 1 character, found ''",
    "since: [x]": "since: expected text, found ['x']",
    "every: soon": "every: expected a number, found 'soon'",
    "every: .nan": "every: expected a number of at most 31622400, found nan",
    "{cron: 5, every: null}": "cron: expected text, found 5",
}  # fmt: skip


@pytest.mark.parametrize("line", WRONG)
def test_a_fault_of_a_plan_is_in_our_words(line, tmp_path, capsys):
    """One fault, at its place, without the words of the library that finds it."""
    plan = yaml.safe_load(PLAN.format(source="in", target="out"))
    plan["deployments"][0] |= yaml.safe_load(line)
    printed = refused(yaml.safe_dump(plan), tmp_path, capsys)
    said = " ".join(printed.split())
    assert WRONG[line] in said
    assert said.count("expected") == WRONG[line].count("expected")
    assert not re.search(
        r"(?i)input should|valid (integer|number|string|dict)|unable to parse", said
    )


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


def test_a_setting_that_contradicts_another_is_named_once(tmp_path):
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "deployments:\n- {name: n, pipeline: keywords, source: a, target: b, every: 60, "
        "settings: {keyword_rate: 0.35}}\n"
    )
    with pytest.raises(InputError) as error:
        read_plan(str(plan))
    assert "deployment n: keyword_rate is a share" in str(error.value)


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
