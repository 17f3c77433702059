"""The pages of docs/models: where each equation of a paper is in the source.

A row of their tables has four cells: equations of the paper, what they are, objects of the source,
and how ours differ. The role ``source`` names an object as ``FILE:NAME`` and links to its line in
a copy of the file that is made with the pages. `cited` reads which equations a text names, by
one grammar for a row's first cell and for the source: ``eq 17``, ``eqs 20 to 22 and 24``,
``section 1.3.4``, ``A.1.3``, ``B.1.9 and B.1.10``, ``eq VII``, ``Lemma 1``, ``Algorithm 1``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst.states import Inliner
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "models"

_ROLE = re.compile(r"\{source\}`([^`]+)`")
_ITEM = r"\(?(?:[AB](?:\.\d+)+|[IVX]+|\d+(?:\.\d+)*[a-c]?)\)?(?!\w)"
_LIST = rf"{_ITEM}(?:\s*(?:,\s*(?:and\s+)?|\band\s+|\bto\s+|-){_ITEM})*"
_CITATION = re.compile(
    rf"\b(?:([Ee]q|[Ee]quation|[Ss]ection|Lemma|Algorithm)s?\.?\s+)({_LIST})"
    r"|\b([AB](?:\.\d+)+(?:\s*(?:,\s*(?:and\s+)?|\band\s+|\bto\s+)[AB](?:\.\d+)+)*)"
)
_ROMAN = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X")


def cited(text: str) -> frozenset[str]:
    """Return what a text cites, as ``eq 17``, ``section 1.3.4``, ``A.1.3``; ranges written out."""
    found: set[str] = set()
    # A citation may go on in the next line of a docstring or a comment.
    for match in _CITATION.finditer(re.sub(r"\s*\n\s*#?\s*", " ", text)):
        kind = (match[1] or "").lower().replace("equation", "eq")
        last = ""
        for link, item in re.findall(rf"(to\s+|-)?({_ITEM})", match[2] or match[3]):
            label = item.strip("()")
            for each in _between(last, label) if link else (label,):
                found.add(each if each[0] in "AB" else f"{kind} {each}")
            last = label
    return frozenset(found)


def _between(first: str, last: str) -> Iterator[str]:
    """Yield the labels after ``first`` up to ``last``, which differ in their last number."""
    if first in _ROMAN:
        yield from _ROMAN[_ROMAN.index(first) + 1 : _ROMAN.index(last) + 1]
        return
    stem, _, start = first.rpartition(".")
    end = re.sub(r"\D", "", last.rpartition(".")[2])
    for number in range(int(re.sub(r"\D", "", start)) + 1, int(end) + 1):
        yield f"{stem}.{number}" if stem else str(number)


@dataclass(frozen=True)
class Place:
    """An object of the source.

    Attributes
    ----------
    path, name
        Its file, from the root, and its name in there; "" for the file's own docstring.
    line
        Where it begins.
    text
        Its source, a constant's with the docstring below; of a file the docstring.
    """

    path: str
    name: str
    line: int
    text: str

    @classmethod
    @cache
    def of(cls, target: str) -> Place:
        """Find ``FILE:NAME``, or ``FILE``.

        Raises
        ------
        LookupError
            If there is no such file, or if nothing of that name is defined in it.
        """
        path, _, name = target.partition(":")
        if not (ROOT / path).is_file():
            raise LookupError(f"{path} is no file of the source")
        found: Any = import_module(path.removesuffix(".py").replace("/", "."))
        source = (ROOT / path).read_text(encoding="utf-8")
        tree = ast.parse(source)
        if not name:
            return cls(path, "", 1, ast.get_docstring(tree) or "")
        body, at = tree.body, 0
        for part in name.split("."):
            found = getattr(found, part, None)
            at = next((i for i, node in enumerate(body) if part in _names(node)), -1)
            if found is None or at < 0:
                raise LookupError(f"{path} defines no {name}")
            within, body = body, getattr(body[at], "body", [])
        first, last = within[at], within[at]
        if isinstance(first, ast.Assign | ast.AnnAssign) and at + 1 < len(within):
            after = within[at + 1]
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                last = after
        lines = source.splitlines()[first.lineno - 1 : last.end_lineno]
        return cls(path, name, first.lineno, "\n".join(lines))


def _names(node: ast.stmt) -> list[str]:
    """Return what a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [t.id for t in targets if isinstance(t, ast.Name)]


@dataclass(frozen=True)
class Row:
    """A row of a page's table: the line of the page, and the four cells."""

    number: int
    equations: str
    meaning: str
    source: str
    difference: str

    @property
    def targets(self) -> list[str]:
        """The objects that the row names."""
        return _ROLE.findall(self.source)


def rows(page: str) -> list[Row]:
    """Return the rows of the tables of a page with four cells, but for their heads."""
    found = []
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("|") and not line.startswith(("| in the paper", "|---")):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
            if len(cells) == 4:
                found.append(Row(number, *cells))
    return found


def _source(
    name: str, raw: str, text: str, line: int, inliner: Inliner, options: Any = None,
    content: Any = None,
) -> tuple[list[nodes.Node], list[nodes.system_message]]:  # fmt: skip
    """Link to an object's line: its name, then the file and the line."""
    try:
        place = Place.of(text)
    except LookupError as error:
        return [], [inliner.reporter.error(str(error), line=line)]
    env = inliner.document.settings.env
    page = env.app.builder.get_relative_uri(env.docname, _page(place.path))
    link = nodes.reference("", "", internal=True, refuri=f"{page}#line-{place.line}")
    if place.name:
        link += nodes.literal(place.name, place.name)
    shown = f"{place.path}:{place.line}" if place.name else place.path
    file = nodes.inline("", classes=["source-file"])
    for part in re.findall(r"[^/]+/?", shown):  # lines may break between folders
        file += [nodes.Text(part), nodes.raw("", "<wbr>", format="html")]
    link += file
    return [link], []


def _page(path: str) -> str:
    return "source/" + path.removesuffix(".py")


def _source_pages(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield a page for every file that the pages of the models name."""
    form = HtmlFormatter(lineanchors="line", linenos="inline", wrapcode=True)
    named = {t for page in PAGES.glob("*.md") for t in _ROLE.findall(page.read_text("utf-8"))}
    for path in sorted({target.partition(":")[0] for target in named}):
        body = highlight((ROOT / path).read_text("utf-8"), PythonLexer(), form)
        title = f"<h1>{path}</h1>"
        yield _page(path), {"title": path, "body": title + body}, "page.html"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role and the pages of the source."""
    app.add_role("source", _source)
    app.connect("html-collect-pages", _source_pages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
