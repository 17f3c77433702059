"""The settings of a pipeline as people meet them: what matters first, then the rest by what it is
about; and a file of them, every one with its meaning."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from flows.settings.base import RunSettings
from flows.settings.load import describe, in_order

FIRST = "first"
GROUPS = {
    FIRST: "Settings that matter first",
    "model": "Settings of the model",
    "data": "Settings of the data",
    "output": "Settings of the output",
    "expert": "Settings for experts",
}
"""What settings are about, in the order in which they are told, and the heading of each group."""

_WIDTH = 88


def grouped(settings: type[RunSettings]) -> dict[str, list[str]]:
    """Return the names of settings by group, those that matter first as a group of their own.

    >>> list(grouped(RunSettings))
    ['data', 'expert']
    """
    group = dict.fromkeys(settings.model_fields, "model")
    for kind in reversed(settings.__mro__):
        for name, members in vars(kind).get("groups", {}).items():
            group.update(dict.fromkeys(members, name))
    group.update(dict.fromkeys(settings.first, FIRST))
    found: dict[str, list[str]] = {name: [] for name in GROUPS}
    for name in (*settings.first, *in_order(settings)):
        if name in group:
            found[group.pop(name)].append(name)
    return {name: members for name, members in found.items() if members}


def as_yaml(value: Any) -> str:
    """Write a default as YAML has it, in one line.

    >>> as_yaml(None), as_yaml((0.5, 2.0)), as_yaml("no"), as_yaml(1e-8)
    ('null', '[0.5, 2.0]', "'no'", '1.0e-08')
    """
    import yaml

    plain = list(value) if isinstance(value, tuple) else value
    plain = dict(plain) if isinstance(plain, dict) else plain  # of a class that YAML does not know
    text: str = yaml.safe_dump(plain, default_flow_style=True, width=float("inf"))
    return text.removesuffix("\n").removesuffix("\n...")


def commented(name: str, settings: type[RunSettings]) -> str:
    """Return a file of settings: those that matter first at their defaults, the rest commented out.

    Parameters
    ----------
    name
        Of the pipeline.
    settings
        Its settings.
    """
    lines = [
        f"# Settings of vbflows {name}.",
        *_wrapped(settings.question),
        f"# vbflows {name} SOURCE TARGET --config THIS-FILE",
        "# A line that begins with #: is a setting at its default; take the #: away to change it.",
    ]
    told = {row[0]: row for row in describe(settings)}
    for group, members in grouped(settings).items():
        lines += ["", f"# {GROUPS[group]}", f"# {'-' * (_WIDTH - 2)}"]
        for member in members:
            _, bounds, _, meaning = told[member]
            lines += ["", *_wrapped(f"{meaning} ({bounds})")]
            default = as_yaml(settings.model_fields[member].default)
            lines.append(f"{'' if group == FIRST else '#: '}{as_yaml(member)}: {default}")
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
