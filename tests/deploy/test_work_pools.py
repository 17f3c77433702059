"""What registers the deployments in Kubernetes, and a pool's worker, at a server of their own."""

import json
import urllib.error

import pytest
import yaml

from flows.records.runs import open_run
from tests import servers
from tests.deploy.conftest import DEPLOY, run, tool
from tests.flows.runs.test_deployments import call_api, check, environment

TEMPLATE = DEPLOY / "kubernetes" / "job-template.json"
SETTINGS = {"keyphrases": 8, "rows_per_partition": 40}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Return the environment of a client of a server that nobody else uses."""
    home = tmp_path_factory.mktemp("server")
    with servers.started(home) as (url, _):
        yield {**servers.environment(home, url), "PREFECT_API_AUTH_STRING": "a:b"}


def registration():
    """Return what the pod of the Kubernetes worker runs first, with the files of this checkout."""
    kinds = yaml.safe_load_all((DEPLOY / "kubernetes" / "worker.yaml").read_text())
    (pod,) = (one["spec"]["template"]["spec"] for one in kinds if one["kind"] == "Deployment")
    (first,) = pod["initContainers"]
    text = first["command"][2].replace("/etc/vbflows-pool/job-template.json", str(TEMPLATE))
    return text.replace("/etc/vbflows/prefect.yaml", str(DEPLOY / "prefect.yaml"))


def deployment(env, name):
    return call_api(env, f"deployments/name/{name}")


def order(env, name, **changes):
    return call_api(env, f"deployments/{deployment(env, name)['id']}/create_flow_run", changes)


@pytest.mark.thorough
def test_runs_in_kubernetes_have_the_pool_s_template(server):
    env = environment(server)
    for _ in range(2):  # as when the pod starts again
        done = run("sh", "-c", registration(), env=env, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr
    (pool,) = call_api(env, "work_pools/filter", {"work_pools": {"name": {"any_": ["vbflows"]}}})
    assert pool["type"] == "kubernetes"
    assert pool["base_job_template"] == json.loads(TEMPLATE.read_text())
    check(env, "kubernetes")
    assert deployment(env, "keywords/nightly")["job_variables"] == {}
    larger = order(env, "keywords/nightly", job_variables={"memory": "8Gi"})
    assert larger["job_variables"] == {"memory": "8Gi"}
    with pytest.raises(urllib.error.HTTPError, match="422"):
        order(env, "keywords/nightly", job_variables={"memory": 8})
    done = run(tool("prefect"), "--no-prompt", "work-pool", "delete", "vbflows", env=env, cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
def test_a_worker_of_a_process_pool_runs_a_deployment_once(server, tmp_path):
    env = {**environment(server), "VBFLOWS_SOURCE": str(tmp_path / "in"),
           "VBFLOWS_TARGET": str(tmp_path / "out")}  # fmt: skip
    prefect = tool("prefect")
    for command in (
        [tool("vbflows"), "simulate", "keywords", str(tmp_path / "in" / "keywords")],
        [prefect, "work-pool", "create", "by-hand", "--type", "process"],
        [prefect, "deploy", "--name", "weekly-full", "--pool", "by-hand",
         "--prefect-file", str(DEPLOY / "prefect.yaml")],
    ):  # fmt: skip
        done = run(*command, env=env, cwd="/")
        assert done.returncode == 0, done.stdout + done.stderr
    changes = {"settings": SETTINGS, "compute": {}}
    scheduled = {"type": "SCHEDULED"}
    ordered = order(env, "keywords/weekly-full", parameters=changes, state=scheduled)
    start = [prefect, "worker", "start", "--pool", "by-hand", "--run-once"]
    done = run(*start, env=env, cwd=str(tmp_path))
    found = call_api(env, f"flow_runs/{ordered['id']}")
    assert found["state"]["type"] == "COMPLETED", done.stdout + done.stderr
    assert found["run_count"] == 1
    _, record = open_run(str(tmp_path / "out" / "keywords"))
    assert record.rows_kept == 500
    others = call_api(
        env,
        "flow_runs/filter",
        {"flow_runs": {"state": {"type": {"any_": ["COMPLETED", "RUNNING"]}}}},
    )
    assert [one["id"] for one in others] == [ordered["id"]]
