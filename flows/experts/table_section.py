"""What the experts report says of the table: how its columns and labels were read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flows.data.mixed import CATEGORY
from flows.experts.encoding import Encoding, listed
from flows.experts.summary import ExpertSummary
from flows.report.page import Grid, Section
from vbmodels.experts.encoding import Encoded

MOST_COLUMNS = 200  # of the input, shown


def encoding_of(summaries: Sequence[ExpertSummary]) -> Encoding | None:
    """Return what became of the columns."""
    return next((s.encoding for s in summaries if s.encoding is not None), None)


def positive_of(summaries: Sequence[ExpertSummary]) -> str:
    """Return the label that the probability is of."""
    found = encoding_of(summaries)
    return "1" if found is None else found.labels[-1]


def table_sections(found: Sequence[Encoding | None], results: dict[str, Any]) -> list[Section]:
    """Tell how every column was read."""
    encoding = next((one for one in found if one is not None), None)
    if encoding is None:
        return []
    results["labels"] = list(encoding.labels)
    results["left_out"] = sorted(encoding.left_out)
    rows = [_row(one) for one in encoding.columns[:MOST_COLUMNS]]
    rows += [(name, kind, "left out", "", "") for name, kind in encoding.left_out.items()]
    more = len(encoding.columns) - MOST_COLUMNS
    text = f"The labels are {listed(encoding.labels)}"
    text += "; probabilities are of the latter. " if len(encoding.labels) == 2 else ". "
    text += (
        "Each level listed has a column of 0 and 1; levels of the reference, and levels that "
        "the fit never saw, have 0 in all of them. The same stands in posterior/columns.json, by "
        "which new tables are read."
    )
    if more > 0:
        text += f" {more:,} more columns are not shown."
    names = ("column", "read as", "columns of the model", "reference", "missing cells")
    return [Section("How the table was read", text, (), (Grid(names, rows),))]


def _row(one: Encoded) -> tuple[Any, ...]:
    missing = f"{one.cells[-1]:,}" if one.cells else ""
    if one.missing:
        missing += ", with a column of their own"
    levels = [f"{text} ({n:,})" for text, n in zip(one.levels, one.cells, strict=False)]
    told = listed(levels) if one.kind == CATEGORY else "1"
    return one.name, one.kind, told, listed(one.reference), missing
