"""Text from data, made safe to print: what would move a cursor or hide something is spelt out."""

from __future__ import annotations

import re

_CONTROLS = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: escapes of a terminal begin with them
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks, overrides and isolates of direction
    "\u2028\u2029"  # breaks of lines and paragraphs
    "\u00ad\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f"  # of no width, or as a space looks
    "\ud800-\udfff\ufffe\uffff"  # halves of pairs, no characters
)
_WIDE = "[^\x00-\u024f]"  # what is not of a Latin script
_UNSAFE = re.compile(
    "(?P<flag>\U0001f3f4[\U000e0030-\U000e007a]+\U000e007f)"  # a region's flag is one emoji
    f"|[{_CONTROLS}]"
    # Joiners are part of words and of emoji, but between Latin letters they hide.
    f"|(?<!{_WIDE})[\u200c\u200d]+(?!{_WIDE})"
)


def escaped(text: str) -> str:
    r"""Return text in one line that can be printed: everything unsafe as its escape in Python.

    >>> print(escaped("\x1b]0;title\x07 a\u202eb\nc"))
    \x1b]0;title\x07 a\u202eb\nc
    """
    return _UNSAFE.sub(_spelt_out, text)


def _spelt_out(found: re.Match[str]) -> str:
    return found["flag"] or found[0].encode("unicode_escape").decode()
