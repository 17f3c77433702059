"""The documentation: it builds without a warning, and every block of code in it runs."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest

from docs import tables
from flows.cli import main

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(
    p for p in DOCS.glob("**/*.md") if "```sh" in p.read_text() or "```python" in p.read_text()
)
_FENCE = re.compile(r"^```(?P<kind>[^\n`]*)\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code of a page: what it is written in, what it is, its exit code."""

    language: str
    code: str
    exit: int


def blocks(page: Path) -> list[Block]:
    found = []
    for match in _FENCE.finditer(page.read_text(encoding="utf-8")):
        language, _, options = match["kind"].partition(" ")
        if language in ("sh", "python"):
            exit = dict(o.split("=") for o in options.split()).get("exit", "0")
            found.append(Block(language, match["code"], int(exit)))
    return found


def run_line(line: str) -> int:
    """Run a line as a shell would; vbflows in this process, which saves its start."""
    words = shlex.split(line, comments=True)
    if words[0] != "vbflows":
        return subprocess.run(words, check=False).returncode
    with pytest.raises(SystemExit) as stopped:
        main(words[1:])
    return int(stopped.value.code or 0)


@pytest.mark.slow  # two minutes in all; CI runs them alone
@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(DOCS).with_suffix("")))
def test_code_runs(page, tmp_path, monkeypatch, prefect_server):
    """The blocks of a page, in order, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page):
        if block.language == "python":
            exec(compile(block.code, page.name, "exec"), names)
        else:
            for line in block.code.replace("\\\n", " ").splitlines():
                assert run_line(line) == block.exit, line


def test_every_language_is_known():
    """No block escapes the test above by a language of another name."""
    known = {"", "sh", "python", "text", "yaml", "json"}
    for page in DOCS.glob("**/*.md"):
        for match in _FENCE.finditer(page.read_text(encoding="utf-8")):
            language = match["kind"].partition(" ")[0]
            assert language in known or language.startswith("{"), f"{page}: {language}"


@pytest.mark.parametrize("page", sorted((DOCS / "pipelines").glob("*.md")), ids=lambda p: p.stem)
def test_settings_that_a_page_names_exist(page):
    family = import_module(f"flows.{page.stem}.family").FAMILY
    named = re.findall(r"`([a-z_0-9]+)=([^`]*)`", page.read_text(encoding="utf-8"))
    for name, value in named:
        field = family.settings.model_fields[name]
        if get_origin(field.annotation) is Literal:
            assert value in get_args(field.annotation), name


MADE = [page for page in sorted(DOCS.rglob("*.md")) if "<!-- made: " in page.read_text("utf-8")]


@pytest.mark.parametrize("page", MADE, ids=lambda page: page.stem)
def test_tables_of_the_sources_are_those_of_the_code(page):
    assert tables.renewed(page) == page.read_text("utf-8"), "run: python -m docs.tables"


def test_modules_of_the_reference_exist():
    pages = [page.read_text(encoding="utf-8") for page in DOCS.glob("api/*.rst")]
    named = {name for page in pages for name in re.findall(r"automodule:: (\S+)", page)}
    assert len(named) > 50
    assert [name for name in sorted(named) if find_spec(name) is None] == []


def test_no_type_is_one_that_only_arrow_knows():
    rows = [line.split(" | ") for page in MADE for line in page.read_text("utf-8").splitlines()]
    assert not [row for row in rows if len(row) > 1 and row[1].strip() == "null"]


def test_the_walk_through_is_short():
    assert (
        len(
            (ROOT / "tests/outside/vbflows_counts/vbflows_counts/model.py").read_text().splitlines()
        )
        <= 120
    )


@pytest.mark.slow  # a minute; CI runs it alone
@pytest.mark.timeout(900)
def test_site_builds_without_a_warning(tmp_path):
    """Warnings are errors."""
    copy = tmp_path / "tree"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "_build", "*.egg-info"))
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going",
         "docs", "docs/_build/html"],
        cwd=copy, capture_output=True, text=True, timeout=880,
        env={**os.environ, "PYTHONPATH": str(copy)}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "rows_per_partition" in (copy / "docs/_build/html/operations.html").read_text()
