"""Rows as they come: cells kept as numbers or text, labels as text, and what both hold counted."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from flows.data import json_files, mixed
from flows.data.levels import Levels, bounded, count_levels, merge_levels
from flows.data.mixed import CATEGORY, Seen
from flows.experts.schema import ROWS_IN
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.experts.encoding import level_key

ID, LABEL = "id", "label"


class AboutCells(json_files.Form):
    """What ingest says of a partition: what every column was seen to hold, and the labels."""

    seen: dict[str, Seen]
    labels: Levels


def columns_of(names: Sequence[str]) -> list[str]:
    """Return the names of the columns that predict."""
    return ROWS_IN.others_in(list(names))


def kept(
    pieces: Sequence[pa.Table], missing: Sequence[str]
) -> tuple[pa.Table, AboutCells]:  # fmt: skip
    """Return rows of several files as they are kept, and what they hold."""
    names = columns_of(pieces[0].column_names)
    seen, arrays = {}, {}
    for name in names:
        found = [mixed.taken(piece[name], missing) for piece in pieces]
        arrays[f"c.{name}"] = mixed.joined([cells for cells, _ in found])
        seen[name] = added(one for _, one in found)
    labels = pa.concat_arrays([labels_in(piece, missing) for piece in pieces])
    ids = pa.concat_arrays([_whole(piece[ID]) for piece in pieces])
    table = pa.table({ID: ids, LABEL: labels, **arrays})
    return table, AboutCells(seen=seen, labels=bounded({LABEL: count_levels(labels)})[LABEL])


def added(seen: Iterable[Seen]) -> Seen:
    """Add what several pieces of a column hold."""
    return sum(seen, Seen())


def labels_in(table: pa.Table, missing: Sequence[str]) -> pa.Array:
    """Return the labels of rows as text, null where there is none."""
    if LABEL not in table.column_names:
        return pa.nulls(len(table), pa.string())
    return mixed.texts(mixed.taken(table[LABEL], missing)[0])


def merged(parts: Sequence[AboutCells]) -> AboutCells:
    """Add what several partitions hold."""
    labels = bounded(merge_levels([{LABEL: one.labels} for one in parts]))[LABEL]
    seen = {name: added(one.seen[name] for one in parts) for name in parts[0].seen}
    return AboutCells(seen=seen, labels=labels)


def kinds_of(seen: Mapping[str, Seen], categories: Sequence[str]) -> dict[str, str]:
    """Return the kind of every column; ``categories`` are such whatever they hold."""
    return {name: CATEGORY if name in categories else one.kind for name, one in seen.items()}


def raw_of(table: pa.Table, kinds: Mapping[str, str]) -> tuple[FloatArray, dict[str, BoolArray]]:
    """Return kept rows as raw cells (`vbmodels.experts.encoding`), and cells that are unreadable.

    Parameters
    ----------
    table
        Rows as `kept` keeps them.
    kinds
        The kinds of the columns to read.

    Returns
    -------
    raw, wrong
        [N, D], and by column those that are no cells of its kind; [N].
    """
    columns, wrong = [], {}
    for name, kind in kinds.items():
        cells = _whole(table[f"c.{name}"])
        if kind == CATEGORY:
            columns.append(_keys(mixed.texts(cells)))
            continue
        values, odd = mixed.numbers(cells, kind)
        columns.append(values)
        if odd.any():
            wrong[name] = odd
    return np.column_stack(columns) if columns else np.empty((len(table), 0)), wrong


def levels_in(table: pa.Table, kinds: Mapping[str, str]) -> dict[str, Levels]:
    """Count the levels of a partition's columns of categories."""
    named = [name for name, kind in kinds.items() if kind == CATEGORY]
    return bounded({n: count_levels(mixed.texts(_whole(table[f"c.{n}"]))) for n in named})


def _keys(text: pa.Array) -> FloatArray:
    coded = text.dictionary_encode()
    keys = np.array([*map(level_key, coded.dictionary.to_pylist()), np.nan])
    return np.asarray(keys[coded.indices.fill_null(len(keys) - 1).to_numpy()])


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def keys_of(names: Sequence[str]) -> IntArray:
    """Return a number of each row's own, from its name alone; [N]."""
    digests = (hashlib.blake2b(name.encode(), digest_size=8).digest() for name in names)
    return np.frombuffer(b"".join(digests), dtype="<i8").astype(np.int64)
