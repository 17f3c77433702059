"""Typed answers as ``results`` of run.json, and back."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import to_jsonable_python

from flows.settings import RunSettings


def is_typed(settings: type[RunSettings]) -> bool:
    """Whether a pipeline's answer is typed; `RunSettings.answer` names its module."""
    return bool(settings.answer)


def as_results(answer: Any) -> dict[str, Any]:
    """Return an answer as plain values; what is no number is null."""
    found: dict[str, Any] = to_jsonable_python(answer, inf_nan_mode="null")
    return found


def of_results(settings: type[RunSettings], results: dict[str, Any]) -> Any:
    """Return the answer that a record's ``results`` hold.

    Raises
    ------
    pydantic.ValidationError
        If they are those of another version.
    """
    return _adapter(settings.answer).validate_python(results)


@cache
def _adapter(module: str) -> TypeAdapter[Any]:
    return TypeAdapter(import_module(module).Answer)
