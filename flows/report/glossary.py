"""Terms that reports explain; docs/glossary.md shows the same file."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def glossary() -> dict[str, str]:
    """Return what each term means, in order of the terms."""
    path = files("flows.report").joinpath("templates", "glossary.md")
    lines = path.read_text(encoding="utf-8").splitlines()
    meanings: dict[str, str] = {}
    term = ""
    for line in lines:
        if line.startswith("  "):
            meanings[term] = f"{meanings.get(term, '')} {line.strip()}".strip().replace("`", "")
        else:
            term = line
    return meanings


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
