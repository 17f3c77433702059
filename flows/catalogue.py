"""The pipelines by name, found by the entry points of what is installed; ours like anyone's.

A package registers the settings of its family, which say what the pipeline answers and where
its code is; that is loaded when it runs::

    [project.entry-points."vbflows.families"]
    counts = "vbflows_counts.settings:CountSettings"
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from flows.faults import Fault, InputError, nearest
from flows.settings import RunSettings

if TYPE_CHECKING:
    from flows.family import Family

GROUP = "vbflows.families"

log = logging.getLogger("vbflows.pipeline")


def registered() -> dict[str, type[RunSettings]]:
    """Return the settings of every family that is installed, by its name.

    A package that cannot be loaded, or takes a name that is taken, is left out with a warning:
    it must not end the pipelines of others.
    """
    found: dict[str, type[RunSettings]] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: (not _ours(p.value), p.name)):
        try:
            settings = point.load()
            if not (isinstance(settings, type) and issubclass(settings, RunSettings)):
                raise TypeError(f"{point.value} is no class of settings")
        except Exception as error:
            log.warning("the pipeline %s cannot be loaded and is left out: %s", point.name, error)
            continue
        if point.name in found:
            log.warning("a second pipeline %s (%s) is left out", point.name, point.value)
            continue
        found[point.name] = settings
    return dict(sorted(found.items()))


def _ours(value: str) -> bool:
    return value.startswith("flows.")


PIPELINES = registered()
"""The class of settings of every pipeline."""


def pipeline_named(name: str) -> Family:
    """Load a pipeline.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    family: Family = import_module(known(name).family).FAMILY
    return family


def known(name: str) -> type[RunSettings]:
    """Return the settings of a pipeline.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name not in PIPELINES:
        near = nearest(name, PIPELINES)
        raise InputError(
            [
                Fault(
                    file="command line",
                    expected=f"one of the pipelines {', '.join(sorted(PIPELINES))}",
                    found=repr(name),
                    remedy=f"did you mean {near}?" if near else None,
                )
            ]
        )
    return PIPELINES[name]
