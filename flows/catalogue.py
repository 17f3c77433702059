"""The pipelines by name, found by the entry points of what is installed; ours like anyone's.

A package registers the settings of its family, which say what the pipeline answers and where
its code is; that is loaded when it runs::

    [project.entry-points."vbflows.families"]
    counts = "vbflows_counts.settings:CountSettings"
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from flows.faults import Fault, InputError, install_command, nearest
from flows.settings import RunSettings, describe

if TYPE_CHECKING:
    from flows.family import Family
    from flows.tables.table import Table

GROUP = "vbflows.families"

COMMANDS = frozenset(
    {"check", "compare", "compile", "count", "demo", "init", "runs", "score", "serve", "show"}
    | {"simulate"}
)
"""Names that no pipeline can have: the other commands."""

_NAME = re.compile(r"[A-Za-z][\w-]*", re.ASCII)


def registered() -> tuple[
    dict[str, type[RunSettings]], dict[str, EntryPoint], list[tuple[str, Fault]]
]:
    """Return settings and entry points of what is installed, by name, and what is left out.

    A package that cannot be loaded, or takes a name that is taken, must not end the pipelines
    of others.
    """
    settings: dict[str, type[RunSettings]] = {}
    points: dict[str, EntryPoint] = {}
    broken = []
    # Ours first: nobody takes their names.
    for point in sorted(
        entry_points(group=GROUP),
        key=lambda p: (not p.value.startswith("flows."), p.name, _package(p), p.value),
    ):
        try:
            if point.name in points:
                other = points[point.name]
                raise _wrong(
                    point,
                    "a name that no other pipeline has",
                    f"that of {other.value} of the package {_package(other)}",
                )
            settings[point.name] = _loaded(point)
            points[point.name] = point
        except InputError as error:
            broken.append((point.name, error.faults[0]))
    return dict(sorted(settings.items())), points, broken


def pipeline_named(name: str) -> Family:
    """Load a pipeline.

    Raises
    ------
    InputError
        If there is none of that name, or its package is not what it must be.
    """
    from flows.family import Family

    settings, point = known(name), _POINTS[name]
    with _importing(point, f"a family that can be imported from {settings.family}"):
        module = import_module(settings.family)
    family = getattr(module, "FAMILY", None)
    if not isinstance(family, Family):
        expected = (
            f"FAMILY, an object of a class derived from flows.family.Family, in {module.__name__}"
        )
        raise _wrong(point, expected, _kind(family))
    for member, value in {"name": name, "settings": settings}.items():
        if (found := getattr(family, member, None)) != value:
            expected = f"{settings.family}.FAMILY.{member} to be what is registered"
            raise _wrong(point, expected, str(found))
    return family


def known(name: str) -> type[RunSettings]:
    """Return the settings of a pipeline.

    Raises
    ------
    InputError
        If there is none of that name, or its package is not what it must be.
    """
    if name in PIPELINES:
        return _described(name)
    for broken, fault in BROKEN:
        if broken == name:
            raise InputError([fault])
    near = nearest(name, PIPELINES)
    fault = Fault(
        file="command line",
        expected=f"one of the pipelines {', '.join(sorted(PIPELINES))}",
        found=repr(name),
        remedy=f"did you mean {near}?" if near else "it is the word after the command",
    )
    raise InputError([fault])


def table_read(name: str) -> Table | None:
    """Return the table that a pipeline says it reads; None where it names none.

    Raises
    ------
    InputError
        If it cannot be imported.
    """
    from flows.tables.table import Table

    reads = known(name).reads
    if not reads:
        return None
    module, _, variable = reads.partition(":")
    with _importing(_POINTS[name], f"the table that it reads, as module:NAME in {reads}"):
        table = getattr(import_module(module), variable)
        if not isinstance(table, Table):
            raise TypeError(f"{variable} is {_kind(table)}, no flows.tables.table.Table")
    return table


@cache
def _described(name: str) -> type[RunSettings]:
    with _importing(_POINTS[name], "settings of kinds that a file can say"):
        describe(PIPELINES[name])
    return PIPELINES[name]


def _loaded(point: EntryPoint) -> type[RunSettings]:
    """Return the settings that a package registers, or raise what is wrong with them."""
    if not _NAME.fullmatch(point.name) or point.name in COMMANDS:
        raise _wrong(
            point, "a name (letters, digits, _ and -) that no command has", repr(point.name)
        )
    with _importing(point, "settings that can be imported as module:CLASS"):
        settings: Any = point.load()
    if not (isinstance(settings, type) and issubclass(settings, RunSettings)):
        raise _wrong(point, "a class derived from flows.settings.RunSettings", _kind(settings))
    for attribute in ("question", "family"):
        if not getattr(settings, attribute):
            raise _wrong(point, f"the class attribute {attribute} to be set", "it empty")
    return settings


@contextmanager
def _importing(point: EntryPoint, expected: str) -> Iterator[None]:
    """Turn whatever an outsider's module raises into one sentence about its registration."""
    try:
        yield
    except (Exception, SystemExit) as error:
        first = (str(error) or "no message").splitlines()[0]
        remedy = None
        if isinstance(error, ModuleNotFoundError):
            missing = error.name or ""
            if command := install_command(error):
                raise InputError(
                    [
                        Fault(
                            f"pipeline {point.name}",
                            f"the package {missing.partition('.')[0]}",
                            "none",
                            remedy=command,
                        )
                    ]
                ) from error
            if missing.partition(".")[0] != point.value.partition(".")[0]:
                remedy = f"install the package that {missing} is in"
        raise _wrong(point, expected, f"{type(error).__name__}: {first}", remedy) from error


def _wrong(point: EntryPoint, expected: str, found: str, remedy: str | None = None) -> InputError:
    place = f"pipeline {point.name} of the package {_package(point)} ({point.value})"
    return InputError([Fault(place, expected, found, remedy=remedy)])


def _kind(value: object) -> str:
    if value is None:
        return "none"
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "unknown"


PIPELINES, _POINTS, BROKEN = registered()
"""The class of settings of every pipeline; where it is registered; what is left out, and why."""
