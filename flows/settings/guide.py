"""The settings of a pipeline as people meet them: what matters first, then the rest by what it is
about; and a file of them, every one with its meaning."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from flows.settings.base import FIRST, GROUPS, RunSettings, grouped
from flows.settings.load import describe

_WIDTH = 88


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

    ``name``: of the pipeline. ``settings``: its settings.
    """
    lines = [
        f"# Settings of vbflows {name}.",
        *_wrapped(settings.question),
        f"# vbflows {name} SOURCE TARGET --config THIS-FILE",
        "# A line that begins with #: is a setting at its default; take the #: away to change it.",
    ]
    rows = {row[0]: row for row in describe(settings)}
    for group, members in grouped(settings).items():
        lines += ["", f"# {GROUPS[group]}", f"# {'-' * (_WIDTH - 2)}"]
        for member in members:
            _, bounds, _, meaning = rows[member]
            lines += ["", *_wrapped(f"{meaning} ({bounds})")]
            default = as_yaml(settings.model_fields[member].default)
            lines.append(f"{'' if group == FIRST else '#: '}{as_yaml(member)}: {default}")
    return "\n".join(lines) + "\n"


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(
        text, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
    )
