"""What is wrong with an input: one sentence a fault, all faults at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong: where, what was expected, what was found, what to do.

    >>> print(Fault(file="a.parquet", column="doc_id", row=3, expected="a name", found="null",
    ...             remedy="give every document a name"))
    a.parquet, column doc_id, row 3: expected a name, found null; give every document a name
    """

    file: str
    expected: str
    found: str
    column: str | None = None
    row: int | None = None  # counted from 1
    remedy: str | None = None

    def __str__(self) -> str:
        where = self.file
        if self.column is not None:
            where += f", column {self.column}"
        if self.row is not None:
            where += f", row {self.row}"
        what = f"{where}: expected {self.expected}, found {self.found}"
        return f"{what}; {self.remedy}" if self.remedy else what


class RunError(Exception):
    """A run failed; the message is one sentence for the user."""


class ComputeError(RunError):
    """What computes was lost or is too small; the run can be resumed."""


class InputError(Exception):
    """The input or the settings are wrong; nothing was computed."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[type[InputError], tuple[tuple[Fault, ...]]]:
        """Travel from a worker with the faults, not with their text."""
        return InputError, (self.faults,)
