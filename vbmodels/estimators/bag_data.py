"""Bags as users have them: a list of arrays, or a long table."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from vbmodels.bags.bags import UNLABELLED, Bags, Instances, bags
from vbmodels.bags.multilabel import bag_prints, join_groups
from vbmodels.bags.places import find_places
from vbmodels.core.options import LARGEST
from vbmodels.core.state import FloatArray, IntArray
from vbmodels.estimators.base import warn_of_columns
from vbmodels.tables.column_table import ColumnRead
from vbmodels.tables.columns import Reason, names_rows, rules_of
from vbmodels.tables.frames import cells_of, is_frame, is_missing, names_of, numbers_of, values_of
from vbmodels.tables.levels import join_case
from vbmodels.tables.readers import refuse_unclear, seen_of
from vbmodels.tables.shared_labels import find_group_parts, first_parts

BAG, MODALITY, LABEL, FEATURES, INSTANCE = "bag_id", "modality", "label", "features", "instance_id"
GROUP = "group"
INSTANCE_LABEL = "instance_label"
_RESERVED = (BAG, MODALITY, LABEL, FEATURES, INSTANCE, GROUP)


@dataclass(frozen=True)
class GivenBags:
    """Bags that were read, and how to give values of instances back.

    Attributes
    ----------
    instances
        Of each modality.
    modalities
        Their names; None for a list of single arrays.
    ids
        Names of the bags in order.
    labels
        What the table's column ``label`` says, None where there is none.
    rows
        Rows of the table that each modality's instances stand in; None for a list.
    columns
        The table's columns of features, where they are not in one of lists.
    groups
        What the table's column ``group`` says of each bag, None where there is none.
    left_out
        The table's columns that are none of ours and no features, and why.
    """

    instances: tuple[Instances, ...]
    modalities: tuple[str, ...] | None
    ids: tuple[Any, ...]
    labels: tuple[Any, ...] | None
    rows: tuple[IntArray, ...] | None
    columns: tuple[str, ...] = ()
    groups: tuple[Any, ...] | None = None
    left_out: tuple[ColumnRead, ...] = ()

    @property
    def features(self) -> list[Sequence[str]]:
        """Names of the features of each modality; f1, f2, ... where they have none."""
        return [
            self.columns
            if len(self.columns) == modality.n_features
            else [f"f{j + 1}" for j in range(modality.n_features)]
            for modality in self.instances
        ]

    def bags(self, label: Any = None) -> Bags:
        """Return the bags with these labels, or without any."""
        size = len(self.ids)
        return bags(self.instances, np.full(size, UNLABELLED) if label is None else label)

    def grouped(self, label: Any, groups: Any, number: Any = None) -> Bags:
        """Return the bags with these labels, in groups [bags], or those of the table.

        Copies of a bag are in its group. A bag whose group is missing is a group of its own.
        Without groups the first parts of bags' names are these, where bags that share them share
        their label, or ``number``.
        """
        groups = self.groups if groups is None else values_of(groups)
        if groups is None:
            values = np.where(np.asarray(label) == UNLABELLED, np.nan, label)
            groups = self._groups_by_name(values if number is None else number)
        names = np.zeros(0, np.int64)
        if groups is not None:
            if len(groups) != len(self.ids):
                raise ValueError(
                    f"expected a group for each of the {len(self.ids)} bags, found {len(groups)}"
                )
            number_of: dict[Any, int] = {}
            names = np.array(
                [
                    -1 - i if is_missing(group) else number_of.setdefault(group, len(number_of))
                    for i, group in enumerate(groups)
                ]
            )
        data = self.bags(label)
        return replace(data, group=join_groups(bag_prints(data), names))

    def _groups_by_name(self, label: FloatArray) -> list[str] | None:
        """Return the first parts of bags' names, where they name groups; None where they do not."""
        names = [name for name in self.ids if isinstance(name, str)]
        if len(names) < len(self.ids):
            return None
        values = np.unique(label, return_inverse=True)[1]
        parts, _ = find_group_parts(names, np.where(np.isnan(label), -1, values))
        if not parts:
            return None
        groups = [first_parts(name, parts) for name in names]
        warnings.warn(
            f"{len(names):,} bags are {len(set(groups)):,} groups by the beginning of their "
            f"names, such as {groups[0]}; groups=... gives others",
            stacklevel=5,
        )
        return groups

    def give_back(self, values: Sequence[FloatArray]) -> Any:
        """Return values of instances [N_k], by modality, in the form that the bags came in.

        One value a row for a table; for a list one array a bag, or a tuple of them where bags
        have several modalities.
        """
        if self.rows is not None:
            result = np.empty(sum(len(rows) for rows in self.rows))
            for rows, value in zip(self.rows, values, strict=True):
                result[rows] = value
            return result
        parts = [
            np.split(value, modality.offsets[1:-1])
            for modality, value in zip(self.instances, values, strict=True)
        ]
        return parts[0] if self.modalities is None else list(zip(*parts, strict=True))


def to_bags(table: Any) -> tuple[list[Any], list[Any] | None, list[Any]]:
    """Return a long table's bags as a list, which scikit-learn can cut into folds.

    Parameters
    ----------
    table
        A row an instance, as the classifiers of bags take it.

    Returns
    -------
    bags
        An array [instances, features] for each bag; a dict of arrays where there are modalities.
    labels
        Of each bag, None where it has none; None for a table without labels.
    ids
        Names of the bags.

    Examples
    --------
    >>> import pandas as pd
    >>> table = pd.DataFrame({"bag_id": list("aab"), "label": [1, 1, 0], "f1": [1.0, 2.0, 3.0]})
    >>> bags, labels, ids = to_bags(table)
    >>> [bag.tolist() for bag in bags], labels, ids
    ([[[1.0], [2.0]], [[3.0]]], [1, 0], ['a', 'b'])
    """
    if not is_frame(table):
        raise ValueError(f"expected a table with a row an instance, found {type(table).__name__}")
    data = read_bags(table)
    warn_of_columns(data.left_out, 3)
    arrays = [np.split(modality.features, modality.offsets[1:-1]) for modality in data.instances]
    bags: list[Any] = list(arrays[0])
    if data.modalities is not None:
        bags = [dict(zip(data.modalities, bag, strict=True)) for bag in zip(*arrays, strict=True)]
    return bags, None if data.labels is None else list(data.labels), list(data.ids)


def read_bags(X: Any, like: GivenBags | None = None) -> GivenBags:
    """Read bags.

    Parameters
    ----------
    X
        A list with one entry a bag: an array [instances, features], dense or sparse, or a tuple
        or dict of such arrays, one a modality. Or a table with a row an instance: ``bag_id``,
        ``modality``, ``label`` and ``group`` (each may be absent), and the features, in a column
        of lists called ``features`` or as all other columns of numbers that are no ids.
    like
        Bags of the fit: new ones must have their modalities and numbers of features.

    Raises
    ------
    ValueError
        Says what was expected, what was found, and in which bag.
    """
    wanted = () if like is None else like.columns
    data = _from_table(X, wanted) if is_frame(X) else _from_list(X, like)
    if like is not None and data.modalities != like.modalities:
        raise ValueError(f"expected modalities {like.modalities}, found {data.modalities}")
    for k, modality in enumerate(data.instances):
        _check_sizes(modality, data.ids)
        if like is not None and modality.n_features != like.instances[k].n_features:
            expected = like.instances[k].n_features
            raise ValueError(f"expected {expected} features, found {modality.n_features}")
    return data


def _check_sizes(instances: Instances, ids: Sequence[Any]) -> None:
    odd = ~(np.abs(instances.features) <= LARGEST)
    if odd.any():
        n, d = np.argwhere(odd)[0]
        value = instances.features[n, d]
        expected = "finite features"
        if np.isfinite(value):
            expected = f"features of at most {LARGEST:g} in size (rescale them)"
        raise ValueError(
            f"expected {expected}, found {value} in bag {ids[int(instances.bag[n])]!r}"
        )


def _from_list(X: Any, like: GivenBags | None) -> GivenBags:
    if not hasattr(X, "__len__") or isinstance(X, str) or not len(X):
        raise ValueError("expected a list with an array for each bag, or a table with bag_id")
    X = values_of(X)
    first = X[0]
    if isinstance(first, Mapping):
        names = _keys(first, like)
        rows = [_in_order(entry, names, i) for i, entry in enumerate(X)]
    elif isinstance(first, tuple):
        names = tuple(str(k) for k in range(len(first)))
        rows = [list(entry) for entry in X]
    else:
        names, rows = None, [[entry] for entry in X]
    width = len(rows[0])
    odd = next((i for i, entry in enumerate(rows) if len(entry) != width), None)
    if odd is not None:
        raise ValueError(f"expected {width} modalities in bag {odd}, found {len(rows[odd])}")
    known = like.instances if like is not None and like.modalities == names else ()
    instances = tuple(
        _stacked([entry[k] for entry in rows], known[k].n_features if known else 0)
        for k in range(width)
    )
    return GivenBags(instances, names, tuple(range(len(rows))), None, None)


def _keys(first: Mapping[Any, Any], like: GivenBags | None) -> tuple[str, ...]:
    """Return the modalities in the order of the fit, or else in that of the first bag."""
    names = tuple(str(name) for name in first)
    known = like.modalities if like is not None else None
    return known if known is not None and set(known) == set(names) else names


def _in_order(entry: Mapping[Any, Any], names: tuple[str, ...], i: int) -> list[Any]:
    arrays = {str(name): array for name, array in entry.items()}
    if set(arrays) != set(names):
        raise ValueError(f"expected modalities {names} in bag {i}, found {tuple(arrays)}")
    return [arrays[name] for name in names]


def _stacked(arrays: Sequence[Any], known: int) -> Instances:
    """Return instances of all bags; without any they have the known number of features."""
    read = [np.asarray(a.toarray() if issparse(a) else a, np.float64) for a in arrays]
    widths = [a.shape[1] for a in read if a.ndim == 2]
    full = [a.shape[1] for a in read if a.ndim == 2 and a.size]
    width = next(iter(full), max(widths, default=0) or known)
    for i, array in enumerate(read):
        if array.size and (array.ndim != 2 or array.shape[1] != width):
            raise ValueError(
                f"expected an array [instances, {width or 'features'}] in bag {i}, found the shape "
                f"{array.shape}"
            )
    sizes = [len(a) if a.size else 0 for a in read]
    features = np.concatenate([np.empty((0, width)), *(a for a in read if a.size)])
    return Instances(features, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def _left_out(name: str, cells: Sequence[Any]) -> Reason | None:
    """Return why a column is no feature by the rules of files; None where it is one."""
    if name == INSTANCE_LABEL:
        return Reason("other", "only the pipeline learns from labels of single instances")
    seen = seen_of(name, [cell if cell != "" else None for cell in cells])
    rules, unclear = rules_of({name: seen})
    if name in unclear:
        refuse_unclear(name, cells, unclear[name])
    kind = rules[name].kind
    distinct = None if kind == "number" else len(set(cells))
    if (why := names_rows(name, seen, distinct, kind)) or kind == "number":
        return why
    return Reason("other", {"category": "text", "yes or no": "yes/no"}.get(kind, kind))


def _from_table(table: Any, wanted: tuple[str, ...]) -> GivenBags:
    names = names_of(table)
    if BAG not in names:
        raise ValueError(f"expected a column {BAG!r}, found {', '.join(names[:20])}")
    bag_cells = cells_of(table, BAG)
    ids = tuple(dict.fromkeys(bag_cells))
    if None in ids:
        raise ValueError(f"expected a name of every bag, found none in row {bag_cells.index(None)}")
    number_of = {name: i for i, name in enumerate(ids)}
    bag = np.array([number_of[name] for name in bag_cells], np.int64)
    modalities = [str(m) for m in cells_of(table, MODALITY)] if MODALITY in names else None
    kinds = tuple(sorted(set(modalities))) if modalities else None
    absent = [name for name in wanted if name not in names]
    if absent:
        raise ValueError(f"expected the columns {', '.join(absent)}, found none of that name")
    columns = wanted or tuple(name for name in names if name not in _RESERVED)
    lists = cells_of(table, FEATURES) if FEATURES in names else None
    out: dict[str, Reason] = {}
    if lists is not None:
        out = dict.fromkeys(columns, Reason("other", "not among features"))
    elif not wanted:
        out = {n: why for n in columns if (why := _left_out(n, cells_of(table, n)))}
        columns = tuple(name for name in columns if name not in out)
        places = find_places(dict(zip(columns, numbers_of(table, columns).T, strict=True)), bag)
        if len(places) < len(columns):
            out |= {name: Reason("other", why) for name, why in places.items()}
            columns = tuple(name for name in columns if name not in out)
        if out and not columns:
            listed = "; ".join(f"{name}: {why}" for name, why in list(out.items())[:5])
            raise ValueError(f"expected a column of numbers as a feature, found none ({listed})")
    numbers = None if lists is not None else numbers_of(table, columns)
    instances, rows = [], []
    for kind in kinds or (None,):
        here = np.arange(len(bag)) if kind is None else np.flatnonzero(np.array(modalities) == kind)
        here = here[np.argsort(bag[here], kind="stable")]
        if numbers is not None:
            features = numbers[here]
        else:
            features = _of_lists([(lists or [])[i] for i in here], here)
        instances.append(Instances.from_rows(bag[here], features, len(ids)))
        rows.append(here)
    labels = (
        _of_bags(LABEL, join_case(cells_of(table, LABEL)), bag, ids) if LABEL in names else None
    )
    groups = _of_bags(GROUP, cells_of(table, GROUP), bag, ids) if GROUP in names else None
    feature_names = () if numbers is None else columns
    left_out = tuple(ColumnRead.of(name, "", 0, "", why) for name, why in out.items())
    return GivenBags(
        tuple(instances), kinds, ids, labels, tuple(rows), feature_names, groups, left_out
    )


def _of_lists(lists: Sequence[Any], rows: IntArray) -> FloatArray:
    width = len(lists[0]) if lists else 0
    odd = next((i for i, cell in enumerate(lists) if cell is None or len(cell) != width), None)
    if odd is not None:
        raise ValueError(f"expected {width} features in row {rows[odd]}, found {lists[odd]!r}")
    return np.array(lists, np.float64).reshape(len(lists), width)


def _of_bags(what: str, cells: Sequence[Any], bag: IntArray, ids: Sequence[Any]) -> tuple[Any, ...]:
    by_bag: dict[int, Any] = {}
    for i, label in zip(bag.tolist(), cells, strict=True):
        if by_bag.setdefault(i, label) != label:
            raise ValueError(
                f"expected one {what} a bag, found {by_bag[i]!r} and {label!r} in bag {ids[i]!r}"
            )
    return tuple(by_bag[i] for i in range(len(ids)))


def form_of(data: GivenBags) -> GivenBags:
    """Return bags without their instances: what new ones are compared with."""
    empty = tuple(
        type(modality)(modality.features[:0], np.zeros(1, np.int64)) for modality in data.instances
    )
    return replace(data, instances=empty, ids=(), labels=None, rows=None, groups=None, left_out=())
