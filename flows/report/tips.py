"""What a picture says under the pointer: each mark carries its own values as a title.

A mark's words travel through matplotlib as the id of its SVG group and become that group's
``<title>``, which browsers show and screen readers read; the page's script shows it at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_PREFIX = "tip: "
_GROUP = re.compile(rf'<g id="{_PREFIX}([^"]*)">')
_MOST = 100  # marks of one line: more, no pointer tells apart, and the page stays small


def tip(mark: Artist, text: str) -> None:
    """Let a mark say something under the pointer."""
    mark.set_gid(_PREFIX + " ".join(text.split()))


def tips_along(axes: Axes, x: ArrayLike, y: ArrayLike, texts: Sequence[str]) -> None:
    """Lay unseen marks along a line, at most 100 of them evenly spread, each with its text."""
    at, height = np.asarray(x), np.asarray(y)
    chosen = np.unique(np.linspace(0, len(texts) - 1, min(len(texts), _MOST)).round().astype(int))
    for k in chosen if len(texts) else ():
        (mark,) = axes.plot(at[k], height[k], "ko", markersize=9, alpha=0.0)
        tip(mark, texts[k])


def with_titles(svg: str) -> str:
    """Turn the words of an SVG's marks into titles of their groups."""
    return _GROUP.sub(r'<g class="tip"><title>\1</title>', svg)
