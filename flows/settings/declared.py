"""Settings made from the options that a family of models declares."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

from pydantic import Field, create_model

from flows.settings.base import RunSettings


def declared(*options: type, base: type[RunSettings] = RunSettings) -> type[RunSettings]:
    """Return the settings of a run with the options of models, each with its default and range.

    Parameters
    ----------
    options
        Dataclasses whose fields are made by `vbmodels.core.options.option`. What they say of a
        setting that every run has replaces what is said there.
    base
        Settings that the pipeline has beyond those.
    """
    found: dict[str, Any] = {}
    for kind in options:
        hints = get_type_hints(kind)
        for one in fields(kind):
            ends = one.metadata["range"].given()
            field = Field(one.default, description=one.metadata["meaning"], **ends)
            found[one.name] = (hints[one.name], field)
    return create_model("Declared", __base__=base, **found)
