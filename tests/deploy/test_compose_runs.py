"""The services of compose.yaml as processes, with its commands and its environment.

Docker does not run where these tests run. What takes the place of its images: Debian's
PostgreSQL (or SQLite), `rclone serve s3` for the store, and this environment for our own.
A worker of the cluster is killed in the fit, and the result has the bits of one process.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, nullcontext, suppress

import pytest
import yaml

from flows import storage
from flows.records.runs import open_run
from tests.deploy.conftest import DEPLOY, PATH, ROOT, postgres, postgres_folder
from tests.faults import stores
from tests.faults.pipelines import published
from tests.flows.runs.test_deployments import PASSWORD, call_api, served

SERVICES = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
VALUES = {
    "STORE_ACCESS_KEY": stores.KEY, "STORE_SECRET_KEY": stores.SECRET, "STORE_BUCKET": "vbflows",
    "PREFECT_PASSWORD": PASSWORD.partition(":")[2], "DASK_WORKER_MEMORY": "1g",
    "VBFLOWS_SOURCE": "s3://vbflows/in", "VBFLOWS_TARGET": "s3://vbflows/out",
}  # fmt: skip
SETTINGS = {"keyphrases": 8, "rows_per_partition": 125, "checkpoint_every": 1}
CHECKPOINTS = "s3/vbflows/out/keywords/runs/*/work/checkpoints/*"


class Composed:
    """Names of hosts and ports become those of this machine; ``${NAME}`` its value."""

    def __init__(self, folder, store, server):
        self.folder = folder
        self.ports = {port: stores.free_port() for port in ("8786", "8787", "8788", "8080")}
        self.hosts = {"http://store:7070": store, "http://server:4200/api": server}
        commands = folder / "bin"
        commands.mkdir()
        script = commands / "vbflows"
        script.write_text(f'#!/bin/sh\nexec {sys.executable} -m flows.entry "$@"\n')
        script.chmod(0o755)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "AWS_"))}
        self.base = {
            **kept, "PATH": f"{commands}{os.pathsep}{PATH}", "PYTHONPATH": str(ROOT),
            "PREFECT_HOME": str(folder / "home"),
            "PREFECT_WORKER_WEBSERVER_PORT": str(self.ports["8080"]), "OMP_NUM_THREADS": "1",
        }  # fmt: skip

    def here(self, text):
        text = re.sub(r"\$\{(\w+)(:[-?][^}]*)?\}", lambda match: VALUES[match[1]], text)
        for name, address in self.hosts.items():
            text = text.replace(name, address)
        text = re.sub(r"(?<![\w.])/certs\b", str(self.folder / "certs"), text)
        text = text.replace("/etc/vbflows/prefect.yaml", str(DEPLOY / "prefect.yaml"))
        text = text.replace(
            "python /etc/vbflows/certs.py", f"{sys.executable} {DEPLOY / 'certs.py'}"
        )
        text = text.replace("tls://scheduler:", "tls://127.0.0.1:")
        for port, own in self.ports.items():
            text = re.sub(rf"\b{port}\b", str(own), text)
        return text

    def of(self, name, extra=()):
        service = SERVICES[name]
        env = {k: self.here(v) for k, v in service.get("environment", {}).items()}
        env.update(AWS_REQUEST_CHECKSUM_CALCULATION="when_required")
        env.update(AWS_RESPONSE_CHECKSUM_VALIDATION="when_required")
        command = [*(self.here(part) for part in service["command"]), *extra]
        return command, {**self.base, **env, **self.dask_settings(service)}

    def dask_settings(self, service):
        """Return Dask's settings of a service that has the certificate of one side alone."""
        mounts = [one for one in service.get("volumes", ()) if isinstance(one, dict)]
        if not mounts:
            return {}
        side = mounts[0]["volume"]["subpath"]
        path = self.folder / f"dask-{side}.yaml"
        settings = (DEPLOY / "dask.yaml").read_text()
        path.write_text(settings.replace("/certs/", f"{self.folder}/certs/{side}/"))
        return {"DASK_CONFIG": str(path)}

    def once(self, name, *command):
        given, env = self.of(name)
        done = subprocess.run(
            list(command) or given, env=env, cwd=self.folder, capture_output=True, text=True,
            timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, (name, done.stdout, done.stderr)

    @contextmanager
    def running(self, name, *extra):
        command, env = self.of(name, extra)
        log = self.folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command, env=env, cwd=self.folder, stdout=out, stderr=out, start_new_session=True
            )
        try:
            self.healthy(name, process, log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                kill(process)

    def healthy(self, name, process, log):
        """Run the service's healthcheck until it succeeds."""
        _, *test = [self.here(part) for part in SERVICES[name]["healthcheck"]["test"]]
        deadline = time.monotonic() + 120
        while subprocess.run(test, env=self.base, capture_output=True, check=False).returncode:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(1)


def kill(process):
    """Kill a service with all of its processes, as a container is killed."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_deployment_is_run_and_published(tmp_path, monkeypatch):
    (tmp_path / "s3").mkdir()
    (tmp_path / "served").mkdir()
    (tmp_path / "certs").mkdir()
    store = stores.Rclone(tmp_path / "s3")
    database = postgres() if postgres_folder() else nullcontext()
    with ExitStack() as stack:
        stack.callback(store.kill)
        client = stack.enter_context(served(stack.enter_context(database), tmp_path / "served"))
        composed = Composed(tmp_path, store.url, client["PREFECT_API_URL"])
        composed.once("bucket")
        assert (tmp_path / "s3" / "vbflows").is_dir()
        certs = composed.here(SERVICES["certs"]["command"][2]).partition("&& chown")[0]
        composed.once("certs", "sh", "-c", certs)
        composed.once("certs", "sh", "-c", certs)  # as when the service starts again
        stack.enter_context(composed.running("scheduler", "--host", "127.0.0.1"))
        host = ("--host", "tls://127.0.0.1")
        doomed = stack.enter_context(composed.running("compute", *host))
        stack.enter_context(composed.running("compute", *host))
        composed.once("register")
        stack.enter_context(composed.running("worker"))
        composed.once("worker", "vbflows", "simulate", "keywords", "s3://vbflows/in/keywords")
        (one,) = (
            d for d in call_api(client, "deployments/filter", {})
            if d["name"] == "nightly" and "keywords" in d["entrypoint"]
        )  # fmt: skip
        made = call_api(
            client, f"deployments/{one['id']}/create_flow_run",
            {"state": {"type": "SCHEDULED"}, "parameters": {"settings": SETTINGS}},
        )  # fmt: skip
        deadline = time.monotonic() + 300
        state = {"type": ""}
        while state["type"] not in ("COMPLETED", "FAILED", "CRASHED"):
            assert time.monotonic() < deadline, (state, (tmp_path / "worker.log").read_text())
            time.sleep(0.2)
            if doomed.poll() is None and any(tmp_path.glob(CHECKPOINTS)):
                kill(doomed)
            state = call_api(client, f"flow_runs/{made['id']}")["state"]
        assert state["type"] == "COMPLETED", (state, (tmp_path / "worker.log").read_text())
        stores.enter(monkeypatch, store.url)
        _, record = open_run("s3://vbflows/out/keywords")
        assert record.rows_kept == 500
        assert storage.exists("s3://vbflows/out/keywords/latest.json")
        assert doomed.poll() == -signal.SIGKILL
        sets = (f"--set={name}={value}" for name, value in SETTINGS.items())
        composed.once(
            *("worker", "vbflows", "keywords", "s3://vbflows/in/keywords", "s3://vbflows/one"),
            *("--since", "latest", *sets),
        )
        both = [
            published({"target": target, "run_id": open_run(target)[1].run_id})
            for target in ("s3://vbflows/out/keywords", "s3://vbflows/one")
        ]
        assert both[0] == both[1]
        assert record.partitions == 4
        assert "tls://" in (tmp_path / "compute.log").read_text()
