"""How often each level of a column of categories occurs: counts that add over partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from vbmodels.core.levels import MOST, Levels


def count_levels(text: pa.Array) -> Levels:
    """Count the categories of a column."""
    counted = pc.value_counts(text.drop_null())
    pairs = zip(counted.field("values").to_pylist(), counted.field("counts").to_pylist(),
                strict=True)  # fmt: skip
    return Levels(dict(pairs), int(text.null_count))


def merge_levels(parts: Sequence[Mapping[str, Levels]]) -> dict[str, Levels]:
    """Add the counts of several partitions or files."""
    counts: dict[str, Counter[str]] = {}
    missing: Counter[str] = Counter()
    many: set[str] = set()
    for part in parts:
        for name, levels in part.items():
            counts.setdefault(name, Counter()).update(levels.counts)
            missing[name] += levels.missing
            many |= {name} if levels.many else set()
    return {name: Levels(dict(counts[name]), missing[name], name in many) for name in counts}


def bounded(levels: Mapping[str, Levels]) -> dict[str, Levels]:
    """Drop the counts of columns with more levels than are kept.

    A part of such a column may have few levels, but what is merged from all parts has many: so the
    merged and bounded counts are the same for any partitioning.

    >>> found = bounded({"a": Levels({"x": 2}, 1), "b": Levels(dict.fromkeys(map(str, range(10001)), 1), 0)})
    >>> found["a"].counts, found["b"].counts, found["b"].many
    ({'x': 2}, {}, True)
    """  # noqa: E501
    return {
        name: Levels({}, one.missing, True) if one.many or len(one.counts) > MOST else one
        for name, one in levels.items()
    }
