"""Words of scripts that put no spaces between them."""

from __future__ import annotations


def segmented(text: str) -> str:
    """Return a text with spaces between its words."""
    return text
