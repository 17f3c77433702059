"""The page on one's own Prefect flows: its code runs, recorded by a real server."""

import re
from pathlib import Path

import pytest
from prefect import get_client

from flows.catalogue import pipeline_named
from tests import servers

PAGE = Path(__file__).parents[3] / "docs" / "prefect.md"
STAGES = {"check", "ingest", "prepare", "fit", "score", "publish"}


@pytest.mark.thorough
def test_the_page_runs(prefect_server, tmp_path, monkeypatch, capsys):
    for place in ("documents", "notes/north", "notes/south"):
        pipeline_named("keywords").simulate(str(tmp_path / place), 40, 1)
    monkeypatch.chdir(tmp_path)
    with get_client(sync_client=True) as client:  # other tests have the same server
        before = {run.id for run in client.read_flow_runs()}
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    script = tmp_path / "page.py"  # Prefect reads the source of what it runs
    script.write_text(code)
    exec(compile(code, str(script), "exec"), {"__name__": "page"})
    servers.drain()
    said = capsys.readouterr().out
    assert "{'north': 40, 'south': 40}" in said
    with get_client(sync_client=True) as client:
        flows = {flow.id: flow.name for flow in client.read_flows()}
        runs = {run.id: run for run in client.read_flow_runs() if run.id not in before}
        tasks = [task for task in client.read_task_runs() if task.flow_run_id in runs]
    states = sorted((flows[run.flow_id], run.state_name) for run in runs.values())
    assert states == [("hospitals", "Completed"), ("keywords", "Completed")] + [
        ("keywords", "Completed")
    ] * 2 + [("nightly", "Completed")]
    assert {"notes of north", "notes of south"} <= {run.name for run in runs.values()}
    of_nightly = [t for t in tasks if flows[runs[t.flow_run_id].flow_id] == "nightly"]
    assert {t.name for t in of_nightly} - STAGES == {next(
        t.name for t in of_nightly if t.name.startswith("refuse_small")
    )}  # fmt: skip
    (fit,) = [t for t in of_nightly if t.name == "fit"]
    assert (fit.empirical_policy.retries, fit.empirical_policy.retry_delay) == (5, 60)
    assert fit.tags == []  # for each Prefect would request a slot of its server
