"""Sums of several fits side by side, each over the tree of its own partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from vbmodels.core.state import State, Stats


@dataclass(frozen=True)
class Branch(State, kind="variants/two_groups.Branch"):
    """The sum over a complete subtree of one case's partitions.

    Attributes
    ----------
    case
        Which case.
    start, size
        Its partitions, by their places among those of the case.
    stats
        Their sum.
    """

    case: int
    start: int
    size: int
    stats: Any

    def follows(self, left: Branch) -> bool:
        """Whether this and the branch before it are the halves of one."""
        return (
            self.case == left.case
            and self.size == left.size
            and self.start == left.start + left.size
            and left.start % (2 * left.size) == 0
        )


@dataclass(frozen=True)
class CaseSums(Stats, kind="variants/two_groups.CaseSums"):
    """Sums of the cases' partitions, as far as they have been added up.

    Branches are joined where they are halves of one, as `vbmodels.core.in_process.TreeSum` does.
    So the sum of a case has the bits that it has where its partitions stand alone, wherever they
    stand among those of others.

    Attributes
    ----------
    branches
        By case and place, rising.
    """

    branches: tuple[Branch, ...] = ()

    def __add__(self, other: Self) -> Self:
        joined: list[Branch] = []
        every = (*self.branches, *other.branches)
        for branch in sorted(every, key=lambda b: (b.case, b.start)):
            last = branch
            while joined and last.follows(joined[-1]):
                left = joined.pop()
                last = Branch(left.case, left.start, 2 * left.size, left.stats + last.stats)
            joined.append(last)
        return type(self)(tuple(joined))

    def total(self, case: int) -> Any:
        """Return the sum of a case, or None where it has none."""
        own = [branch.stats for branch in self.branches if branch.case == case]
        if not own:
            return None
        total = own.pop()
        while own:
            total = own.pop() + total
        return total

    def by_case(self) -> dict[int, Any]:
        """Return the sums of all cases that have some."""
        return {case: self.total(case) for case in sorted({b.case for b in self.branches})}
