"""Options of models, each declared once: default, range and meaning.

The pipelines' settings and the estimators' constructors are made from these declarations, so
a default or a range cannot differ between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Range:
    """Ends of a number's range; one that is None is open to infinity."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None

    def given(self) -> dict[str, float]:
        """Return the ends that there are, by name.

        >>> Range(ge=1, le=200).given()
        {'ge': 1, 'le': 200}
        """
        return {name: end for name, end in vars(self).items() if end is not None}


def option(
    default: Any,
    meaning: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    positional: bool = False,
) -> Any:
    """Declare an option as a field of a dataclass.

    Parameters
    ----------
    default
        Its default.
    meaning
        What it is, in a sentence for help and documentation.
    ge, gt, le, lt
        Ends of its range, as far as it is a number.
    positional
        Whether a constructor takes it by position too.
    """
    metadata = {"meaning": meaning, "range": Range(ge, gt, le, lt)}
    return field(default=default, metadata=metadata, kw_only=not positional)


def share(default: Any, meaning: str) -> Any:
    """Declare an option that is a number strictly between 0 and 1."""
    return option(default, meaning, gt=0.0, lt=1.0)


LARGEST = 1e150
"""Size of a number whose square, and sums of such, are still numbers."""
