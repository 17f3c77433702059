"""Hostile input stays text, names stay below the target, secrets stay secret."""

import base64
import hashlib
import json
import re
import shutil
import socket
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest

from flows import storage
from flows.cli import main
from flows.faults import RunError
from flows.features.settings import FeatureSettings
from flows.pipelines import features
from flows.read.compare import compare
from flows.read.compare import page as compared_page
from flows.read.compare import terminal as compared_terminal
from flows.records.runs import PublishError, RunPaths, complete, open_run
from flows.report import render
from flows.run import run as launch
from flows.settings import ComputeSettings, S3Access
from flows.storage import StorageError
from tests.answers import hostile, snapshots
from tests.answers.hostile import HOSTILE
from tests.faults import pipelines, stores

ROOT = Path(__file__).resolve().parents[2]
CANARY = "canary-5e0c1d2b9f"
KEPT = [snapshots.HERE / family / f"{name}.json" for family, name in snapshots.ALL]
RICHEST = [  # a kind of answer of each family with most of its parts
    snapshots.HERE / kind
    for kind in (
        "bags/classes.json",
        "experts/held_out.json",
        "features/undecided.json",
        "keywords/number.json",
        "variants/cases.json",
    )
]


@pytest.fixture(scope="module")
def browse(tmp_path_factory):
    """Return the document that a page becomes in headless Chromium, with scripts on."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("chromium is not installed")
    home = tmp_path_factory.mktemp("chromium")

    def dom(path):
        done = subprocess.run(
            [
                *(found, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
                *("--no-first-run", "--disable-background-networking", "--disable-extensions"),
                *(f"--user-data-dir={home}", "--dump-dom", path.as_uri()),
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.stdout, done.stderr[-500:]
        return done.stdout

    return dom


def hostile_comparison(folder, path):
    """Compare two runs with the hostile record of a kept one."""
    places = []
    for run_id, shift in (("a", 0.0), ("b", 0.5)):
        paths = RunPaths(str(folder), run_id)
        names, label = [f"<i>{name}\nforged:\t" for name in HOSTILE], f"probability_{HOSTILE[0]}"
        chances = [abs(shift - 0.1 * i) for i in range(7)]
        rows = {"id": names, label: chances, "label": names, HOSTILE[1]: names}
        storage.write_table(paths.table("rows", 0), pa.table(rows))
        own = {"run_id": run_id, "settings": dict.fromkeys(names, run_id), "source": names}
        versions, warnings = {names[0]: run_id}, [f"{name} {run_id}" for name in names]
        own |= {"versions": versions, "warnings": warnings, "headline": names[0]}
        complete(paths, hostile.record_of(path).model_copy(update=own))
        places.append(paths.root)
    return compare(*places, page=f"{folder}/compared.html")


def own_scripts_alone(html):
    """Whether a page runs only scripts that its policy names by digest; charts are JSON."""
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digests = [
        "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in scripts
    ]
    policy = "script-src" + "".join(f" '{digest}'" for digest in digests) + ";"
    charts = html.count('<script type="application/json">')
    return html.count("<script") == len(scripts) + charts and policy in html


class Handlers(HTMLParser):
    """Collects elements that a name made, and attributes by which one would run something."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        self.found += [(tag, name) for name, _ in attrs if name.startswith("on")]
        self.found += [(tag, "")] if tag in ("i", "img", "svg") else []


def made_by_names(html):
    """Return the elements and handlers of a page that none of its templates has."""
    handlers = Handlers()
    handlers.feed(html)
    return handlers.found


def escaped_once(html):
    """Whether names are text of a page, and of its charts, as they were given."""
    assert own_scripts_alone(html)
    assert "Content-Security-Policy" in html
    assert made_by_names(html) == []
    assert "&lt;i&gt;" in html
    return "&amp;lt;" not in html and r"\u0026lt;" not in html


def harmless(html, page, browse):
    """Look at a page without its policy, so that escaping alone keeps it harmless."""
    policy = html.index("<meta http-equiv")
    page.write_text(html[:policy] + html[html.index(">", policy) + 1 :], encoding="utf-8")
    found = browse(page)
    root = found[found.index("<html") : found.index(">", found.index("<html"))]
    assert "data-owned" not in root
    handlers = [name for _, name in made_by_names(found) if name]
    assert handlers == []
    return found


def test_the_browser_runs_what_is_not_escaped(browse, tmp_path):
    page = tmp_path / "bare.html"
    page.write_text(f"<html><body>{HOSTILE[0]}</body></html>", encoding="utf-8")
    assert 'data-owned="1"' in browse(page)


def lines_are_ours(text):
    """Whether names are in a text of a terminal, and make no line and no column of it."""
    assert "<i>" in text
    return "\nforged:" not in text and "\t" not in text


@pytest.mark.parametrize("path", KEPT, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_names_are_text_in_every_answer(path):
    shown = hostile.shown(path)
    assert escaped_once(render.page(shown))
    assert not any(tag in rendered(render.markdown(shown)) for tag in TAGS)
    assert lines_are_ours(render.terminal(shown))


@pytest.mark.parametrize("path", RICHEST, ids=lambda path: path.parent.name)
def test_nothing_in_a_report_runs(path, browse, tmp_path, monkeypatch):
    found = harmless(render.page(hostile.shown(path)), tmp_path / "report.html", browse)
    assert "&lt;script&gt;" in found
    assert "term|with|pipes" in found
    assert "{{ 7 * 7 }}" in found
    # Words that reach a page by their own name are not escaped: the tests would see it.
    monkeypatch.setattr(render, "ESCAPED", render.WORDS)
    render.environment.cache_clear()
    assert made_by_names(render.page(hostile.shown(path)))
    render.environment.cache_clear()


def test_nothing_in_two_runs_compared_runs(browse, tmp_path):
    found = hostile_comparison(tmp_path / "target", snapshots.HERE / "experts" / "held_out.json")
    html = compared_page(found)
    assert escaped_once(html)
    assert "&lt;svg" in harmless(html, tmp_path / "compared.html", browse)
    assert lines_are_ours(compared_terminal(found, 20))


def hostile_features(folder):
    """Write categories, columns and ids that mean harm."""
    table = pa.table(
        {
            "id": [f"{HOSTILE[i % 7]} {i}" for i in range(60)],
            HOSTILE[0]: [HOSTILE[i % 2] for i in range(60)],
            HOSTILE[2]: [HOSTILE[2 + i % 3] for i in range(60)],
            "=cmd": [HOSTILE[(i * i) % 5] for i in range(60)],
        }
    )
    url = str(folder / "hostile.parquet")
    storage.write_table(url, table)
    return url


@pytest.mark.thorough
def test_nothing_in_a_run_of_hostile_data_runs(browse, tmp_path):
    url = hostile_features(tmp_path)
    outcome = pipelines.run("features", url, str(tmp_path / "out"), n_features=2)
    html = Path(outcome["report"]).read_text(encoding="utf-8")
    assert own_scripts_alone(html)
    harmless(html, tmp_path / "report.html", browse)


TAGS = ("<i>", "<script", "<img", "<svg", "<a ")


def rendered(text):
    """Return Markdown as HTML."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


@pytest.mark.parametrize("name", HOSTILE)
def test_markdown_shows_what_was_written(name):
    html = rendered(f"| a | b |\n|---|---|\n| {render.as_markdown(name)} | second |\n")
    assert html.count("<td>") == 2
    assert not any(tag in html for tag in TAGS)


@pytest.mark.parametrize(
    "run_id", ["..", "../up", "/etc", "a/b", "a\\b", "a\x00", "a\n", "", ".hidden", "-x", "x" * 81]
)
def test_a_run_id_cannot_leave_the_target(tmp_path, run_id):
    with pytest.raises(PublishError, match="cannot be a run id"):
        RunPaths(str(tmp_path), run_id)
    (tmp_path / "latest.json").write_text(json.dumps({"run_id": run_id, "pipeline": "bags"}))
    with pytest.raises(PublishError, match="cannot be a run id"):
        open_run(str(tmp_path))


@pytest.mark.parametrize("name", ["..", "../x", "/etc/passwd", "a\x1b[2J", "a\nb", "a\\..\\b"])
def test_a_table_cannot_leave_the_run(tmp_path, name):
    paths = RunPaths(str(tmp_path), "r1")
    with pytest.raises(StorageError, match="cannot be the name of an object"):
        paths.table(name, 1)
    with pytest.raises(StorageError, match="cannot be the name of an object"):
        paths.file(name)


def test_resume_takes_no_path(tmp_path, capsys):
    source = hostile_features(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["features", source, str(tmp_path / "out"), "--resume", "../../x"])
    assert ended.value.code == 2
    assert "cannot be a run id" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["hostile.parquet"]


def holding(folder, text):
    """Return the files below a folder that hold a text."""
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    return [path for path in files if text.encode() in path.read_bytes()]


@pytest.fixture
def canary_store(tmp_path, monkeypatch):
    """A server whose secret is the canary; the environment knows it."""
    for bucket in ("in", "out"):
        (tmp_path / "s3" / bucket).mkdir(parents=True)
    monkeypatch.setattr(stores, "SECRET", CANARY)
    server = stores.Rclone(tmp_path / "s3")
    stores.enter(monkeypatch, server.url, secret=CANARY)
    yield server
    server.kill()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_the_canary_is_nowhere(canary_store, tmp_path, monkeypatch, caplog, capfd):
    """Runs that succeed and that fail, with every log at its most talkative."""
    monkeypatch.setenv("VBFLOWS_DEBUG", "1")
    monkeypatch.setattr("flows.storage.objects.retry.PATIENCE", 0.5)
    caplog.set_level("DEBUG")
    source = "s3://in/hostile.parquet"
    storage.write_bytes(source, Path(hostile_features(tmp_path)).read_bytes())
    common = ("--set", "max_iter=61", "--set", "n_features=2")
    for arguments in (
        ("features", source, "s3://out", *common),
        ("features", source, "s3://missing", *common),
        ("features", "s3://in/missing.parquet", "s3://out", *common),
        ("features", f"s3://key:{CANARY}@in/x.parquet", "s3://out", *common),
        ("show", "s3://out"),
    ):
        with pytest.raises(SystemExit):
            main(list(arguments))
    canary_store.kill()
    with pytest.raises(SystemExit):
        main(["features", source, "s3://out", *common])
    said = capfd.readouterr()
    assert "Traceback" in said.err  # the debugging output was looked at too
    assert "report s3://out/" in said.out
    assert CANARY not in said.out + said.err
    assert CANARY not in caplog.text
    assert holding(tmp_path / "s3", "hostile")
    assert not holding(tmp_path / "s3", CANARY)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning")
def test_a_prefect_block_keeps_the_canary(
    canary_store, tmp_path, monkeypatch, prefect_server, caplog, capfd
):
    from prefect.blocks.system import Secret
    from prefect.settings import PREFECT_HOME

    source = "s3://in/hostile.parquet"
    storage.write_bytes(source, Path(hostile_features(tmp_path)).read_bytes())
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    keys = {"aws_access_key_id": stores.KEY, "aws_secret_access_key": CANARY}
    Secret(value=json.dumps(keys)).save("canary-store", overwrite=True, _sync=True)
    caplog.set_level("DEBUG")
    settings = FeatureSettings(max_iter=61, n_features=2)
    compute = ComputeSettings(s3=S3Access(block="canary-store"))
    launch("features", source, "s3://out", settings, compute)
    block = ComputeSettings(s3=S3Access(block="none"))
    with pytest.raises(RunError, match="the Prefect Secret block 'none' cannot be read"):
        features(source, "s3://out", settings=settings, compute=block)
    said = capfd.readouterr()
    assert CANARY not in said.out + said.err + caplog.text
    assert not holding(tmp_path / "s3", CANARY)
    assert not holding(PREFECT_HOME.value(), CANARY)


def test_dependencies_without_known_faults(tmp_path):
    if find_spec("pip_audit") is None:
        pytest.skip("pip-audit is not installed")
    try:
        socket.create_connection(("api.osv.dev", 443), timeout=5).close()
    except OSError as error:
        pytest.skip(f"pip-audit cannot reach its database (api.osv.dev): {error}")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip_audit", "--vulnerability-service", "osv"),
            *("--disable-pip", "--require-hashes"),
            *("-r", str(ROOT / "deploy" / "requirements.lock")),
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if "ConnectionError" in done.stderr or "ServiceError" in done.stderr:
        pytest.skip(f"pip-audit cannot reach its database: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr
