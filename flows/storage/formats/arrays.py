"""Arrays of bags, in HDF5, as a table with a row an instance.

A file is one table, where it has an array ``features`` [rows, numbers]: its other arrays of as many
rows are its other columns, and what has one value has it in every row. Or it is bags: arrays
[instances, numbers], or groups of HDF5 with an array ``features``, each named by its name. A bag
without a name has that of the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from flows.storage.errors import StorageError, cannot_read, storage_errors
from flows.storage.objects.expansion import Expansion
from flows.storage.objects.staging import local_copy

BAG, LABEL, FEATURES = "bag_id", "label", "features"
PIECE = 2**22  # numbers that are taken at once
SUFFIXES = (".h5", ".hdf5")
"""Endings of files of arrays."""

Arrays = Mapping[str, Any]
Batches = Iterator[pa.RecordBatch]


@contextmanager
def opened(url: str) -> Iterator[tuple[pa.Schema, Batches]]:
    """Open a file of arrays: the schema of its table, and the rows in pieces.

    ``url``: the file; one that is not local is copied to this machine first.

    Raises `StorageError` if the file is not what its name says, or holds no bags.
    """
    with storage_errors("read", url):
        path = local_copy(url)
    with ExitStack() as stack:
        with _readable(url):
            arrays = stack.enter_context(_hdf5(path))
            bags = _bags(arrays, url.rstrip("/").rpartition("/")[2].rpartition(".")[0])
            fields = [*_kinds(bags).items(), (FEATURES, pa.list_(_number(bags)))]
            schema = pa.schema([(BAG, pa.string()), *fields])
        yield schema, _rows(url, bags, schema)


def _rows(url: str, bags: list[tuple[Any, Arrays]], schema: pa.Schema) -> Batches:
    with _readable(url):
        for features, columns in bags:
            yield from _pieces(features, columns, schema)


@contextmanager
def _readable(url: str) -> Iterator[None]:
    """Say which file cannot be read: of damaged ones the libraries raise errors of ten kinds."""
    with storage_errors("read", url):
        try:
            yield
        except (StorageError, ImportError, FileNotFoundError, PermissionError):
            raise
        except Exception as error:
            raise cannot_read(url, str(error), "arrays") from error


@contextmanager
def _hdf5(path: str) -> Iterator[Arrays]:
    import h5py

    def held(group: Any) -> dict[str, Any]:
        marks = {name: np.asarray(value) for name, value in group.attrs.items()}
        inside = {name: group.get(name) for name in group}
        return marks | {
            name: held(one) if isinstance(one, h5py.Group) else one
            for name, one in inside.items()
            if isinstance(one, h5py.Dataset)
            or (isinstance(one, h5py.Group) and isinstance(one.get(FEATURES), h5py.Dataset))
        }

    expansion = Expansion(path, os.path.getsize(path))

    def count(_: str, one: Any) -> None:
        if isinstance(one, h5py.Dataset):
            expansion.add(one.nbytes)

    with h5py.File(path, "r") as file:
        file.visititems(count)
        yield held(file)


def _bags(arrays: Arrays, stem: str) -> list[tuple[Any, Arrays]]:
    """Return (features, other columns) of each bag, or of the one table that a file is."""
    if FEATURES in arrays and not isinstance(arrays[FEATURES], Mapping):
        found = {stem: arrays}
    else:
        found = {
            name: one if isinstance(one, Mapping) else {FEATURES: one}
            for name, one in arrays.items()
            if isinstance(one, Mapping) or len(one.shape) == 2
        }
    if not found:
        shapes = [f"{name} {tuple(one.shape)}" for name, one in arrays.items()]
        raise ValueError(
            "expected an array features [rows, numbers], or arrays [instances, numbers], one a "
            f"bag, found {', '.join(shapes[:10]) or 'no array'}"
        )
    return [_split_features(one, name) for name, one in found.items()]


def _split_features(arrays: Arrays, name: str) -> tuple[Any, Arrays]:
    features = arrays[FEATURES]
    if len(features.shape) != 2 or features.dtype.kind not in "fiub":
        raise ValueError(
            f"expected numbers [instances, numbers] in {name}, found {features.dtype} "
            f"{tuple(features.shape)}"
        )
    rows = features.shape[0]
    columns: dict[str, list[Any]] = {}
    for own, one in arrays.items():
        if own == FEATURES or isinstance(one, Mapping):
            continue
        if one.shape in ((), (1,)):
            columns[own] = _cells(one) * max(rows, 1)
        elif one.shape[0] == rows and (len(one.shape) == 1 or own == "bag_features"):
            columns[own] = _cells(one)
    columns.setdefault(BAG, [name] * max(rows, 1))
    return features, columns


def _cells(array: Any) -> list[Any]:
    """Return an array's entries as Python objects: text that is bytes is decoded."""
    cells = np.asarray(array[()])
    cells = cells.reshape(1) if not cells.shape else cells
    return [one.decode() if isinstance(one, bytes) else one for one in cells.tolist()]


def _kinds(bags: list[tuple[Any, Arrays]]) -> dict[str, pa.DataType]:
    """Return the types of the columns other than the features, which all bags share."""
    cells: dict[str, list[Any]] = {}
    for _, columns in bags:
        for name, own in columns.items():
            cells.setdefault(name, []).extend(own)
    kinds = {name: pa.array(own).type for name, own in cells.items() if name != BAG}
    # Bare arrays are bags whose labels are elsewhere, or nowhere.
    return kinds or {LABEL: pa.null()}


def _number(bags: list[tuple[Any, Arrays]]) -> pa.DataType:
    whole = all(features.dtype == np.float32 for features, _ in bags)
    return pa.float32() if whole else pa.float64()


def _pieces(features: Any, columns: Arrays, schema: pa.Schema) -> Batches:
    """Yield a bag's rows; one without instances has a row without features."""
    rows, width = features.shape
    kind = schema.field(FEATURES).type
    step = max(PIECE // max(width, 1), 1)
    for start in range(0, max(rows, 1), step):
        stop = min(start + step, rows)
        block = np.asarray(features[start:stop], kind.value_type.to_pandas_dtype())
        ends = pa.array(np.arange(len(block) + 1) * width, pa.int32())
        lists = pa.ListArray.from_arrays(ends, pa.array(block.ravel()))
        size = max(stop - start, 1)
        cells = {FEATURES: lists if rows else pa.nulls(1, kind)}
        for name in schema.names:
            if name not in cells:
                own = columns.get(name, [None] * max(rows, 1))[start : start + size]
                own = [None if one is None else str(one) for one in own] if name == BAG else own
                cells[name] = pa.array(own, schema.field(name).type)
        yield pa.record_batch([cells[name] for name in schema.names], schema)
