"""Another user of the machine gets nothing from a Prefect server that vbflows starts."""

from __future__ import annotations

import base64
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import traceback
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import mkdtemp

import psutil
import pytest

from flows.catalogue import pipeline_named
from flows.cli import main
from flows.faults import RunError
from flows.prefect import names_server, server

ROOT = Path(__file__).parents[3]
NOBODY = 65534
KEY = "the-secret-key-of-the-store"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def served(prefect_server):
    """Start a server as `vbflows serve` does; yield address, process, deployment, password file.

    The folder above the configuration is open to all: what protects the file is its own mode.
    """
    from prefect import get_client
    from prefect.blocks.system import Secret
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    home = Path(mkdtemp())
    home.chmod(0o755)
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    own = home / "prefect"
    own.mkdir()
    shutil.copy(PREFECT_HOME.value() / "empty.db", own / "prefect.db")
    try:
        with (
            temporary_settings({PREFECT_HOME: own}, restore_defaults={PREFECT_API_URL}),
            server.started(server.kept_password(), page=True) as url,
        ):
            (process,) = (p for p in psutil.Process().children() if p.cmdline()[-1:] == ["page"])
            Secret(value={"aws_secret_access_key": KEY}).save("s3")
            with get_client(sync_client=True) as client:
                flow = client.create_flow_from_name("of-the-user")
                deployment = client.create_deployment(flow, "nightly", entrypoint="mine.py:mine")
            yield url, process, deployment, server.password_path()
    finally:
        patch.undo()
        shutil.rmtree(home)


def answer(url, method, path, content, line=None):
    """Return the status and the text of an answer, given without credentials or with a line."""
    headers = {"Content-Type": "application/json"}
    if line is not None:
        headers["Authorization"] = "Basic " + base64.b64encode(line.encode()).decode()
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(f"{url}/{path}", data, headers, method=method)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def attacks(deployment):
    return (
        ("PATCH", f"deployments/{deployment}", {"entrypoint": "/tmp/theirs.py:theirs"}),
        ("POST", f"deployments/{deployment}/create_flow_run", {}),
        ("POST", "block_documents/filter", {"include_secrets": True}),
        ("GET", f"deployments/{deployment}", None),
        ("POST", "logs/filter", {}),
    )


def by_nobody(work):
    """Return what a function returns that another user calls, in a process of its own."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(writing, json.dumps(work()).encode())
        except BaseException:
            os.write(writing, json.dumps(traceback.format_exc()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return json.loads(said)


def try_everything(url, deployment):
    lines = (None, "admin:", f"admin:{'x' * 43}")
    return [[answer(url, *one, line) for one in attacks(deployment)] for line in lines]


def check_refused(answers):
    assert [[status for status, _ in some] for some in answers] == [[401] * 5] * 3
    assert KEY not in json.dumps(answers)


def test_without_the_password_nothing_is_answered(served):
    url, _, deployment, _ = served
    check_refused(try_everything(url, deployment))
    line = server.kept_password()
    found = [answer(url, *one, line) for one in attacks(deployment)]
    assert [status for status, _ in found] == [204, 201, 200, 200, 200]
    assert KEY in found[2][1]  # which is what the password protects


@as_root
def test_another_user_gets_nothing(served):
    url, process, deployment, file = served
    line = file.read_text().strip()

    def attempt(path):
        try:
            return Path(path).read_text(errors="replace")
        except PermissionError:
            return None

    def steal():
        of_process = [attempt(f"/proc/{process.pid}/{name}") for name in ("environ", "cmdline")]
        return try_everything(url, deployment), attempt(file), os.getuid(), of_process

    answers, secret, user, (environment, command) = by_nobody(steal)
    assert user == NOBODY
    check_refused(answers)
    assert (secret, environment) == (None, None)
    assert "flows.prefect.server" in command
    assert line not in command
    file.parent.chmod(0o755)
    try:
        assert by_nobody(lambda: attempt(file)) is None
    finally:
        file.parent.chmod(0o700)


def test_what_it_writes_is_for_its_user_alone(served):
    _, process, _, _ = served
    assert "Umask:\t0077\n" in Path(f"/proc/{process.pid}/status").read_text()


def test_it_is_bound_to_the_loopback_address(served):
    _, process, _, _ = served
    listening = [c for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
    assert {c.laddr.ip for c in listening} == {"127.0.0.1"}


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "vbflows"


def test_the_password_is_made_once_and_for_its_user_alone(config):
    before = os.umask(0)
    try:
        start = threading.Barrier(16)

        def make(_):
            start.wait()
            return server.kept_password()

        with ThreadPoolExecutor(16) as pool:
            (line,) = set(pool.map(make, range(16)))
    finally:
        os.umask(before)
    assert [one.name for one in config.iterdir()] == ["prefect-password"]
    assert server.password_path().read_text() == f"{line}\n"
    assert stat.S_IMODE(server.password_path().stat().st_mode) == 0o600
    assert stat.S_IMODE(config.stat().st_mode) == 0o700
    assert len(line) >= len("admin:") + 43
    assert server.new_password() != line


def test_a_relative_folder_of_configuration_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", "config")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert server.password_path() == tmp_path / ".config" / "vbflows" / "prefect-password"


def others_may_read(file):
    file.chmod(0o644)


def is_a_link(file):
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def is_empty(file):
    file.write_text("")


def is_of_another(file):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    os.chown(file, NOBODY, NOBODY)


def others_may_replace(file):
    file.parent.chmod(0o777)


def is_a_pipe(file):
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize(
    "harm", [others_may_read, is_a_link, is_empty, is_of_another, others_may_replace, is_a_pipe]
)
def test_a_password_that_others_know_or_made_is_refused(harm, config):
    server.kept_password()
    harm(server.password_path())
    with pytest.raises(RunError, match=str(config)):
        server.kept_password()


def test_a_server_of_others_is_not_used(config, tmp_path, capsys):
    """Whoever was at the port first got our schedules, and could say what is run."""
    heard = []

    class Theirs(BaseHTTPRequestHandler):
        def do_GET(self):
            heard.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"true")

        do_POST = do_GET

    plan = tmp_path / "plan.yaml"
    plan.write_text(
        "deployments:\n- {name: a, pipeline: keywords, source: in, target: out, every: 60}\n"
    )
    with ThreadingHTTPServer(("127.0.0.1", 0), Theirs) as theirs:
        threading.Thread(target=theirs.serve_forever, daemon=True).start()
        port = theirs.server_port
        with pytest.raises(SystemExit) as stopped:
            main(["serve", str(plan), "--port", str(port)])
        theirs.shutdown()
    assert stopped.value.code == 1
    said = capsys.readouterr()
    assert said.err == (
        f"vbflows: a Prefect server cannot be started on port {port} of 127.0.0.1: "
        "Address already in use; choose another (--port)\n"
    )
    line = server.password_path().read_text().strip()
    assert f"http://127.0.0.1:{port}" not in said.out
    assert line not in said.out
    assert heard == []


ACTIVE = 'active = "mine"\n[profiles.mine]\n{}\n[profiles.other]\nPREFECT_API_URL = "http://b/api"'
URL = 'PREFECT_API_URL = "http://a/api"'


@pytest.mark.parametrize(
    ("profiles", "environment", "named"),
    [
        (None, {}, False),
        (None, {"PREFECT_API_URL": "http://a/api"}, True),
        (None, {"PREFECT_PROFILE": "local"}, False),
        (ACTIVE.format(URL), {}, True),
        (ACTIVE.format('PREFECT_HOME = "/x"'), {}, False),
        (ACTIVE.format('PREFECT_API_URL = ""'), {}, False),
        (ACTIVE.format(""), {"PREFECT_PROFILE": "other"}, True),
        (ACTIVE.format(URL), {"PREFECT_PROFILE": "none"}, False),
        ("[profiles.mine]\n" + URL, {}, False),
    ],
)
@pytest.mark.parametrize("where", ["home", "path"])
def test_whether_a_server_is_configured(profiles, environment, named, where, tmp_path, monkeypatch):
    from prefect.settings import Settings

    monkeypatch.delenv("PREFECT_PROFILES_PATH")
    file = tmp_path / "profiles.toml"
    if profiles is not None:
        file.write_text(profiles)
    variable = {"home": ("PREFECT_HOME", tmp_path), "path": ("PREFECT_PROFILES_PATH", file)}[where]
    monkeypatch.setenv(variable[0], str(variable[1]))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert names_server() is named
    assert bool(Settings().api.url) is named


@pytest.mark.parametrize("content", ["active = ", "\xff", "active = 3", "profiles = 3", ""])
def test_profiles_that_cannot_be_read_name_no_server(content, tmp_path, monkeypatch):
    file = tmp_path / "profiles.toml"
    file.write_bytes(content.encode("latin-1"))
    monkeypatch.setenv("PREFECT_PROFILES_PATH", str(file))
    assert names_server() is False


@pytest.mark.parametrize("option", [(), ("--record",)])
def test_a_run_is_recorded_where_a_server_is_configured_or_on_request(
    option, tmp_path, monkeypatch, capsys
):
    """Seen by what is said where the record cannot be made; the run goes on without one."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    (source,) = pipeline_named("keywords").simulate(str(tmp_path / "in"), 40, 1)
    url = "http://127.0.0.1:9/api"  # where nobody listens
    command = ["keywords", source, str(tmp_path / "out"), "--set", "keyphrases=3", *option]
    (tmp_path / "file").touch()
    if option:
        home = {PREFECT_HOME: tmp_path / "file" / "home"}
        settings = temporary_settings(home, restore_defaults={PREFECT_API_URL})
    else:
        monkeypatch.setenv("PREFECT_API_URL", url)
        settings = temporary_settings({PREFECT_API_URL: url})
    with settings, pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 0
    said = "".join(capsys.readouterr())
    why = "a Prefect server cannot be started" if option else f"the Prefect server at {url}"
    assert f"This run is not recorded: {why}" in said.replace("\n", " ")


@pytest.mark.slow
def test_without_a_configured_server_a_flow_starts_none_and_a_block_one_with_a_password(tmp_path):
    """Prefect would start one that answers everyone."""
    home = {"PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER],
        env={**kept, **home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "None None 401 key {}"


WITHOUT_SERVER = """
import os, urllib.error, urllib.request
from prefect.blocks.system import Secret
from prefect.server.api.server import SubprocessASGIServer
from prefect.settings import PREFECT_API_URL
from flows.prefect import server
from flows.prefect import reached
from flows.prefect.flow import flow
from flows.settings import S3Access

@flow
def body():
    return PREFECT_API_URL.value()

answers = [body(), body.with_options(name="other")()]
with server.running() as url:
    try:
        urllib.request.urlopen(url + "/admin/settings")
    except urllib.error.HTTPError as error:
        answers.append(error.code)
    Secret(value={"aws_access_key_id": "key", "aws_secret_access_key": "x"}).save("s3")
with reached(S3Access(block="s3")):
    answers.append(os.environ["AWS_ACCESS_KEY_ID"])
print(*answers, SubprocessASGIServer._instances)
"""

UNRECORDED = """
import sys
from flows.cli import main
try:
    main(sys.argv[1:])
except SystemExit as stopped:
    assert stopped.code == 0
print("prefect" in sys.modules)
"""


def test_a_run_that_is_not_recorded_imports_no_prefect(tmp_path):
    (source,) = pipeline_named("keywords").simulate(str(tmp_path / "in"), 40, 1)
    file = tmp_path / "profiles.toml"
    file.write_text(ACTIVE.format(""))
    command = ["keywords", source, str(tmp_path / "out"), "--set", "keyphrases=3", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", UNRECORDED, *command],
        env={**os.environ, "PREFECT_PROFILES_PATH": str(file), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "False"
    assert (tmp_path / "out" / "latest.json").exists()
