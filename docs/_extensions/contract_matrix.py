"""The directive ``{contract}``: which item of the contract tests which model, or why not."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from tests.contract.cases import cases
from vbmodels.testing.case import Case

ITEMS = {
    "best": ("1", "rise"),
    "global_step": ("4, global", "stationary"),
    "local_step": ("4, local", "stationary"),
    "monte_carlo": ("5", "definition"),
    "evidence": ("6, evidence", "truth"),
    "sampler": ("6, sampler", "sampler"),
    "recovery": ("7", "recovery"),
    "calibration": ("8", "calibration"),
    "extremes": ("9", "extremes"),
    "agreement": ("10", "agreement"),
    "draws": ("11", "draws"),
}
"""Field of a row: heading, and the name under which the row marks it as slow."""


def _cell(case: Case, field: str) -> str:
    if isinstance(getattr(case, field), str):
        return "–"
    return "slow" if ITEMS[field][1] in case.slow else "yes"


def _row(texts: list[str]) -> nodes.row:
    return nodes.row("", *[nodes.entry("", nodes.paragraph("", text)) for text in texts])


class Matrix(Directive):
    """A row a model, a column an item; then every reason for which an item is not tested."""

    def run(self) -> list[nodes.Node]:
        """Return the table and the list of reasons."""
        found = cases()
        headings = ["model", *(heading for heading, _ in ITEMS.values())]
        group = nodes.tgroup("", cols=len(headings))
        group += [nodes.colspec(colwidth=1) for _ in headings]
        group += nodes.thead("", _row(headings))
        body = [_row([case.name, *(_cell(case, field) for field in ITEMS)]) for case in found]
        group += nodes.tbody("", *body)
        return [nodes.table("", group, classes=["contract"]), *map(_reasons, found)]


def _reasons(case: Case) -> nodes.paragraph:
    skipped: dict[str, list[str]] = {}
    for field, (heading, _) in ITEMS.items():
        reason: Any = getattr(case, field)
        if isinstance(reason, str):
            skipped.setdefault(reason.rstrip("."), []).append(heading)
    text = "; ".join(f"({', '.join(items)}) {reason}" for reason, items in skipped.items())
    return nodes.paragraph("", "", nodes.strong("", case.name), nodes.Text(f": {text or 'all'}."))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("contract", Matrix)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
