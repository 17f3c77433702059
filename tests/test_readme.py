"""The README's examples run as they stand."""

import re
from pathlib import Path

import pytest

from flows.cli import main

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_python_example_runs(capsys):
    (block,) = [b for b in BLOCKS if "simulate_words" in b]
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.rstrip().endswith("True")


def test_the_estimators_example_runs(capsys):
    (block,) = [b for b in BLOCKS if "vbmodels.estimators" in b]
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.rstrip() == "[['cat'], ['dog']]"


def test_the_prefect_example_names_what_is_there():
    (block,) = [b for b in BLOCKS if "flows.pipelines" in b]
    names: dict[str, object] = {}
    imports = "\n".join(line for line in block.splitlines() if line.startswith("from "))
    exec(imports, names)
    parameters = names["keywords"].parameters.properties
    assert set(re.findall(r"^    (\w+)=", block, re.MULTILINE)) <= set(parameters)


def test_the_commands_exist(capsys):
    for command in sorted(set(re.findall(r"^    vbflows (\w+)", README, re.MULTILINE))):
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert stopped.value.code == 0, command
        options = set(re.findall(rf"vbflows {command} .*?(--\w[\w-]*)", README))
        text = capsys.readouterr().out
        assert all(option in text for option in options), command
