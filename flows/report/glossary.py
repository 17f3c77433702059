"""Terms that reports explain; docs/glossary.md shows the same file."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def glossary() -> dict[str, str]:
    """Return what each term means, in order of the terms."""
    text = files("flows.report").joinpath("templates", "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^(\S.*)\n((?:  .+\n?)+)", text, re.MULTILINE)
    return {term: " ".join(meaning.replace("`", "").split()) for term, meaning in entries}


def terms_in(text: str) -> dict[str, str]:
    """Return the terms that a text uses, in the singular or the plural, with their meanings.

    >>> list(terms_in("All bags, by log loss; a Bound; callable.bed, posterior/"))
    ['bag', 'bound', 'log loss']
    """
    return {term: meaning for term, meaning in glossary().items() if _pattern(term).search(text)}


def pattern(term: str) -> str:
    """Return the regular expression, of Python and of the browser, that finds a term in prose.

    Within the name of a file, a folder or a setting it is no term.
    """
    words = re.escape(term).replace(r"\ ", "[ -]").replace(r"\-", "[ -]")
    return rf"(?<![\w./=-]){words}s?(?![\w/=-]|\.\w)"


@cache
def _pattern(term: str) -> re.Pattern[str]:
    return re.compile(pattern(term), re.IGNORECASE)
