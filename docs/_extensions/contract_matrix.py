"""The directive ``{contract}``: which item of the contract tests which model, or why not."""

from __future__ import annotations

from collections.abc import Sequence
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
        return [nodes.table("", group, classes=["contract"]), _reasons(found)]


def _reasons(found: Sequence[Case]) -> nodes.bullet_list:
    """List the reasons, each once, with its items and the models that it holds for."""
    held: dict[str, dict[str, list[str]]] = {}
    for case in found:
        for field, (heading, _) in ITEMS.items():
            reason: Any = getattr(case, field)
            if isinstance(reason, str):
                text = reason.rstrip(".")
                items = held.setdefault(text[0].upper() + text[1:], {})
                items.setdefault(heading, []).append(case.name)
    listed = []
    for reason, items in held.items():
        of = "; ".join(f"{item}: {', '.join(names)}" for item, names in items.items())
        text_of = nodes.paragraph("", "", nodes.strong("", reason), nodes.Text(f" ({of})"))
        listed.append(nodes.list_item("", text_of))
    return nodes.bullet_list("", *listed)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("contract", Matrix)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
