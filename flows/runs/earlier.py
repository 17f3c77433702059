"""What a run knows of the earlier one that it goes on from, and what it keeps for the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flows.data import json_files
from flows.data.runs import RunRecord


class KeptPart(json_files.Form):
    """A partition that a run kept: its rows, its files after ingest."""

    fingerprint: str
    folder: str
    files: dict[str, str]  # by name, the digest of what it holds
    ingested: Any


class Manifest(json_files.Form):
    """The contents of ``kept/manifest.json``."""

    parts: list[KeptPart]


@dataclass
class Since:
    """The earlier run, and what this run keeps.

    Attributes
    ----------
    earlier
        Its record; None where there is none yet.
    start
        URL of its global parameters; None where this run starts from the beginning.
    known
        Partitions that it kept, by the fingerprint of their rows.
    notes
        What the user should know.
    kept
        The partitions of this run, as far as it has come.
    reused
        How many of them were taken up.
    """

    earlier: RunRecord | None = None
    start: str | None = None
    known: dict[str, KeptPart] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    kept: list[KeptPart] = field(default_factory=list)
    reused: int = 0

    @property
    def run_id(self) -> str:
        """The earlier run; empty where there is none yet."""
        return "" if self.earlier is None else self.earlier.run_id
