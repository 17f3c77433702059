"""Tables of categories: read, checked and coded."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import TypeAdapter

from flows.data import mixed, partition
from flows.data.checks import Checker
from flows.data.column_rules import column_rules, unclear_faults
from flows.data.levels import count_levels
from flows.data.mixed_rows import count_cells, merge_seen
from flows.data.names import as_text
from flows.data.partition import chunks
from flows.data.row_weights import others_in, with_named
from flows.data.storage import InputFile
from flows.family import Checked, CheckedPiece, names_of
from flows.faults import Fault, InputError, did_you_mean
from flows.features.schema import CATEGORIES_IN
from flows.features.settings import FeatureSettings
from vbmodels.core.columns import Rule, Unclear
from vbmodels.core.levels import Levels, rare_levels
from vbmodels.core.scales import numbers_of
from vbmodels.core.seen import Seen
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.features.table import take_codes

_SEEN: TypeAdapter[dict[str, Seen]] = TypeAdapter(dict[str, Seen])

NO_COLUMN = "none"
"""In the setting ``ordered``: no column has an order."""
RARE = "(rare)"


@dataclass(frozen=True)
class CheckedTable(Checked):
    """What the check of one file found: what its columns hold, and the settings of the run."""

    columns: Mapping[str, Seen] = field(default_factory=dict)
    settings: FeatureSettings = field(default_factory=FeatureSettings)


def checked_file(file: InputFile, settings: FeatureSettings) -> CheckedTable:
    """Read a file piece by piece; list its faults and count what its columns hold."""
    checker = Checker(with_named(CATEGORIES_IN, settings), file.url)
    seen: dict[str, Seen] = {}
    try:
        for table in checker.chunks(chunks(file.url)):
            seen = merge_seen([seen, count_cells(CATEGORIES_IN, table, checker, settings)])
            del table  # before the next is read
    except InputError as error:
        return CheckedTable(0, error.faults)
    found = tuple(checker.found.faults())
    return CheckedTable(checker.rows, found, checker.names, seen, settings)


def read_header(file: InputFile, settings: FeatureSettings) -> CheckedTable:
    """List the faults of a file's columns."""
    try:
        checker, _ = partition.read_header(file.url, with_named(CATEGORIES_IN, settings))
    except InputError as error:
        return CheckedTable(0, error.faults)
    columns = {name: Seen() for name in others_in(CATEGORIES_IN, checker.columns, settings)}
    keys = (file.url,) if checker.named else ()
    return CheckedTable(checker.rows, tuple(checker.found.faults()), keys, columns, settings)


def piece(checker: Checker, seen: Mapping[str, Seen]) -> CheckedPiece:
    """Return what the check of a file needs to know of some of its rows."""
    about = _SEEN.dump_python(dict(seen), mode="json", exclude_defaults=True)
    return CheckedPiece(checker.found.file, checker.rows, as_text(checker.digests), about)


def merge(pieces: Sequence[CheckedPiece], settings: FeatureSettings) -> CheckedTable:
    """Return what the pieces of a file say of it."""
    columns = merge_seen([_SEEN.validate_python(one.about) for one in pieces])
    rows = sum(one.rows for one in pieces)
    return CheckedTable(rows, (), names_of(pieces), columns, settings)


def rules_of(
    seen: Mapping[str, Seen], settings: FeatureSettings
) -> tuple[dict[str, Rule], dict[str, Unclear]]:
    """Return how columns are read, and which cannot be.

    Codes among which some cells are words are categories.
    """
    return take_codes(seen, *column_rules(seen, settings))


def faults_of_fit(files: Sequence[InputFile], checked: Sequence[CheckedTable]) -> list[Fault]:
    """List the columns that cannot be read."""
    where = files[0].url if len(files) == 1 else f"{len(files)} files"
    settings = checked[0].settings
    seen = merge_seen([one.columns for one in checked])
    named = {
        "categories": settings.categories,
        "ordered": settings.ordered,
        "missing": settings.missing_columns(),
    }
    faults = [
        Fault("settings", f"a column of the input, such as {', '.join(list(seen)[:5])}", name,
              setting, remedy=did_you_mean(name, seen))
        for setting, names in named.items()
        for name in names
        if name not in seen and (setting, name) != ("ordered", NO_COLUMN)
    ]  # fmt: skip
    return faults + unclear_faults(where, rules_of(seen, settings)[1], settings)


@dataclass(frozen=True)
class Column:
    """One column as it is modelled: its categories, most frequent first (ties by name).

    Attributes
    ----------
    joined
        Rare categories that are one here, called `RARE`.
    weights
        Sums of the weights of the rows with each category.
    rule
        How its cells are read.
    cuts
        Ends of the classes that its numbers are cut into.
    structural
        Where cells are missing because of another column: that column and its categories.
    ordered, scale
        The categories from the lowest to the highest and the kind of their scale (see
        `vbmodels.core.scales`), where they have an order.
    """

    name: str
    levels: tuple[str, ...]
    counts: tuple[int, ...]
    missing: int
    joined: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()
    rule: Rule = field(default_factory=Rule)
    cuts: tuple[float, ...] = ()
    structural: tuple[str, tuple[str, ...]] | None = None
    ordered: tuple[str, ...] = ()
    scale: str = ""

    @property
    def points(self) -> FloatArray | None:
        """[R] place of each category on its scale: numbers as they are, else 1 to n."""
        if not self.ordered:
            return None
        numbers = numbers_of(self.ordered)
        places = range(1, len(self.ordered) + 1)
        at = dict(zip(self.ordered, numbers or places, strict=True))
        return np.array([at[level] for level in self.levels], np.float64)

    def texts(self, cells: pa.Array) -> pa.Array:
        """Return cells, as `flows.data.mixed.taken` gives them, as categories."""
        if self.cuts:
            return classes_of(mixed.numbers(cells, self.rule)[0], self.cuts)
        return mixed.texts(cells, self.rule)


def classes_of(values: FloatArray, cuts: Sequence[float]) -> pa.Array:
    """Return the class of each number as text, null for NaN.

    >>> classes_of(np.array([1.0, 5.0, 9.0, np.nan]), [3.0, 7.0]).to_pylist()
    ['below 3', '3 to 7', '7 and above', None]
    """
    ends = [f"{cut:.6g}" for cut in cuts]
    inner = [f"{low} to {high}" for low, high in itertools.pairwise(ends)]
    names = np.array([f"below {ends[0]}", *inner, f"{ends[-1]} and above"])
    place = np.searchsorted(np.asarray(cuts), values, side="right")
    return pa.array(names[place], pa.string(), mask=np.isnan(values))


def recoded(levels: Levels, rule: Rule, cuts: Sequence[float] = ()) -> Levels:
    """Return the counts of categories as a rule reads them."""
    column = Column("", (), (), 0, rule=rule, cuts=tuple(cuts))
    names = pa.array(list(levels.counts), pa.string())
    counts: Counter[str] = Counter()
    missing = levels.missing
    for name, count in zip(column.texts(names).to_pylist(), levels.counts.values(), strict=True):
        if name is None:
            missing += count
        else:
            counts[name] += count
    if rule.blank_is_no:
        counts["no"] += missing
        missing = 0
    return Levels(dict(counts), missing, levels.many)


def order_levels(name: str, levels: Levels, least: int = 0, most: int = 10_000) -> Column:
    """Put the categories into stick-breaking order, rare ones joined; see `rare_levels`."""
    joined = rare_levels(levels.counts, least, most)
    rare = set(joined)
    counts = {text: n for text, n in levels.counts.items() if text not in rare}
    if joined:
        label = RARE
        while label in counts:
            label = f"({label})"
        counts[label] = sum(levels.counts[text] for text in joined)
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    names, cells = zip(*ordered, strict=True) if ordered else ((), ())
    return Column(name, tuple(names), tuple(cells), levels.missing, tuple(joined))


def _place_of_joined(column: Column) -> int:
    """Return the number of the category that rare ones are joined into."""
    labels = [i for i, text in enumerate(column.levels) if text.strip("()") == RARE.strip("()")]
    return max(labels, key=lambda i: len(column.levels[i]))


def encode(columns: Mapping[str, pa.Array], known: Sequence[Column]) -> tuple[IntArray, Any]:
    """Return codes [N, D], -1 where missing or unknown, and what categories were unknown.

    Returns
    -------
    codes, unknown
        The latter by column: category to number of cells.
    """
    codes, unknown = [], {}
    for column in known:
        text = column.texts(columns[column.name])
        index = pc.index_in(text, value_set=pa.array(column.levels, pa.string()))
        if column.joined:
            rare = pc.is_in(text, value_set=pa.array(column.joined, pa.string()))
            index = pc.if_else(rare, pa.scalar(_place_of_joined(column), pa.int32()), index)
        codes.append(index.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64))
        strange = count_levels(text.filter(pc.and_(pc.is_null(index), pc.is_valid(text)))).counts
        if strange:
            unknown[column.name] = dict(strange)
    return np.stack(codes, axis=1), unknown
