"""The first rows of the first file, and what its columns hold that have no role of ours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pyarrow as pa

from flows import storage
from flows.bags.schema import INSTANCES_IN
from flows.bags.settings import BagSettings
from flows.storage import InputFile
from flows.tables import mixed, reading
from flows.tables.cells import is_number, is_text
from flows.tables.mixed import NUMBER
from flows.tables.names import row_of
from flows.tables.roles import ColumnContents, read_columns
from flows.tables.table import matches
from vbmodels.bags.places import find_places, is_called_place
from vbmodels.core.columns import names_rows
from vbmodels.core.state import IntArray

LOOKED = 20_000
"""Rows that say what columns hold."""
LOOKED_FOR_LISTS = 50
"""Rows that say how long lists are."""
MOST_AXES = 3
"""Numbers of a list up to which these may be coordinates."""
OWN = tuple(column.name for column in INSTANCES_IN.columns)
_LISTS = ("features", "bag_features")


@dataclass(frozen=True)
class Bags:
    """The bags of some rows: the number of each row's, and the first row of each."""

    of_row: IntArray
    first: IntArray

    def have_one_value(self, codes: IntArray) -> bool:
        """Whether all rows of a bag have the same code."""
        return bool((codes == codes[self.first][self.of_row]).all())


@dataclass(frozen=True)
class FirstRows:
    """The first rows of a file, read as settings say; whatever is asked of them is read once."""

    file: InputFile
    settings: BagSettings

    @cached_property
    def schema(self) -> pa.Schema:
        """All columns of the file by our names; patterns and lists of features as they come."""
        return self._named(storage.parquet_file(self.file.url).schema_arrow.empty_table()).schema

    @cached_property
    def rows(self) -> pa.Table:
        """The rows, without columns of ours but for bags and labels; none without any other."""
        file = storage.parquet_file(self.file.url)
        schema = file.schema_arrow
        theirs = self.settings.columns
        ours = {name if name in _LISTS else theirs.get(name, name) for name in OWN}
        single = [one.name for one in schema if not pa.types.is_nested(one.type)]
        others = [name for name in single if name not in ours]
        read = schema.empty_table()
        if others:
            named = {theirs.get(name, name) for name in ("bag_id", "label")}
            names = [*others, *(name for name in single if name in named)]
            batch = next(storage.read_batches(self.file.url, LOOKED, names, file.metadata), None)
            if batch is not None:
                read = pa.Table.from_batches([batch]).replace_schema_metadata(schema.metadata)
        return self._named(read)

    def _named(self, rows: pa.Table) -> pa.Table:
        single = {k: v for k, v in self.settings.columns.items() if k not in _LISTS}
        columns = type(self.settings.columns)(single)
        plain = self.settings.model_copy(update={"columns": columns})
        return reading.given(INSTANCES_IN.of(plain), rows)

    @cached_property
    def bags(self) -> Bags | None:
        """The bags of the rows; None where no column names them."""
        if "bag_id" not in self.rows.column_names:
            return None
        coded = mixed.texts(mixed.taken(self.rows["bag_id"])[0]).dictionary_encode()
        bag = coded.indices.fill_null(0).to_numpy()
        first = np.full(len(coded.dictionary), -1)
        first[bag[::-1]] = np.arange(len(bag))[::-1]
        return Bags(bag, first)

    @cached_property
    def columns(self) -> dict[str, ColumnContents]:
        """What columns without a role of ours hold, of those that settings include."""
        names = [
            name
            for name in self.rows.column_names
            if name not in OWN and self.is_included(name) and _is_single(self.rows[name].type)
        ]
        return read_columns(self.rows, names, self.settings, row_of(self.file.url))

    @cached_property
    def lists(self) -> dict[str, int]:
        """How many numbers the columns of lists have that have no role of ours."""
        parquet = storage.parquet_file(self.file.url)
        roles = {self.settings.columns.get(name, name) for name in OWN if name != "features"}
        excluded = self.settings.exclude
        names = [
            one.name
            for one in parquet.schema_arrow
            if (is_text(one.type) or pa.types.is_nested(one.type))
            and one.name not in roles
            and not any(matches(one.name, left) for left in excluded)
            and self.is_included(one.name)
        ]
        if not names:
            return {}
        batches = storage.read_batches(self.file.url, LOOKED_FOR_LISTS, names, parquet.metadata)
        batch = next(batches, None)
        if batch is None:
            return {}
        rows, separator = pa.Table.from_batches([batch]), self.settings.list_separator
        lengths = {name: reading.length_of_lists(rows[name], separator) for name in names}
        return {
            name: length
            for name, length in lengths.items()
            if length > MOST_AXES or (length and not is_called_place(name))
        }

    @cached_property
    def places(self) -> dict[str, str]:
        """The columns of numbers that say where instances are, with why; none included by name."""
        if self.bags is None or not len(self.rows):
            return {}
        bag = self.bags.of_row
        whole = bag != bag[-1] if len(bag) == LOOKED else np.ones(len(bag), bool)
        columns = {
            name: mixed.numbers(one.cells, one.rule)[0][whole]
            for name, one in self.columns.items()
            if one.rule.kind == NUMBER and name not in self.settings.include
        }
        return find_places(columns, bag[whole])

    def is_included(self, name: str) -> bool:
        """Whether settings name a column among those that are used, or name none."""
        include = self.settings.include
        return not include or any(matches(name, one) for one in include)

    def why_of_rows(self, name: str) -> str:
        """Say that a column has names or numbers of rows; empty where it has none or is wanted."""
        if name in self.settings.include:
            return ""
        one = self.columns[name]
        return names_rows(name, one.seen, len(one.levels.counts), one.rule.kind)

    def with_all_columns(self) -> FirstRows:
        """Return the rows with the columns that settings do not include."""
        if not self.settings.include:
            return self
        return replace(self, settings=self.settings.model_copy(update={"include": ()}))


def _is_single(kind: pa.DataType) -> bool:
    tests = (pa.types.is_boolean, pa.types.is_dictionary, pa.types.is_temporal)
    return is_text(kind) or is_number(kind) or any(test(kind) for test in tests)
