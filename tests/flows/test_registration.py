"""What is wrong with a package's registration is one sentence, and ends nobody else's pipeline."""

import json
import os
import subprocess
import sys

import pytest

from flows.catalogue import COMMANDS, PIPELINES
from flows.cli.app import app
from tests.outside.installed import ROOT

SETTINGS = '''
from pydantic import Field
from flows.settings import RunSettings

class Settings(RunSettings):
    """A thing."""
    question = "What?"
    reads = "PACKAGE.schema:TABLE"
    family = "PACKAGE.family"
    shape: float = Field(2.0, description="Shape.")
'''
SCHEMA = "from tests.flows.test_registration import table\nTABLE = table()"
FAMILY = "from tests.flows.test_registration import family\nFAMILY = family('PACKAGE')"

LEFT_OUT = {
    "absent": ({"settings": None}, "found ModuleNotFoundError: No module named 'absent.settings'"),
    "needing": (
        {"settings": "import nowhere.at_all"},
        "found ModuleNotFoundError: No module named 'nowhere'; install the package that nowhere is",
    ),
    "function": (
        {"settings": "def Settings(): pass"},
        "expected a class derived from flows.settings.RunSettings, found function",
    ),
    "untold": (
        {"settings": SETTINGS.replace("What?", "")},
        "expected the class attribute question to be set, found it empty",
    ),
    "show": ({}, "expected a name (letters, digits, _ and -) that no command has, found"),
    "keywords": (
        {},
        "expected a name that no other pipeline has, found that of "
        "flows.keywords.settings:KeywordSettings of the package vbflows",
    ),
}
"""What is said at every command, by the name: what the package has in place of what it should."""

BY_NAME = {
    "lost": ({"family": None}, "family, found ModuleNotFoundError: No module named 'lost.family'"),
    "unequipped": (
        {"family": "raise ModuleNotFoundError('no pysam', name='pysam.libc')"},
        "unequipped: expected the package pysam, found none; pip install 'vbflows[genomics]'",
    ),
    "partial": (
        {"family": FAMILY.replace("'PACKAGE'", "'PACKAGE', without='score'")},
        "found TypeError: Can't instantiate abstract class Made",
    ),
    "renamed": (
        {"family": FAMILY + "\nFAMILY.name = 'lda'"},
        "expected renamed.family.FAMILY.name to be what is registered, found lda",
    ),
    "shapeless": (
        {"settings": SETTINGS.replace("float", "'Nowhere'")},
        "expected settings of kinds that a file can say, found",
    ),
}
"""What is said when the pipeline is looked up."""


def table():
    """Return a table for a package that is right otherwise."""
    from flows.tables.table import TEXT, Column, Table

    return Table("things", "Things.", (Column("id", TEXT, "name"),))


def family(package, without=""):
    """Return a family for a package that is right otherwise."""
    from importlib import import_module

    from flows.family import Family

    functions = dict.fromkeys(Family.__abstractmethods__ - {without})
    made = type("Made", (Family,), functions)()
    made.name, made.suffixes = package, ()
    made.settings = import_module(f"{package}.settings").Settings
    return made


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Install them all side by side, and one that is right."""
    place = tmp_path_factory.mktemp("registered")
    kinds = {**LEFT_OUT, **BY_NAME, "right": ({}, "")}
    for name, (given, _) in kinds.items():
        package = name.replace(" ", "_")
        has = {"settings": SETTINGS, "schema": SCHEMA, "family": FAMILY, **given}
        info = place / f"vbflows_{package}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: of-{package}\nVersion: 1\n")
        point = f"{name} = {package}.settings:Settings"
        (info / "entry_points.txt").write_text(f"[vbflows.families]\n{point}\n")
        (place / package).mkdir()
        (place / package / "__init__.py").touch()
        for module, text in has.items():
            if text is not None:
                (place / package / f"{module}.py").write_text(text.replace("PACKAGE", package))
    return place


def run(place, *words):
    path = os.pathsep.join([str(place), str(ROOT)])
    return subprocess.run(
        [sys.executable, *words], env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def listed(place):
    done = run(place, "-m", "flows.entry", "--help")
    assert done.returncode == 0, done.stderr
    return done


def test_one_line_is_said_of_each(listed):
    assert len(listed.stderr.splitlines()) == len(LEFT_OUT), listed.stderr
    assert "right What?" in " ".join(listed.stdout.split())


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_cannot_be_loaded_is_left_out_with_a_sentence(listed, name):
    package = name.replace(" ", "_")
    begins = f"pipeline {name} of the package of-{package} ({package}.settings:Settings): expected "
    (line,) = [one for one in listed.stderr.splitlines() if one.startswith(begins)]
    assert LEFT_OUT[name][1] in line
    assert line.endswith("; it is left out")


LOOK_UP = """
import json, sys
from flows import catalogue
from flows.faults import InputError
said = {}
for name in sys.argv[1:]:
    try:
        catalogue.pipeline_named(name), catalogue.table_read(name)
    except InputError as error:
        said[name] = str(error)
print(json.dumps(said))
"""


def test_what_is_wrong_behind_the_settings_is_a_sentence_where_it_is_used(place):
    done = run(place, "-c", LOOK_UP, *BY_NAME, "right", "absent")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said.pop("absent").endswith(LEFT_OUT["absent"][1])
    assert set(said) == set(BY_NAME), said
    for name, (_, sentence) in BY_NAME.items():
        assert sentence in said[name]
        assert "\n" not in said[name]


@pytest.mark.parametrize(
    "words", [("absent", "--help"), ("absent", "in", "out"), ("simulate", "lost", "in")]
)
def test_a_command_that_names_it_ends_in_that_sentence_alone(place, tmp_path, words):
    only = tmp_path / "only"
    only.mkdir()
    for one in ("absent", "vbflows_absent-1.dist-info", "lost", "vbflows_lost-1.dist-info"):
        (only / one).symlink_to(place / one)
    done = run(only, "-m", "flows.entry", *words)
    lines = [line for line in done.stderr.splitlines() if "it is left out" not in line]
    assert done.returncode == 2, done.stderr
    (line,) = lines
    assert line.startswith(f"vbflows: pipeline {'lost' if 'lost' in words else 'absent'} of the")


def test_other_commands_names_are_known():
    import typer

    assert set(typer.main.get_command(app).commands) - set(PIPELINES) == COMMANDS
