"""Commands that a page names for its run, each to be pasted as it stands."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flows.escape import without_secrets


@dataclass(frozen=True)
class Commands:
    """Commands of one run.

    Attributes
    ----------
    family
        Its family.
    files
        The input that was given.
    target
        Where its runs are.
    root
        The run's own address.
    changed
        Settings that were given.
    """

    family: str
    files: Sequence[str]
    target: str
    root: str
    changed: Mapping[str, Any]

    def again(self, *settings: str) -> str:
        """Return the run's own command with other settings, each ``name=value``.

        >>> Commands("bags", ["a.csv"], "out", "out/runs/1", {"seed": 2}).again("held_out=0.3")
        'vbflows bags a.csv out --set seed=2 --set held_out=0.3'
        """
        changed = dict(self.changed) | dict(assignment.split("=", 1) for assignment in settings)
        words = ["vbflows", self.family, *self.files, self.target]
        for name, yours in (changed.pop("columns", None) or {}).items():
            words += ["--column", f"{name}={yours}"]
        for name, value in changed.items():
            text = value
            if not isinstance(value, str):
                text = json.dumps(value, default=str).removesuffix(".0")
            words += ["--set", f"{name}={text}"]
        return without_secrets(shlex.join(words))

    def show(self, table: str = "", *options: str) -> str:
        """Return the command that lists a table of the run.

        >>> Commands("bags", ["a.csv"], "out", "out/runs/1", {}).show("bags", "--csv")
        'vbflows show out/runs/1 bags --csv'
        """
        tables = [table] if table else []
        return without_secrets(shlex.join(["vbflows", "show", self.root, *tables, *options]))

    def score(self) -> str:
        """Return the command that predicts a new file."""
        return without_secrets(shlex.join(["vbflows", "score", self.root, "NEW_FILE", "scored/"]))

    def compare(self) -> str:
        """Return the command that compares another run with this one."""
        return without_secrets(shlex.join(["vbflows", "compare", self.root, "OTHER_RUN"]))
