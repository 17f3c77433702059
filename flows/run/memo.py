"""Finished work that is not done again: results, found by the content of what they were made of.

A key stands for all that a result depends on: the content that goes in, the settings that matter,
and the version of the code. Results are JSON in the run's folder, wherever that is: a run that
began with a Prefect server can be resumed without one and the other way round.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from flows.data import json_files, storage
from flows.data.runs import versions
from flows.settings import RunSettings

R = TypeVar("R")
_log = logging.getLogger("vbflows.pipeline")

FREE = frozenset({"max_iter", "checkpoint_every"})  # settings that change no step


def that_matter(settings: RunSettings, free: frozenset[str] = FREE) -> dict[str, Any]:
    """Return the settings that results depend on, as they will be read again."""
    return dict(from_json(settings.model_dump_json(exclude=set(free))))


def differing(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Name the settings that are not the same."""
    missing = object()
    names = {**before, **now}
    return [name for name in names if before.get(name, missing) != now.get(name, missing)]


@cache
def code() -> str | None:
    """Return the version of the code that makes the results."""
    return versions().get("vbflows")


def key_of(*content: str) -> str:
    """Return the key of what this code makes of some content."""
    return hashlib.sha256("\0".join([str(code()), *content]).encode()).hexdigest()[:32]


class KeptResult(json_files.Form):
    """A finished result, and the key of what it is the result of."""

    key: str
    result: Any


class Memo(Generic[R]):
    """Results of one function in a folder.

    Parameters
    ----------
    folder
        Its URL.
    function
        What makes the results.

    Raises
    ------
    TypeError
        If the function does not state in its annotation what it returns.
    """

    def __init__(self, folder: str, function: Callable[..., R]) -> None:
        self._folder = folder
        self._type: TypeAdapter[R] = TypeAdapter(_returned(function))

    def get_or_make(self, key: str, make: Callable[[], R]) -> tuple[bool, R]:
        """Return whether there was a result, and it; else make it and keep it."""
        url = storage.join(self._folder, f"{key}.json")
        if storage.exists(url):
            try:
                kept = json_files.read(url, KeptResult)
                if kept.key == key:
                    return True, self._type.validate_json(to_json(kept.result))
            except (storage.DamagedError, ValueError) as error:
                _log.warning("a kept result is damaged and made again: %s", error)
        text = self._type.dump_json(make())
        json_files.write(url, KeptResult(key=key, result=from_json(text)))
        return False, self._type.validate_json(text)  # as it will be read again


def _returned(function: Callable[..., Any]) -> Any:
    inner = inspect.unwrap(getattr(function, "func", function))  # functools.partial has .func
    returned = typing.get_type_hints(inner).get("return")
    if returned is None:
        raise TypeError(
            f"{inner.__qualname__} must state in its annotation what it returns, because its "
            "result is kept as JSON"
        )
    return returned
