"""How a broken identity is told: which, where, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

Figures = dict[str, float]  # what a check measured, by name


class ContractBroken(AssertionError):
    """An identity that a model must keep does not hold.

    Attributes
    ----------
    item
        Number of the contract's item.
    identity
        What should hold.
    where
        The data, sweep, leaf or quantity at which it does not.
    found
        What was found, and by how much it is off.
    """

    def __init__(self, item: int, identity: str, where: str, found: str) -> None:
        super().__init__(f"item {item}, {identity}, is broken\n  where: {where}\n  found: {found}")
        self.item, self.identity, self.where, self.found = item, identity, where, found


@dataclass(frozen=True)
class Identity:
    """One identity of the contract."""

    item: int
    says: str

    def breaks(self, where: str, found: str) -> NoReturn:
        """Raise a `ContractBroken`."""
        raise ContractBroken(self.item, self.says, where, found)

    def holds(self, condition: bool, where: str, found: str) -> None:
        """Pass where ``condition`` is true.

        Raises
        ------
        ContractBroken
            Where it is not. An assert statement would be left out by ``python -O``.
        """
        if not condition:
            self.breaks(where, found)
