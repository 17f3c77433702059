"""Units of rows that are fitted or held out together: copies of a row, and rows of one group."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from flows import storage
from flows.experts.input.encoding import Target, exposures_in, raw_of
from flows.experts.input.labels import EXPOSURE, Labels
from flows.experts.schema import ROW_GROUP
from flows.experts.settings import ExpertSettings
from flows.family import Each
from flows.faults import InputError
from flows.records.runs import RunPaths
from flows.records.states import read_state
from flows.tables import mixed
from flows.tables.mixed import CATEGORY
from flows.tables.names import digests_of, file_name, listed
from flows.tables.partition import Part
from flows.tables.roles import ID, LABEL, WEIGHT, cells_of
from vbmodels.core.draws import hashed
from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, to_bytes
from vbmodels.experts.shared_rows import (
    are_copies,
    are_crowded,
    dealt,
    design_effect,
    neighbours_alike,
)
from vbmodels.tables.columns import Rule, looks_like_id
from vbmodels.tables.encoding import cell_keys
from vbmodels.tables.shared_labels import find_group_parts, first_parts

GROUP = ROW_GROUP.name
HELD_OUT, LAST, MOST_IN_FOLDS = 0.1, 0.2, 5000
"""Share of the rows that is held out, and of the last ones; labelled rows below which all are
tested by folds."""
ORDER = "last"
"""The setting by which the last rows are held out in the order of the input."""
REPEATS = 8
"""Rows beyond one a value from which values that decide all labels do so by no chance."""
ALIKE, BEYOND_CHANCE = 0.25, 4.0
"""Correlation from which on an order in time is asked about, where it is that many standard errors
of that of rows without one."""
LOOKED, NAMES_ROWS = 5000, 0.9
"""Rows whose names are looked at; share of cells that differ, from which on a column names rows."""
MOST_CHANGES = 4
"""Changes of the label along sorted values below which their size may decide it."""


def _none() -> IntArray:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class RowKeys(State, kind="flows/experts.RowKeys"):
    """Numbers from each row's cells, its name and its group's name, and its label; [N] each.

    The label is a class's number, from 0, or a number itself; NaN where there is none. ``time`` is
    0, or what the last rows are held out by.
    """

    cells: IntArray
    names: IntArray
    group: IntArray
    label: FloatArray
    time: FloatArray


@dataclass(frozen=True)
class Units(State, kind="flows/experts.Units"):
    """The units of more than one row.

    Attributes
    ----------
    cells
        Numbers of the cells of their rows, in increasing order; [M].
    number
        That of the unit of these rows: the least of ``cells``; [M].
    name
        The least of the names in it; [M].
    copies
        How many rows have the cells of another row; 0 where that says nothing (`are_copies`).
    grouped
        How many named groups there are; 0 without.
    design_effect
        How many rows of a group say as much of the label as one of another (Kish 1965).
    share
        Share of the labelled rows that the fit never sees.
    seed
        What they are drawn by, with their names.
    end
        The time after which all rows are held out.
    fold_names, folds
        Where all rows are tested by folds: the least name of every unit with a label, in
        increasing order, and its fold, -1 for one that no fit does without; [U] each.
    apart
        Whether many rows have each combination of cells and are no copies: each is a unit then.
    """

    cells: IntArray
    number: IntArray
    name: IntArray
    copies: int
    grouped: int
    design_effect: float = 1.0
    share: float = 0.0
    seed: int = 0
    end: float = np.inf
    fold_names: IntArray = field(default_factory=_none)
    folds: IntArray = field(default_factory=_none)
    apart: bool = False

    def number_of(self, cells: IntArray, names: IntArray | None = None) -> IntArray:
        """Return the unit's number of rows with these cells and, where it matters, names; [N]."""
        alone = cells if names is None or not self.apart else names
        return _found(cells, self.cells, self.number, alone)

    def held_out(self, keys: RowKeys, fold: int | None = None) -> BoolArray:
        """Say which rows are kept from the fit, or from that without a fold; [N].

        The former goes by the least name of a row's unit alone.
        """
        names = _found(keys.cells, self.cells, self.name, keys.names)
        if fold is None:
            drawn = hashed(names, 3 + 8 * self.seed, 1)[0] < self.share
            return np.asarray(drawn | (keys.time > self.end))
        folds = _found(names, self.fold_names, self.folds, np.full(names.size, -1))
        return np.asarray((folds == fold) & ~np.isnan(keys.label))

    def tested(self, keys: list[RowKeys], settings: ExpertSettings, numeric: bool) -> Units:
        """Return the units with a share of rows to hold out, or with folds that test all rows."""
        names = np.concatenate([_found(k.cells, self.cells, self.name, k.names) for k in keys])
        label = np.concatenate([k.label for k in keys])
        known = ~np.isnan(label)
        if settings.held_out:
            time = np.concatenate([k.time for k in keys])
            least = 1.0 - (LAST if settings.test_share is None else settings.test_share)
            return replace(self, end=float(np.nanquantile(time[known], least, method="lower")))
        many = known.sum() >= MOST_IN_FOLDS or settings.inference == "mh"
        share = HELD_OUT if settings.test_share is None and many else settings.test_share
        if share is not None:
            return replace(self, share=share, seed=settings.seed)
        fold_names, folds = dealt(names[known], label[known], settings.seed, numeric)
        return replace(self, seed=settings.seed, fold_names=fold_names, folds=folds)


def _found(wanted: IntArray, known: IntArray, values: IntArray, alone: IntArray) -> IntArray:
    """Return the values of what is among the known, which rise; of others what is theirs alone."""
    if not known.size:
        return alone
    positions = np.minimum(np.searchsorted(known, wanted), known.size - 1)
    return np.where(known[positions] == wanted, values[positions], alone)


def find_units(
    parts: Sequence[Part],
    kinds: Mapping[str, Rule],
    columns: Mapping[str, Rule],
    named: Mapping[str, Rule],
    labels: Labels | Target,
    settings: ExpertSettings,
    paths: RunPaths,
    each: Each,
) -> RowUnits:
    """Find the units of all partitions, and keep them for `read_units`.

    ``columns`` are all, ``kinds`` those of cells, ``named`` those that may name groups.
    """
    urls = {piece.url for part in parts for piece in part.slices}
    # A file that is moved, or written again under another name, has the same rows held out.
    prefix = f"{file_name(*urls)}:" if len(urls) == 1 else ""
    indices = [part.index for part in parts]
    by = {name: rule for name, rule in columns.items() if name == settings.held_out}
    _refuse_order(by, columns, settings)
    every = each(_keep_keys, indices, kinds, labels, prefix, by, paths)
    numeric = isinstance(labels, Target)
    units = join_units(every, numeric).tested(every, settings, numeric)
    if settings.group_parts and units.grouped < 2:
        raise InputError.of("settings", f"several {GROUP}s", f"{units.grouped}", "group_parts")
    storage.write_bytes(_url(paths), to_bytes(units))
    fitted = [~np.isnan(keys.label) & ~units.held_out(keys) for keys in every]
    cells, label = (
        np.concatenate(
            [getattr(keys, n)[is_fitted] for keys, is_fitted in zip(every, fitted, strict=True)]
        )
        for n in ("cells", "label")
    )
    labels_in_order = np.concatenate([keys.label for keys in every])
    repeated, parts_alike = "", 0
    if not units.grouped:
        repeated, parts_alike = _find_groups(named, labels_in_order, indices, paths)
    alike = neighbours_alike(labels_in_order, numeric)
    return RowUnits(units, cells, label, repeated, parts_alike, alike)


@dataclass(frozen=True)
class RowUnits:
    """The units, and keys of the cells and labels of all fitted rows; [n].

    ``repeated``: the column whose values have one label each, or whose first ``parts_alike`` parts
    do; "" for none. ``alike``: how alike the labels of rows are that follow each other
    (`neighbours_alike`).
    """

    units: Units
    cells: IntArray
    label: FloatArray
    repeated: str
    parts_alike: int
    alike: float


def read_units(paths: RunPaths, index: int) -> tuple[RowKeys, Units]:
    """Return the keys of a partition's rows, and the units of all."""
    keys = read_state(paths.part("keys", index, "npz"), RowKeys)
    return keys, read_state(_url(paths), Units)


def _url(paths: RunPaths) -> str:
    return storage.join(paths.work, "units.npz")


def _keep_keys(
    index: int,
    kinds: Mapping[str, Rule],
    labels: Labels | Target,
    prefix: str,
    by: Mapping[str, Rule],
    paths: RunPaths,
) -> RowKeys:
    table = storage.read_table(paths.part("rows", index))
    raw, _ = raw_of(table, kinds)
    keys = keys_of(raw, list(kinds), table, labels, prefix)
    position: FloatArray = np.arange(float(len(table))) + index * 2.0**32
    keys = replace(keys, time=raw_of(table, by)[0][:, 0] if by else position)
    storage.write_bytes(paths.part("keys", index, "npz"), to_bytes(keys))
    return keys


def _refuse_order(
    by: Mapping[str, Rule], columns: Mapping[str, Rule], settings: ExpertSettings
) -> None:
    """Refuse a setting of the order of rows that names no column of numbers or dates."""
    wrong = [name for name, rule in by.items() if rule.kind == CATEGORY]
    if wrong or not (by or settings.held_out in ("", ORDER)):
        known = [name for name, rule in columns.items() if rule.kind != CATEGORY]
        expected = f"{ORDER}, or a column such as {listed(known, 8)}"
        raise InputError.of("settings", expected, settings.held_out, "held_out")


def _decides(values: FloatArray, label: FloatArray, by_name: bool) -> int:
    """Return how many values a column has where each has one label; else, or by chance, 0.

    Chance is where few rows repeat a value, and where the size of values decides labels.
    """
    known = ~np.isnan(values) & ~np.isnan(label)
    values, label = values[known], label[known]
    distinct, first, number = np.unique(values, return_index=True, return_inverse=True)
    if (label != label[first][number]).any():
        return 0
    count, rows = distinct.size, values.size
    varied = int(np.count_nonzero(np.diff(label[first])))
    least = 1 if by_name else max(MOST_CHANGES, 0.1 * count)
    is_clear = 2 < count <= 0.8 * rows and rows - count >= REPEATS and varied >= least
    return count if is_clear else 0


def _find_groups(
    named: Mapping[str, Rule], label: FloatArray, indices: Sequence[int], paths: RunPaths
) -> tuple[str, int]:
    """Return the column whose values decide labels, and how many first parts of these do; or "", 0.

    Of the first rows, whatever their partitions. 0 parts are whole values.
    """
    tables: list[pa.Table] = []
    for index in indices:
        if sum(map(len, tables)) < LOOKED:
            tables.append(storage.read_table(paths.part("rows", index)))
    label = label[:LOOKED]
    raw = np.concatenate([raw_of(table, named)[0] for table in tables])[:LOOKED]
    sizes = {
        name: _decides(values, label, looks_like_id(name))
        for name, values in zip(named, raw.T, strict=True)
    }
    if any(sizes.values()):
        return max(sizes, key=lambda name: sizes[name]), 0
    codes = np.where(np.isnan(label), -1, np.unique(label, return_inverse=True)[1])
    for name in (ID, *(name for name, rule in named.items() if rule.kind == CATEGORY)):
        texts = (t[ID] if name == ID else mixed.texts(cells_of(t, name)) for t in tables)
        names = [cell or "" for cells in texts for cell in cells.to_pylist()][:LOOKED]
        names_rows = len(set(names)) > NAMES_ROWS * len(names)
        parts = find_group_parts(names, codes)[0] if names_rows else 0
        if parts:
            return name, parts
    return "", 0


def group_by_beginning(rows: pa.Table, parts: int) -> pa.Table:
    """Return rows whose groups have their first parts as names; 0: as they are."""
    columns = {name: rows[name] for name in rows.column_names}
    if parts:
        names = columns.get(GROUP, columns[ID]).to_pylist()
        columns[GROUP] = pa.array(
            [cell and first_parts(cell, parts) for cell in names], pa.string()
        )
    return pa.table(columns)


def keys_of(
    raw: FloatArray,
    columns: Sequence[str],
    table: pa.Table,
    labels: Labels | Target,
    prefix: str,
) -> RowKeys:
    """Return the keys of rows with cells [N, C], in whatever order their file has the columns.

    What names have before ``prefix`` ends is left out.
    """
    label_cells = table[LABEL].combine_chunks()
    if isinstance(labels, Target):
        label = labels.values(label_cells)[0]
    else:
        codes = labels.of_rows(label_cells)
        label = np.where(codes < 0, np.nan, codes)
    cells = np.column_stack([raw[:, np.argsort(np.array(columns))], *exposures_in(table)])
    names = digests_of([name.removeprefix(prefix) for name in table[ID].to_pylist()])
    if GROUP not in table.column_names:
        return RowKeys(cell_keys(cells), names, names, label, np.zeros(len(label)))
    group_cells = table[GROUP].to_pylist()
    groups = digests_of([cell or "" for cell in group_cells])
    # Rows of two groups are no copies: few columns would make one unit of all groups.
    keys = cell_keys(np.column_stack([cells, (groups >> 11).astype(np.float64)]))
    group = np.where([cell is None for cell in group_cells], names, groups)
    return RowKeys(keys, names, group, label, np.zeros(len(label)))


def read_names(paths: RunPaths, index: int, settings: ExpertSettings) -> pa.Table:
    """Return names and labels of a partition's rows; their groups, exposures, weights if given."""
    given = {*settings.columns, GROUP} if settings.group_parts else settings.columns
    present = [name for name in (GROUP, EXPOSURE, WEIGHT) if name in given]
    return storage.read_table(paths.part("rows", index), [ID, LABEL, *present])


def hold_out_warnings(row_units: RowUnits) -> list[str]:
    """Say why figures on rows that are held out at random may be too good."""
    if not row_units.repeated:
        least = max(ALIKE, BEYOND_CHANCE / np.sqrt(max(row_units.label.size, 1)))
        if row_units.units.grouped or np.isfinite(row_units.units.end) or row_units.alike < least:
            return []
        return [
            f"Labels of neighbouring rows are alike (correlation {row_units.alike:.2f}). If in "
            "order of time, --set held_out=last tests later ones."
        ]
    name = row_units.repeated
    alike, advice = f"of each value of {name}", f"--column {shlex.quote(f'group={name}')}"
    if row_units.parts_alike:
        column = "" if name == ID else f"{advice} "
        alike = f"whose {name} begins alike"
        advice = f"{column}--set group_parts={row_units.parts_alike}"
    return [
        f"The rows {alike} have one label. If of one patient, {advice} leaves them out "
        "together; else figures are too good."
    ]


def said_of_units(units: Units, settings: ExpertSettings) -> list[str]:
    """Say how many rows are held out together, and why."""
    notes = []
    if settings.held_out:
        notes.append(
            f"held out: last {'rows' if settings.held_out == ORDER else settings.held_out}"
        )
    if units.grouped:
        name = settings.columns.get(GROUP, f"beginning of {ID}")
        text = f"rows of one {name} are left out together: {units.grouped:,} groups"
        if units.design_effect > 1.05:
            text += f"; as their labels are alike, each row counts 1/{units.design_effect:.3g}"
        notes.append(text)
    if units.copies:
        notes.append(
            f"rows with copies (label and all columns), left out together: {units.copies:,}"
        )
    return notes


def join_units(parts: Sequence[RowKeys], numeric: bool) -> Units:
    """Return the units of the rows of all partitions; their order does not matter.

    ``numeric``: the labels are numbers, and not those of classes.
    """
    cells, names, group, label = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("cells", "names", "group", "label")
    )
    n = cells.size
    _, cell, count = np.unique(cells, return_inverse=True, return_counts=True)
    known = ~np.isnan(label)
    unit, grouped, effect = cell, 0, 1.0
    copied = are_copies(cell[known], label[known])
    if (group != names).any():
        _, group_number = np.unique(group, return_inverse=True)
        links = coo_array((np.ones(n), (group_number, cell + n)), shape=(2 * n, 2 * n))
        unit = connected_components(links, directed=False)[1][group_number]
        grouped = len(np.unique(group[group != names]))
        effect = design_effect(unit[known], label[known], numeric)
    elif not copied:
        return Units(
            _none(),
            _none(),
            _none(),
            copies=0,
            grouped=0,
            apart=are_crowded(cell[known], label[known]),
        )
    least = np.full((2, 2 * n), np.iinfo(np.int64).max)
    np.minimum.at(least[0], unit, cells)
    np.minimum.at(least[1], unit, names)
    shared = np.flatnonzero(np.bincount(unit, minlength=1)[unit] > 1) if n else unit
    known, first = np.unique(cells[shared], return_index=True)
    number, name = least[:, unit[shared[first]]]
    return Units(known, number, name, int(np.sum(copied & (count[cell] > 1))), grouped, effect)
