"""`prefect deploy --all` against a real server: what it registers is what was meant."""

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from base64 import b64encode
from contextlib import contextmanager

import pytest
import yaml

from tests.deploy.conftest import DEPLOY, ROOT, run, tool
from tests.faults.stores import await_port, free_port

ENVIRONMENT = {
    "VBFLOWS_SOURCE": "s3://bucket/in",
    "VBFLOWS_TARGET": "s3://bucket/out",
    "VBFLOWS_SCHEDULER": "tls://scheduler:8786",
}
PASSWORD = "admin:the-password"
FILE = yaml.safe_load((DEPLOY / "prefect.yaml").read_text())
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())


@contextmanager
def served(database, home):
    """Run Prefect's server as compose.yaml does; yield what its clients need."""
    port = free_port()
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT")}
    env = {
        **kept,
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PYTHONPATH": str(ROOT),
    }
    server = {
        "PREFECT_SERVER_API_AUTH_STRING": PASSWORD,
        "PREFECT_UI_STATIC_DIRECTORY": f"{home}/ui",
    }
    if database is not None:
        server["PREFECT_API_DATABASE_CONNECTION_URL"] = database
    command = COMPOSE["services"]["server"]["command"]
    command = [{"0.0.0.0": "127.0.0.1", "4200": str(port)}.get(part, part) for part in command]
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", *command], env={**env, **server}, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            await_port(port, 120.0)
            client = {
                "PREFECT_API_URL": f"http://127.0.0.1:{port}/api",
                "PREFECT_API_AUTH_STRING": PASSWORD,
            }
            yield {**env, **client}
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def call_api(env, path, content=None):
    """Call the server's API, again where it is busy: with SQLite a locked one answers 503."""
    request = urllib.request.Request(
        f"{env['PREFECT_API_URL']}/{path}",
        data=None if content is None else json.dumps(content).encode(),
        headers={
            "Content-Type": "application/json",
            "Authorization": "Basic " + b64encode(env["PREFECT_API_AUTH_STRING"].encode()).decode(),
        },
    )
    for left in reversed(range(10)):
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read())
        except urllib.error.HTTPError as error:
            if error.code != 503 or left == 0:
                raise
            time.sleep(float(error.headers.get("Retry-After", 1)))
    raise AssertionError


def here(command):
    return command.replace("/etc/vbflows/prefect.yaml", str(DEPLOY / "prefect.yaml"))


def environment(env):
    path = f"{os.path.dirname(tool('prefect'))}{os.pathsep}{os.environ['PATH']}"
    return {**env, **ENVIRONMENT, "PATH": path, "PYTHONPATH": str(ROOT)}


@pytest.mark.thorough
def test_every_deployment_is_registered(prefect_server, tmp_path):
    """At the server of these tests, which keeps its records in SQLite."""
    env = {
        **os.environ,
        "PREFECT_API_URL": prefect_server,
        "PREFECT_API_AUTH_STRING": PASSWORD,  # which an open server ignores
        "PREFECT_HOME": str(tmp_path),
    }
    call_api(env, "work_pools/", {"name": "vbflows", "type": "process"})
    deploy = here(COMPOSE["services"]["register"]["command"][2].split("&& ")[1]).split()
    done = run(tool("prefect"), *deploy[1:], env=environment(env), cwd="/")
    assert done.returncode == 0, done.stdout + done.stderr
    check(env)


def check(env, kind="process"):
    flows = {flow["id"]: flow["name"] for flow in call_api(env, "flows/filter", {})}
    found = {
        f"{flows[one['flow_id']]}/{one['name']}": one
        for one in call_api(env, "deployments/filter", {})
    }
    meant = {
        f"{one['entrypoint'].rsplit('.', 1)[-1]}/{one['name']}": one for one in FILE["deployments"]
    }
    assert set(meant) <= set(found)
    found = {name: found[name] for name in meant}
    pipelines = {"keywords", "bags", "variants", "features", "experts"}
    assert {name for name in found if name.endswith("/nightly")} == {
        f"{p}/nightly" for p in pipelines
    }
    for name, one in found.items():
        (schedule,) = one["schedules"]
        (wanted,) = meant[name]["schedules"]
        assert schedule["active"]
        assert schedule["schedule"]["cron"] == wanted["cron"], name
        assert schedule["schedule"]["timezone"] == "UTC"
        assert one["global_concurrency_limit"] is None  # a target's lock keeps runs apart
        assert one["work_pool_name"] == "vbflows"
        assert one["enforce_parameter_schema"]
        assert one["entrypoint"] == meant[name]["entrypoint"]
        parameters = one["parameters"]
        assert "{{" not in json.dumps(parameters)
        pipeline = name.split("/")[0]
        assert parameters["source"] == f"s3://bucket/in/{pipeline}"
        assert parameters["target"] == f"s3://bucket/out/{pipeline}"
        assert parameters["compute"] == {"scheduler": "tls://scheduler:8786"}
        assert parameters["settings"] == meant[name]["parameters"]["settings"]
        assert parameters["since"] == (None if "weekly" in name else "latest")
        check_parameters(env, pipeline, one)
    cron = [s["cron"] for one in meant.values() for s in one["schedules"]]
    assert len(set(cron)) == len(cron)  # they do not start at one time
    (pool,) = (p for p in call_api(env, "work_pools/filter", {}) if p["name"] == "vbflows")
    assert pool["type"] == kind


def check_parameters(env, pipeline, deployment):
    """The server and the flow take what is registered, and refuse what is wrong."""
    from flows import pipelines

    flow = getattr(pipelines, pipeline)
    flow.validate_parameters({"resume": None, **deployment["parameters"]})
    made = call_api(env, f"deployments/{deployment['id']}/create_flow_run", {"parameters": {}})
    assert made["parameters"]["source"] == deployment["parameters"]["source"]
    wrong = {**deployment["parameters"], "settings": {"max_iter": -1}}
    with pytest.raises(urllib.error.HTTPError, match="409"):
        call_api(env, f"deployments/{deployment['id']}/create_flow_run", {"parameters": wrong})
