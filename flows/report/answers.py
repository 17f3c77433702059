"""Typed answers as ``results`` of run.json, and back."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from flows.records.runs import RunRecord
from flows.settings import RunSettings


@runtime_checkable
class Shortened(Protocol):
    """An answer with rows of which the record of a run keeps few: all are in the tables."""

    def shortened(self) -> Any:
        """Return it with as many rows as a terminal shows."""


def as_results(answer: Any) -> dict[str, Any]:
    """Return an answer as plain values; what is no number is null."""
    shown = answer.shortened() if isinstance(answer, Shortened) else answer
    values: dict[str, Any] = to_jsonable_python(shown, inf_nan_mode="null")
    return values


def of_results(settings: type[RunSettings], results: dict[str, Any]) -> Any:
    """Return the answer that a record's ``results`` hold.

    Raises
    ------
    pydantic.ValidationError
        If they are those of another version.
    """
    return _adapter(settings.answer).validate_python(results)


def answer_of_fit(settings: type[RunSettings], record: RunRecord | None) -> Any:
    """Return the answer of the fit that is applied; None where it is of another version."""
    try:
        return None if record is None else of_results(settings, record.results)
    except ValidationError:
        return None


@cache
def _adapter(module: str) -> TypeAdapter[Any]:
    return TypeAdapter(import_module(module).Answer)
