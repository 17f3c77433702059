"""Levels of a column of categories: which stand alone, and which are too rare for that."""

from __future__ import annotations

from collections.abc import Mapping

YES = ("1", "1.0", "true", "t", "yes", "y")
NO = ("0", "0.0", "false", "f", "no", "n")
"""Words of the two levels of a column that says yes or no, in small letters."""

DATE_CELL = r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?Z?)?"
"""What a cell of text is as a whole where it is a date, or a moment."""

NEARLY = 0.9
"""Share of numbers among a column's cells from which on the others are taken for mistakes."""


def rare_levels(counts: Mapping[str, int], least: int, most: int) -> list[str]:
    """Return the categories of a column that are joined into one, most frequent first.

    Those with fewer than ``least`` cells, and as many more as leave ``most`` categories; a rare one
    that is alone stays, and so does the most frequent one.

    Parameters
    ----------
    counts
        Cells of each category.
    least, most
        See above.

    Examples
    --------
    >>> rare_levels({"a": 90, "b": 40, "c": 3, "d": 2}, least=5, most=100)
    ['c', 'd']
    >>> rare_levels({"a": 90, "b": 40, "c": 30, "d": 2}, least=5, most=3)
    ['c', 'd']
    """
    ordered = sorted(counts, key=lambda text: (-counts[text], text))
    own = sum(counts[text] >= least for text in ordered)
    if len(ordered) > most:
        own = min(own, most - 1)
    joined = ordered[max(own, 1) :]
    return joined if len(joined) > 1 else []
