"""Templates that are compiled once for all runs."""

import os
import shutil
from pathlib import Path

import pytest
from jinja2 import Environment

from flows.report import render

SOME = "keywords/words.jinja"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Render's own file elsewhere, with the folder in which Python keeps what it compiles."""
    moved = tmp_path / "render.py"
    moved.write_text("")
    moved.with_name("__pycache__").mkdir()
    monkeypatch.setattr(render, "__file__", str(moved))
    monkeypatch.setattr(render, "environment", render.environment.__wrapped__)
    return moved


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the templates of which Jinja generates code, as it does."""
    names: list[str] = []
    generate = Environment._generate

    def noted(self: Environment, source: object, name: str, *more: object, **others: object) -> str:
        names.append(name)
        return generate(self, source, name, *more, **others)

    monkeypatch.setattr(Environment, "_generate", noted)
    return names


def test_a_second_process_compiles_none(module: Path, generated: list[str]) -> None:
    first = render.environment().get_template(SOME).module
    assert generated == [SOME]
    again = render.environment().get_template(SOME).module
    assert generated == [SOME]
    assert dir(again) == dir(first)


def test_changed_filters_compile_again(module: Path, generated: list[str]) -> None:
    render.environment().get_template(SOME)
    os.utime(module, (1.0, 1.0))
    render.environment().get_template(SOME)
    assert generated == [SOME, SOME]


def test_a_folder_that_cannot_be_written_to_hinders_nothing(
    module: Path, generated: list[str]
) -> None:
    shutil.rmtree(module.with_name("__pycache__"))
    render.environment().get_template(SOME)
    assert generated == [SOME]
    assert not module.with_name("__pycache__").exists()
