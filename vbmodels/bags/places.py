"""Columns of numbers that say where or when an instance is in its bag, not what it is like."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from vbmodels.core.state import FloatArray, IntArray

_AXES = {"x", "y", "z", "row", "col", "column"}
_OF_PLACES = re.compile(
    r"coord(s|inate)?|pos(ition)?|cent(er|re|roid)|loc(ation)?|tile|patch|cell|nucleus|object|bbox|"
    r"box|min|max|start|end|px|pixels?|um|[µμ]m|microns?|level|0|global|local|spatial|slide|wsi|"
    r"image|grid|array"
)
_NUMBERING = re.compile(
    r"(tile|patch|instance|object|cell|nucleus|crop|roi)[ _.-]?(id|no|nr|num|number|index|idx)?",
    re.IGNORECASE,
)
_CLOCK = re.compile(r"((event|acquisition)[ _.-]?)?time([ _.-]?stamp)?", re.IGNORECASE)
_WORD = re.compile(r"[A-Z]?[a-zµμ]+|[A-Z]+(?![a-z])|\d+")
_FEWEST = 3  # instances of a bag that are numbered
_FEWEST_PIXELS = 16  # of a tile


def find_places(columns: Mapping[str, FloatArray], bag: IntArray) -> dict[str, str]:
    """Return the columns of coordinates, of numbers in the bag and of a clock's times, with why.

    Parameters
    ----------
    columns
        Numbers of each instance in the order of the file, [n], NaN where they are missing.
    bag
        The bag of each instance, [n].

    Examples
    --------
    >>> numbers = {"tile_x": np.ones(4), "tile_y": np.ones(4), "x1": np.ones(4)}
    >>> find_places(numbers | {"k": np.array([0.0, 1, 2, 0])}, np.array([0, 0, 0, 1]))
    {'tile_x': 'coordinate', 'tile_y': 'coordinate', 'k': 'number of the instance in its bag'}
    """
    axes: dict[frozenset[str], list[str]] = defaultdict(list)
    for name in columns:
        words = [word.lower() for word in _WORD.findall(name)]
        axis = [word for word in words if word in _AXES]
        rest = frozenset(words) - _AXES
        if len(axis) == 1 and all(map(_OF_PLACES.fullmatch, rest)):
            axes[rest].append(name)
    found = {
        name: "coordinate"
        for names in axes.values()
        for name in names
        if len(names) > 1 or _is_of_grid(columns[name])
    }
    for name, values in columns.items():
        if name not in found and _is_numbering(values, bag, bool(_NUMBERING.fullmatch(name))):
            found[name] = "number of the instance in its bag"
        elif _CLOCK.fullmatch(name) and _rises(values, bag):
            found[name] = "time of the instance in its bag"
    return found


def is_called_place(name: str) -> bool:
    """Say whether a name has words of places alone, such as coords or tile_xy."""
    words = [word.lower() for word in _WORD.findall(name)]
    return all(word in _AXES | {"xy", "xyz"} or _OF_PLACES.fullmatch(word) for word in words)


def _is_of_grid(values: FloatArray) -> bool:
    """Say whether all values are whole multiples of a step, as the pixels of tiles are."""
    if not np.all(values % 1.0 == 0.0):
        return False
    return bool(np.gcd.reduce(values.astype(np.int64)) >= _FEWEST_PIXELS)


def _rises(values: FloatArray, bag: IntArray) -> bool:
    """Say whether numbers rise within bags, and none is below the one before it."""
    order = np.argsort(bag, kind="stable")
    steps = np.diff(values[order])[bag[order][1:] == bag[order][:-1]]
    return bool(np.all(steps >= 0.0) and np.sum(steps > 0.0) >= _FEWEST)


def _is_numbering(values: FloatArray, bag: IntArray, with_gaps: bool) -> bool:
    """Say whether whole numbers differ in each bag and, unless ``with_gaps``, have no gaps."""
    if not np.all(values % 1.0 == 0.0):
        return False
    order = np.lexsort((values, bag))
    same = bag[order][1:] == bag[order][:-1]
    steps = np.diff(values[order])[same]
    size = np.bincount(bag).max(initial=0)
    if size < _FEWEST or not np.all(steps > 0.0):
        return False
    if with_gaps:
        return True
    first = values[order][np.append(True, ~same)]
    return bool(np.all(steps == 1.0) and np.all(first == first[0]))
