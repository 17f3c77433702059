"""Finished work that a resumed run does not do again: small results, by key, as JSON.

The files stand in the run's folder wherever that is, so a run that began with a Prefect server
can be resumed without one and the other way round. No result is pickled.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from flows.data import json_files, storage

R = TypeVar("R")
_log = logging.getLogger("vbflows.pipeline")


class KeptResult(json_files.Form):
    """A finished result, and the key of what it is the result of."""

    key: str
    result: Any


class Kept:
    """Results of one stage in a folder; where there is no folder, nothing is kept."""

    def __init__(self, folder: str | None, name: str, function: Callable[..., Any]) -> None:
        self._folder, self._name = folder, name
        self._type: TypeAdapter[Any] = TypeAdapter(_returned(function))

    def load(self, key: str) -> tuple[bool, Any]:
        """Return whether there is a usable result, and the result."""
        url = self._url(key)
        if url is None or not storage.exists(url):
            return False, None
        try:
            kept = json_files.read(url, KeptResult)
            if kept.key == key:
                return True, self._type.validate_json(to_json(kept.result))
        except (storage.DamagedError, ValueError) as error:
            _log.warning("a kept result of %s is damaged and computed again: %s", self._name, error)
        return False, None

    def save(self, key: str, result: Any) -> Any:
        """Keep a result and return it as a later `load` will."""
        text = self._type.dump_json(result)
        url = self._url(key)
        if url is not None:
            json_files.write(url, KeptResult(key=key, result=from_json(text)))
        return self._type.validate_json(text)

    def _url(self, key: str) -> str | None:
        if self._folder is None:
            return None
        digest = hashlib.sha256(f"{self._name}\0{key}".encode()).hexdigest()[:32]
        return storage.join(self._folder, f"{digest}.json")


def keeping(
    folder: str | None,
    name: str,
    function: Callable[..., R],
    cache_key: Callable[[Any], str] | None,
) -> Callable[..., tuple[bool, R]]:
    """Wrap a function of an item: return whether its result was kept from before, and it.

    Raises
    ------
    TypeError
        If results are to be kept and the function does not say in its annotation what it
        returns.
    """
    if cache_key is None:
        return lambda item, *args: (False, function(item, *args))
    kept, key_of = Kept(folder, name, function), cache_key

    def call(item: Any, *args: Any) -> tuple[bool, R]:
        key = key_of(item)
        found, result = kept.load(key)
        return (True, result) if found else (False, kept.save(key, function(item, *args)))

    return call


def _returned(function: Callable[..., Any]) -> Any:
    inner = inspect.unwrap(getattr(function, "func", function))  # functools.partial has .func
    returned = typing.get_type_hints(inner).get("return")
    if returned is None:
        raise TypeError(
            f"{inner.__qualname__} must state in its annotation what it returns, because its "
            "result is kept as JSON"
        )
    return returned
