"""Counts of reads as an estimator gets them: an array, or a table with a row a replicate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from vbmodels.estimators.columns import by_our_names
from vbmodels.estimators.tables import cells_of, is_missing, names_of, numbers_of
from vbmodels.variants.bases import BASES
from vbmodels.variants.batch import Counts

KEYS = ("chrom", "pos", "ref", "sample", "replicate")
COLUMNS = (*KEYS, *BASES)
"""What is looked for in a table."""
_MOST_READS = int(np.iinfo(np.int32).max)


@dataclass(frozen=True)
class GivenCounts:
    """Counts that were read, with names of their locations and the table that they came in."""

    counts: Counts
    chrom: tuple[Any, ...]
    pos: tuple[Any, ...]
    kind: Any


def read_array(X: Any, ref: Any, case: Any) -> GivenCounts:
    """Read counts [locations, replicates, 4].

    Parameters
    ----------
    X
        Whole numbers.
    ref
        Reference base of each location, as text or as its place in ACGT; None: what most of the
        control's reads show, none where it has no read.
    case
        Which replicates are the case's.

    Raises
    ------
    ValueError
        Says what was expected and what was found.
    """
    counts = np.asarray(X)
    if counts.ndim != 3 or counts.shape[2] != 4 or counts.dtype.kind not in "iu":
        raise ValueError(
            "expected whole numbers [locations, replicates, 4] or a table, got "
            f"{counts.dtype} {counts.shape}"
        )
    if case is None:
        raise ValueError("expected case beside an array of counts, got None")
    case = np.asarray(case, bool)
    if case.shape != counts.shape[1:2]:
        raise ValueError(
            f"expected case to say of each of {counts.shape[1]} replicates whether it is the "
            f"case's, got the shape {case.shape}"
        )
    if not len(counts):
        raise ValueError("expected counts of at least one location, got none")
    if ref is None:
        if case.all():
            raise ValueError("expected ref beside counts without a control, got None")
        reads = counts[:, ~case].sum(axis=1)
        ref = np.where(reads.any(axis=1), reads.argmax(axis=1), -1)
    if counts.size and counts.max() > _MOST_READS:
        raise ValueError(f"expected at most {_MOST_READS} reads of a base, got {counts.max()}")
    names = range(len(counts))
    of = Counts(counts.astype(np.int32), _references(ref, len(counts)), case)
    return GivenCounts(of, ("",) * len(counts), tuple(names), None)


def read_table(
    given: Any, case: str, control: str | None, called: Mapping[str, Any] | None
) -> GivenCounts:
    """Read a table with a row a location, sample and replicate.

    Parameters
    ----------
    given
        The table; `COLUMNS` are looked for.
    case, control
        Names of the samples.
    called
        The table's names of these columns, where they differ.

    Raises
    ------
    ValueError
        Says what was expected and what was found.
    """
    table = by_our_names(given, called, COLUMNS)
    missing = [n for n in (*KEYS, *BASES) if n not in names_of(table)]
    if missing:
        raise ValueError(f"expected the columns {', '.join(missing)}, found none of that name")
    cells = {name: cells_of(table, name) for name in KEYS}
    reads = numbers_of(table, list(BASES))
    wrong = ~((reads >= 0) & (reads <= _MOST_READS) & (reads == np.floor(reads)))
    if wrong.any():
        n, b = np.argwhere(wrong)[0]
        raise ValueError(
            f"expected a number of reads in row {n}, column {BASES[b]}, found {reads[n, b]}"
        )
    wanted = [case, *([control] if control is not None else [])]
    kept = [i for i, sample in enumerate(cells["sample"]) if sample in wanted]
    found = {cells["sample"][i] for i in kept}
    if found != set(wanted):
        raise ValueError(
            f"expected the samples {' and '.join(wanted)}, found "
            f"{', '.join(sorted(map(str, set(cells['sample'])))) or 'no row'}"
        )
    places = sorted({(cells["chrom"][i], cells["pos"][i]) for i in kept})
    columns = sorted({(cells["sample"][i], cells["replicate"][i]) for i in kept})
    at = {place: j for j, place in enumerate(places)}
    column = {name: r for r, name in enumerate(columns)}
    counts = np.zeros((len(places), len(columns), 4), np.int32)
    ref: list[Any] = [None] * len(places)
    seen: dict[tuple[int, int], int] = {}
    for i in kept:
        j = at[cells["chrom"][i], cells["pos"][i]]
        r = column[cells["sample"][i], cells["replicate"][i]]
        place = f"{cells['chrom'][i]}:{cells['pos'][i]}"
        if seen.setdefault((j, r), i) != i:
            raise ValueError(
                f"expected one row a location and replicate, found rows {seen[j, r]} and {i} "
                f"for {place}, {' '.join(map(str, columns[r]))}"
            )
        if ref[j] is not None and ref[j] != cells["ref"][i]:
            raise ValueError(
                f"expected one reference base at {place}, found {ref[j]!r} and "
                f"{cells['ref'][i]!r} (row {i})"
            )
        counts[j, r], ref[j] = reads[i], cells["ref"][i]
    of_case = np.array([sample == case for sample, _ in columns])
    chrom, pos = zip(*places, strict=True)
    return GivenCounts(Counts(counts, _references(ref, len(ref)), of_case), chrom, pos, given)


def _references(ref: Any, size: int) -> Any:
    """Return the place of each location's reference base in ACGT, -1 for what is no base.

    Raises
    ------
    ValueError
        If there is not one for each location, or one is a number but not in -1 to 3.
    """
    array = np.asarray(ref)
    if array.shape != (size,):
        raise ValueError(
            f"expected ref to have a base for each of {size} locations, got the shape {array.shape}"
        )
    given = ref if isinstance(ref, list) else array.tolist()
    found = np.array([_place(r) for r in given])
    wrong = np.flatnonzero((found < -1) | (found >= len(BASES)))
    if wrong.size:
        raise ValueError(
            f"expected places in ACGT (0 to 3, or -1 for none) in ref, got {given[wrong[0]]} "
            f"at location {wrong[0]}"
        )
    return found.astype(np.int8)


def _place(ref: Any) -> int:
    """Return the place in ACGT of a base; a number is a place already, or len(BASES) if none."""
    if isinstance(ref, Real) and not is_missing(ref):
        number = float(ref)
        return int(number) if number.is_integer() else len(BASES)
    base = str(ref).upper()
    return BASES.find(base) if len(base) == 1 else -1
