"""Arrays in HDF5 (features of slides, bags, AnnData), and FCS, as a table with a row an instance.

An array of one axis is a column, one of two a column of lists; a further first axis of length 1 is
none. A file of HDF5 with an array ``features`` or ``feats``, or with one array alone, is one table:
its other arrays of as many rows are its other columns, what has one value has it in every row, and
coordinates name the instances. Or it is bags: an array or a group with features for each, named by
its name. A bag without a name has that of the file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from flows.storage.errors import StorageError, cannot_read, storage_errors
from flows.storage.file_options import NOTES
from flows.storage.formats.file_columns import stem_of
from flows.storage.objects.staging import Expansion, local_copy

BAG, INSTANCE, FEATURES = "bag_id", "instance_id", "features"
CALLED_FEATURES = (FEATURES, "feats")
CALLED_COORDINATES = ("coords", "coordinates")
SHARED = "coordinates that repeat name no instances (bags: {:,}, repeats: {:,})"
TIME = "Time"  # the channel of an FCS file
PIECE = 2**22  # numbers that are taken at once
MOST_GENES = 2_000  # columns of an AnnData's X beyond which it is left out
MOST_NAMED = 200  # of which each is a column of its own
SUFFIXES = (".h5", ".hdf5", ".h5ad", ".fcs")
"""Endings of files of arrays."""


@dataclass(frozen=True)
class Cells:
    """A column of a file: its type, how wide its lists are (None: one cell a row), some of it.

    ``is_constant``: it has one value, also of a bag without instances.
    """

    kind: pa.DataType
    width: int | None
    read: Callable[[int, int], Any]
    is_constant: bool = False

    def taken(self, start: int, stop: int) -> pa.Array:
        """Return rows ``start`` to ``stop`` (not included)."""
        cells = self.read(start, stop)
        if self.width is None:
            return pa.array(cells, self.kind)
        ends = pa.array(np.arange(stop - start + 1) * self.width, pa.int32())
        numbers = np.asarray(cells, self.kind.to_pandas_dtype())
        return pa.ListArray.from_arrays(ends, pa.array(numbers.ravel()))


@dataclass(frozen=True)
class Block:
    """Rows of a file that stand together; a bag without instances has none.

    ``places_shared``: rows in the place of an earlier one, so that places name none.
    """

    rows: int
    columns: Mapping[str, Cells]
    left_out: tuple[str, ...] = ()
    places_shared: int = 0


@contextmanager
def opened(url: str) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """Open a file of arrays: the schema of its table, and the rows in pieces.

    ``url``: the file; one that is not local is copied to this machine first.

    Raises `StorageError` if the file is not what its name says, or holds no bags.
    """
    with _readable(url):
        open_blocks = _opened_fcs if url.lower().endswith(".fcs") else _opened_hdf5
        with open_blocks(local_copy(url), stem_of(url)) as blocks:
            kinds = {
                name: cells.kind if cells.width is None else pa.list_(cells.kind)
                for block in blocks
                for name, cells in block.columns.items()
            }
            left_out = sorted({f"left out: {name}" for block in blocks for name in block.left_out})
            shared = [block.places_shared for block in blocks if block.places_shared]
            counted = [(SHARED, len(shared), sum(shared))] if shared else []
            schema = pa.schema(kinds.items(), {NOTES: json.dumps([*left_out, *counted])})
            yield schema, _in_pieces(blocks, schema)


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


def _in_pieces(blocks: list[Block], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows; a bag without instances has a row without features."""
    for block in blocks:
        width = sum(1 if cells.width is None else cells.width for cells in block.columns.values())
        step = max(PIECE // max(width, 1), 1)
        for start in range(0, max(block.rows, 1), step):
            stop = min(start + step, block.rows) if block.rows else 1
            arrays = []
            for field in schema:
                cells = block.columns.get(field.name)
                if cells is None or not (block.rows or cells.is_constant):
                    arrays.append(pa.nulls(stop - start, field.type))
                else:
                    arrays.append(cells.taken(start, stop).cast(field.type))
            yield pa.record_batch(arrays, schema)


@contextmanager
def _opened_fcs(path: str, _: str) -> Iterator[list[Block]]:
    """Open a file of flow cytometry: a column a channel, by its marker where it has one.

    When an event was acquired says nothing of its cell.
    """
    from flowio import FlowData

    data = FlowData(path, ignore_offset_error=True)
    events = data.as_array()
    names = [pns or pnn for pns, pnn in zip(data.pns_labels, data.pnn_labels, strict=True)]
    channels = {name: _column(events[:, i]) for i, name in enumerate(names) if name != TIME}
    yield [Block(len(events), channels, tuple({TIME}.intersection(names)))]


@contextmanager
def _opened_hdf5(path: str, stem: str) -> Iterator[list[Block]]:
    import h5py

    expansion = Expansion(path, os.path.getsize(path))

    def count(_: str, member: Any) -> None:
        if isinstance(member, h5py.Dataset):
            expansion.add(member.nbytes)

    with h5py.File(path, "r") as file:
        file.visititems(count)
        is_anndata = file.attrs.get("encoding-type") == "anndata"
        yield [_anndata(file)] if is_anndata else _blocks(file, stem)


def _blocks(file: Any, stem: str) -> list[Block]:
    """Return the bags of a file, or the one table that it is."""
    if any(name in file for name in CALLED_FEATURES):
        return [_block(_members(file), stem)]
    arrays = {name: a for name, a in file.items() if len(_shape(a)) == 2}
    bags = {name: {FEATURES: a} for name, a in arrays.items() if name not in CALLED_COORDINATES}
    bags |= {
        name: _members(group)
        for name, group in file.items()
        if not hasattr(group, "shape") and any(called in group for called in CALLED_FEATURES)
    }
    if not bags:
        shapes = [f"{name} {tuple(getattr(member, 'shape', ()))}" for name, member in file.items()]
        raise ValueError(
            "expected an array features [rows, numbers], or arrays [instances, numbers], one a "
            f"bag, found {', '.join(shapes[:10]) or 'no array'}"
        )
    if len(bags) == 1:
        [(own, members)] = bags.items()
        others = {name: member for name, member in _members(file).items() if name != own}
        return [_block(others | members, stem)]
    return [_block(members, name) for name, members in bags.items()]


def _members(group: Any) -> dict[str, Any]:
    """Return the arrays and marks of a file or group."""
    return {name: np.asarray(value) for name, value in group.attrs.items()} | {
        name: array for name, array in group.items() if hasattr(array, "shape")
    }


def _shape(array: Any) -> tuple[int, ...]:
    """Return an array's shape without a first axis of length 1 before two others."""
    shape = tuple(getattr(array, "shape", ()))
    return shape[1:] if len(shape) == 3 and shape[0] == 1 else shape


def _block(members: Mapping[str, Any], name: str) -> Block:
    """Return the rows of one table or bag."""
    called = next(word for word in CALLED_FEATURES if word in members)
    features = members[called]
    if len(_shape(features)) != 2 or features.dtype.kind not in "fiub":
        raise ValueError(
            f"expected numbers [instances, numbers] in {name}, found {features.dtype} "
            f"{tuple(features.shape)}"
        )
    rows = _shape(features)[0]
    columns = {BAG: _constant(name)}
    left_out, shared = [], 0
    for member, array in members.items():
        shape = _shape(array)
        may_name = member in CALLED_COORDINATES and INSTANCE not in members
        if may_name and len(shape) == 2 and shape[0] == rows:
            places = _rows(array, 0, rows)
            shared = rows - len(np.unique(places, axis=0))
            if not shared:
                names = ["_".join(f"{number:g}" for number in place) for place in places.tolist()]
                columns[INSTANCE] = _column(np.array(names, object))
        elif shape in ((), (1,)):
            columns[member] = _constant(np.asarray(array[()]).reshape(-1)[0])
        elif shape[0] == rows and (len(shape) == 1 or member == "bag_features"):
            columns[member] = _column(_rows(array, 0, rows))
        elif member != called:
            left_out.append(member)
    return Block(rows, {**columns, FEATURES: _matrix(features)}, tuple(left_out), shared)


def _anndata(file: Any) -> Block:
    """Return an AnnData's cells: X where it is not too wide, what is in obsm, and obs."""
    obs = file["obs"]
    index = obs.attrs.get("_index", "_index")
    columns = {("cell" if name == index else name): _column(_values(v)) for name, v in obs.items()}
    left_out = []
    matrices = {name: x for name, x in file.items() if name == "X"}
    for name, matrix in (matrices | dict(file.get("obsm", {}))).items():
        if len(_shape(matrix)) == 2 and matrix.shape[1] <= MOST_GENES:
            columns |= _genes(file, columns) if name == "X" else {name: _matrix(matrix)}
        else:
            left_out.append(f"{name} (sparse, or over {MOST_GENES:,} columns)")
    if len(columns) == len(obs):
        raise ValueError(
            f"expected a dense X of at most {MOST_GENES:,} columns, or obsm, such as "
            "X_pca; reduce it (scanpy.pp.pca)"
        )
    return Block(obs[index].shape[0], columns, tuple(left_out))


def _genes(file: Any, obs: Mapping[str, Cells]) -> dict[str, Cells]:
    """Return a column for each of few genes of an AnnData's X, whatever their order in a file.

    It is one column of lists where genes are many, have no names, or obsm may stand for them.
    """
    matrix, var = _matrix(file["X"]), file.get("var", {})
    names = (
        list(map(str, _column(_values(var[var.attrs["_index"]])).read(0, matrix.width or 0)))
        if var
        else []
    )
    alike = len({*names, *obs}) < len(names) + len(obs) or all(map(str.isdigit, names))
    if alike or len(names) > MOST_NAMED or len(file.get("obsm", {})):
        return {FEATURES: matrix}
    piece = lru_cache(1)(matrix.read)

    def gene(place: int, start: int, stop: int) -> Any:
        return piece(start, stop)[:, place]

    return {name: Cells(matrix.kind, None, partial(gene, i)) for i, name in enumerate(names)}


def _values(column: Any) -> Any:
    """Return a column of obs: its values, some masked, or those of its categories by codes."""
    if hasattr(column, "shape"):
        return column[()]
    if "mask" in column:
        return np.where(column["mask"][()], None, column["values"][()])
    categories, codes = column["categories"][()].tolist(), column["codes"][()].tolist()
    return np.array([None if code < 0 else categories[code] for code in codes], object)


def _rows(array: Any, start: int, stop: int) -> Any:
    return array[0, start:stop] if len(array.shape) == 3 else array[start:stop]


def _matrix(array: Any) -> Cells:
    return Cells(
        pa.float32() if array.dtype in (np.float16, np.float32) else pa.float64(),
        _shape(array)[1],
        partial(_rows, array),
    )


def _column(cells: Any) -> Cells:
    """Return a column that is in memory; text that is bytes is decoded."""
    if len(cells.shape) == 2:
        return _matrix(cells)
    if cells.dtype.kind in "SO":
        texts = [cell.decode() if isinstance(cell, bytes) else cell for cell in cells.tolist()]
        return Cells(pa.array(texts).type, None, lambda start, stop: texts[start:stop])
    return Cells(pa.array(cells[:0]).type, None, lambda start, stop: cells[start:stop])


def _constant(value: Any) -> Cells:
    """Return a column with one value; names of bags are text."""
    cell = pa.scalar(value.decode() if isinstance(value, bytes) else value)
    return Cells(cell.type, None, lambda start, stop: pa.repeat(cell, stop - start), True)
