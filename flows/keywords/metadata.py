"""Documents that every machine has: the installed Python packages and their keywords.

A document is a package's summary and description without mark-up and code; its known
keywords are those that the authors gave in the ``Keywords:`` header.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from typing import Any

import pyarrow as pa
from markdown_it import MarkdownIt
from markdown_it.token import Token

from flows.keywords.schema import DOCUMENTS

MAX_CHARACTERS = 20_000
"""Longest description that is read; what follows is mostly change logs."""

_URL = re.compile(r"\b(?:https?|ftp|git\+https)://\S+|\bwww\.\S+|\S+@\S+\.\w+")
_TAG = re.compile(r"<!--.*?-->|</?[A-Za-z][^>]*>", re.DOTALL)
_PROMPT = re.compile(r"^[ \t]*(?:>>>|\.\.\.|\$|In \[\d+\]:|C:\\).*$", re.MULTILINE)
_RST_BLOCK = re.compile(
    r"^([ \t]*)\.\. [^\n]*(?:\n(?:[ \t]*(?=\n|\Z)|\1[ \t]+\S[^\n]*))*", re.MULTILINE
)
_RST_LITERAL = re.compile(r"::[ \t]*\n(?:[ \t]*\n)+(?:[ \t]+\S[^\n]*\n?|[ \t]*\n)+")
_RST_LINK = re.compile(r"`([^`<]+?)\s*<[^`>]*>`_{1,2}")
_RST_ROLE = re.compile(r":[\w:+.-]+:`~?([^`]+)`")
_RST_MARK = re.compile(r"``?([^`]+)``?_{0,2}|\*\*?([^*\n]+)\*\*?|\|[^|\n]+\|_?|\b(\w+)_\b")
_RST_RULE = re.compile(r"^[ \t]*([=\-~^\"'`#*+.:_])\1{2,}[ \t]*$", re.MULTILINE)
_TABLE = re.compile(r"^[ \t]*(?:[+|].*[+|]|[=\-]{2,}(?:[ \t]+[=\-]{2,})+)[ \t]*$", re.MULTILINE)
_BULLET = re.compile(r"^[ \t]*(?:[-*+•]|\(?\d+[.)]|:[\w -]+:)[ \t]+", re.MULTILINE)
_CODE_WORD = re.compile(r"[A-Za-z][\w-]*\Z")


def installed_packages(found: Iterable[Distribution] | None = None) -> pa.Table:
    """Return the packages of this environment as a table of documents.

    Parameters
    ----------
    found
        The packages to read; by default all that this interpreter can import.

    Returns
    -------
    documents
        ``doc_id`` (the package's name), ``text``, ``keywords`` (null for most: their authors
        gave none), sorted by name; of a package that is found twice the first is taken, as
        import does.
    """
    documents: dict[str, Any] = {}
    for package in distributions() if found is None else found:
        about: Any = package.metadata  # a message; its type does not say so
        name = about.get("Name") if about is not None else None
        if name:
            documents.setdefault(re.sub(r"[-_.]+", "-", name).lower(), about)
    rows = [
        {
            "doc_id": about.get("Name"),
            "text": _text(about),
            "keywords": _keywords(about.get("Keywords")),
        }
        for _, about in sorted(documents.items())
    ]
    schema = DOCUMENTS.arrow
    columns = [schema.field(name) for name in ("doc_id", "text", "keywords")]
    return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def _keywords(header: str | None) -> list[str] | None:
    """Return the keywords of a header; None where the authors gave none."""
    return split_keywords(header) or None


def split_keywords(header: str | None) -> list[str]:
    """Split a ``Keywords:`` header: at commas or semicolons where it has any, else at spaces.

    >>> split_keywords("machine learning,statistics, Bayes,")
    ['machine learning', 'statistics', 'Bayes']
    >>> split_keywords("http web client")
    ['http', 'web', 'client']
    >>> split_keywords("['graphs', 'trees']")
    ['graphs', 'trees']
    """
    if not header or header.strip().upper() == "UNKNOWN":
        return []
    pieces = re.split(r"[,;\n]", header) if re.search("[,;]", header) else header.split()
    words = (" ".join(piece.split()).strip("[]()'\" ") for piece in pieces)
    return list(dict.fromkeys(word for word in words if word))


def _text(about: Any) -> str:
    """Summary as the title, then the description as plain paragraphs."""
    summary = about.get("Summary") or ""
    payload = about.get_payload() if hasattr(about, "get_payload") else None
    description = about.get("Description") or (payload if isinstance(payload, str) else "") or ""
    plain = plain_text(description[:MAX_CHARACTERS], about.get("Description-Content-Type"))
    parts = (part.strip() for part in (summary, plain))
    return "\n\n".join(part for part in parts if part and part.upper() != "UNKNOWN")


def plain_text(description: str, content_type: str | None = None) -> str:
    """Strip mark-up, code, images, tables and addresses from Markdown or reStructuredText.

    Parameters
    ----------
    description
        The text.
    content_type
        ``text/markdown``, ``text/x-rst`` or ``text/plain``; None, as in old packages, is
        reStructuredText unless the text has a Markdown heading.
    """
    kind = (content_type or "").split(";")[0].strip().lower()
    if not kind and re.search(r"^#{1,3} \S", description, re.MULTILINE):
        kind = "text/markdown"
    text = _PROMPT.sub("", description.replace("\r\n", "\n"))
    if kind == "text/markdown":
        text = _from_markdown(text)
    elif kind != "text/plain":
        text = _from_rst(text)
    text = _URL.sub(" ", html.unescape(_TAG.sub(" ", text)))
    paragraphs = (" ".join(part.split()) for part in re.split(r"\n[ \t]*\n", text))
    return "\n\n".join(part for part in paragraphs if any(c.isalpha() for c in part))


def _from_markdown(text: str) -> str:
    """Keep the running text of headings, paragraphs and lists."""
    parts, in_table = [], 0
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        in_table += (token.type == "table_open") - (token.type == "table_close")
        if token.type == "inline" and not in_table:
            parts.append(_inline(token.children or []))
        elif token.type == "html_block":
            parts.append(token.content)
    return "\n\n".join(parts)


def _inline(children: Iterable[Token]) -> str:
    pieces = []
    for child in children:
        if child.type in ("text", "html_inline"):
            pieces.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            pieces.append(" ")
        elif child.type == "code_inline" and _CODE_WORD.match(child.content):
            pieces.append(child.content)
    return "".join(pieces)


def _from_rst(text: str) -> str:
    """Keep the running text; directives, comments, targets and literal blocks go."""
    text = _RST_LITERAL.sub("\n\n", _RST_BLOCK.sub("\n", text))
    text = _RST_RULE.sub("\n", _TABLE.sub("", text))
    text = _RST_ROLE.sub(r"\1", _RST_LINK.sub(r"\1", text))
    text = _RST_MARK.sub(lambda found: next((g for g in found.groups() if g), " "), text)
    return _BULLET.sub("\n", text).replace("::", ":")
