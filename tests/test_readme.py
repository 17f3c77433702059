"""The README is true: its examples run, its rows are printed, its commands and files exist."""

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

from flows.catalogue import PIPELINES
from flows.cli import main
from flows.cli.output import out

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_it_is_short():
    assert len(README.splitlines()) <= 120


def test_the_worked_example_prints_these_rows(tmp_path, monkeypatch, capsys):
    (command,) = re.findall(r"^    vbflows (keywords examples/\S+ .*)$", README, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    os.symlink(ROOT / "examples", "examples")
    monkeypatch.setenv("COLUMNS", "130")
    out.cache_clear()
    with pytest.raises(SystemExit) as stopped:
        main(command.split())
    assert stopped.value.code == 0
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    rows = r"^    (\d+ likely new keyphrases.*\n(?:    .+\n|\n(?=    ))+)"
    shown = re.findall(rows, README, re.MULTILINE)[0]
    expected = [line.removeprefix("    ") for line in shown.splitlines()]
    assert printed[: len(expected)] == expected
    assert f"![{expected[0]}](" in README, "take the picture of the report again"
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    assert f"vbflows {command}\n" in index
    assert f"> {expected[0]}\n" in index


def test_the_estimators_example_runs(capsys):
    (block,) = [b for b in BLOCKS if "KeywordExtractor" in b]
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.rstrip() == "[['dog']]"


def test_the_prefect_example_names_what_is_there():
    (block,) = [b for b in BLOCKS if "s3://" in b]
    names: dict[str, object] = {}
    imports = "\n".join(line for line in block.splitlines() if line.startswith("from "))
    exec(imports, names)
    parameters = names["keywords"].parameters.properties
    assert set(re.findall(r"(\w+)=", block)) <= set(parameters)


def test_the_commands_exist():
    for command in sorted(set(re.findall(r"^    vbflows (\w+)", README, re.MULTILINE))):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), pytest.raises(SystemExit) as stopped:
            main([command, "--help-all" if command in PIPELINES else "--help"])
        assert stopped.value.code == 0, command
        options = set(re.findall(rf"vbflows {command} .*?(--\w[\w-]*)", README))
        assert all(option in text.getvalue() for option in options), command


def test_the_files_exist():
    for path in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / path).exists(), path
