"""Docstrings write a formula as an indented block, and |x| for a length; write them so in reST.

Before the sections of a docstring every indented block that stands by itself becomes a literal
block, and outside of such blocks bars and trailing underscores lose their meaning in reST.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx

_UNDERLINE = re.compile(r"\s*-{3,}\s*$")
_MARKS = re.compile(r"``.*?``|`[^`]*`|\||(?<=\w)_(?!\w)")


def _plain(line: str) -> str:
    return _MARKS.sub(lambda m: m[0] if m[0].startswith("`") else "\\" + m[0], line)


def _formulae(lines: list[str]) -> list[str]:
    written: list[str] = []
    within = sections = False
    for i, line in enumerate(lines):
        sections = sections or (i + 1 < len(lines) and bool(_UNDERLINE.match(lines[i + 1])))
        indented = line.startswith(" ")
        if within and line.strip() and not indented:
            within = False
        elif not within and not sections and indented and written and not written[-1].strip():
            within = True
            written += ["::", ""]
        written.append(line if within or ">>>" in line else _plain(line))
    return written


def _process(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    lines[:] = _formulae(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Go before numpydoc, which comes at the default priority."""
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _process, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
