"""Which Prefect server is used, and that none is started."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from flows.catalogue import pipeline_named
from flows.cli import main
from flows.prefect import names_server

ROOT = Path(__file__).parents[3]

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


def test_a_run_goes_on_unrecorded_where_the_configured_server_does_not_answer(
    tmp_path, monkeypatch, capsys
):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    (source,) = pipeline_named("keywords").simulate(str(tmp_path / "in"), 40, 1)
    url = "http://127.0.0.1:9/api"  # where nobody listens
    monkeypatch.setenv("PREFECT_API_URL", url)
    monkeypatch.setenv("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")  # as the command does
    with temporary_settings({PREFECT_API_URL: url}), pytest.raises(SystemExit) as stopped:
        main(["keywords", source, str(tmp_path / "out"), "--set", "keyphrases=3"])
    assert stopped.value.code == 0
    assert (
        f"not recorded: PREFECT_API_URL: expected a Prefect server, found no answer from {url}"
        in (" ".join(capsys.readouterr().err.split()))
    )


def test_without_a_configured_server_none_is_started(tmp_path):
    """Prefect would start one that answers everyone."""
    home = {"PREFECT_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT")}
    plan = tmp_path / "plan.yaml"
    plan.write_text("deployments: [{name: a, pipeline: bags, source: a, target: b, every: 60}]")
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVER, str(plan)],
        env={**kept, **home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert done.stdout == "None None refused []\n"
    assert "prefect server start" in done.stderr


WITHOUT_SERVER = """
import sys
import psutil
from prefect.settings import PREFECT_API_URL
from flows.cli import main
from flows.faults import RunError
from flows.prefect import reached
from flows.prefect.flow import flow
from flows.settings import S3Access

@flow
def body():
    return PREFECT_API_URL.value()

answers = [body(), body.with_options(name="other")()]
try:
    with reached(S3Access(block="s3")):
        pass
except RunError:
    answers.append("refused")
print(*answers, psutil.Process().children())
main(["serve", sys.argv[1]])
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
