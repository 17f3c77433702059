"""How columns become the model's: their scale, the rows that are fitted, and the arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from flows.data import storage
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.experts import ingest as tables_of
from flows.experts.settings import ExpertSettings
from flows.faults import Fault, InputError
from vbmodels.core.state import FloatArray, IntArray, State, to_bytes
from vbmodels.experts.batch import Rows, hashed
from vbmodels.experts.coded import CodedRows, basis_of
from vbmodels.experts.columns import (
    FURTHEST,
    LARGEST,
    SPARSE,
    ColumnSums,
    cell_keys,
    scaled,
    too_large,
)
from vbmodels.experts.knots import Basis, RowSample, coded

_NAMED = 20


@dataclass(frozen=True)
class Design(State):
    """How columns become the model's: names, what is taken off, what they are divided by.

    What has one value in the fit is divided by infinity: it is 0 in new rows too.
    ``weights`` are those of the labels 0 and 1 in the fit.
    """

    columns: np.ndarray
    centre: FloatArray
    scale: FloatArray
    sparse: bool
    weights: FloatArray


def work_url(paths: RunPaths, name: str, index: int, suffix: str = "parquet") -> str:
    """Return the URL of one of a partition's own files."""
    return storage.join(paths.work, name, f"part-{index:05d}.{suffix}")


def read_design(paths: RunPaths, work: bool = False) -> Design:
    """Return the design of a finished run, or of one at work."""
    url = storage.join(paths.work if work else storage.join(paths.root, "posterior"), "design.npz")
    return read_state(url, Design)


def groups_of(x: FloatArray, columns: Sequence[str]) -> IntArray:
    """Return a number from each row's cells, in whatever order its file has the columns; [N]."""
    return cell_keys(x[:, np.argsort(np.array(columns))])


def fitted_rows(groups: IntArray, t: FloatArray, test_share: float) -> np.ndarray:
    """Say which labelled rows are fitted: by their cells, so that no partition matters.

    Copies of a row are all fitted or none of them is: what is judged has not been seen.
    """
    return np.asarray((t != 0.0) & (hashed(groups, 3, 1)[0] >= test_share))


@dataclass(frozen=True)
class Summed:
    """A partition's columns summed up, with a sample of its rows for the additive form."""

    columns: ColumnSums
    sample: RowSample | None

    def __add__(self, other: Summed) -> Summed:
        """Add another partition's."""
        both = self.sample is not None and other.sample is not None
        return Summed(self.columns + other.columns, self.sample + other.sample if both else None)


def read_basis(paths: RunPaths, work: bool = False) -> Basis | None:
    """Return the knots of a finished run, or of one at work; None where its form has none."""
    url = _basis_url(paths, work)
    return read_state(url, Basis) if storage.exists(url) else None


def write_basis(paths: RunPaths, basis: Basis | None, work: bool = False) -> None:
    """Keep the knots, if there are any."""
    if basis is not None:
        storage.write_bytes(_basis_url(paths, work), to_bytes(basis))


def _basis_url(paths: RunPaths, work: bool) -> str:
    folder = paths.work if work else storage.join(paths.root, "posterior")
    return storage.join(folder, "knots.npz")


def settled_basis(settings: ExpertSettings, summed: Summed, design: Design) -> Basis | None:
    """Return the knots of the additive form; None for another."""
    if summed.sample is None:
        return None
    return basis_of(
        summed.sample,
        (design.centre, design.scale),
        summed.columns.binary | summed.columns.constant,
        design.sparse,
        FURTHEST if settings.standardise else np.inf,
    )


def sums_of(index: int, settings: ExpertSettings, paths: RunPaths) -> Summed:
    """Sum up a partition's columns."""
    table = storage.read_table(work_url(paths, "rows", index))
    columns = [n for n in table.column_names if n.startswith("c.")]
    x, t = _arrays(table, columns)
    groups = groups_of(x, columns)
    sums = ColumnSums.of(x, t * fitted_rows(groups, t, settings.test_share))
    return Summed(sums, RowSample.of(x, groups) if settings.inference == "additive" else None)


def _arrays(table: pa.Table, columns: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    x = np.column_stack([table[name].to_numpy() for name in columns])
    return x, np.array(table[tables_of.LABEL].to_numpy())


def settle(
    columns: list[str], sums: ColumnSums, settings: ExpertSettings
) -> tuple[Design, tuple[str, ...]]:
    """Return the scale of every column, and what the user should know of them."""
    centre, scale = sums.scaling(settings.standardise)
    weights = np.ones(2)
    if settings.class_weight == "balanced":
        weights = (sums.positive + sums.negative) / (2.0 * np.array([sums.negative, sums.positive]))
    warnings = []
    if sums.constant.any():
        named = [columns[i] for i in np.flatnonzero(sums.constant)]
        warnings.append(
            f"Columns with one value tell nothing; they are left out, in new rows too: "
            f"{_listed(named)}."
        )
    first: dict[str, str] = {}
    same = [
        f"{column} (as {first[key]})"
        for column, key in zip(columns, sums.prints, strict=True)
        if first.setdefault(key, column) != column
    ]
    if same:
        warnings.append(f"Columns that repeat another share its weight: {_listed(same)}.")
    fitted = sums.positive + sums.negative
    if fitted <= len(columns):
        warnings.append(
            f"{fitted} labelled rows for {len(columns)} columns: the fit rests on its prior; "
            "expect little of it."
        )
    design = Design(np.array(columns), centre, scale, sums.density(centre) < SPARSE, weights)
    return design, tuple(warnings)


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def build(index: int, settings: ExpertSettings, paths: RunPaths, new: bool) -> str:
    """Make one partition's arrays; rows of new data are scored only, so all weigh the same."""
    design = read_design(paths, work=True)
    table = storage.read_table(work_url(paths, "rows", index))
    missing = [str(n) for n in design.columns if f"c.{n}" not in table.column_names]
    if missing:
        raise InputError(
            [
                Fault(
                    file="the new data",
                    expected="the columns of the fitted run",
                    found=f"none named {_listed(missing)}",
                    remedy="give the columns that the run was fitted to",
                )
            ]
        )
    columns = [f"c.{n}" for n in design.columns]
    x, t = _arrays(table, columns)
    groups = groups_of(x, columns)
    basis = read_basis(paths, work=True)
    codes = None if basis is None else coded(x, basis.knots)
    x = scaled(x, design.centre, design.scale)
    names = table[tables_of.ID].to_pylist()
    found = too_large(x)
    if found:
        row, column = found
        name = str(design.columns[column])
        raise InputError(
            [
                Fault(
                    file="the new data" if new else "the data",
                    column=name,
                    expected=f"cells within {LARGEST:g} after scaling",
                    found=f"{table[f'c.{name}'][row].as_py()!r} in the row {names[row]!r}",
                    remedy="give the column in another unit, or leave it out",
                )
            ]
        )
    fitted = np.zeros(len(t)) if new else fitted_rows(groups, t, settings.test_share).astype(float)
    weight = fitted * design.weights[(t > 0).astype(np.int64)]
    if basis is not None:
        x = np.clip(x, -basis.limit, basis.limit)
    batch: State = Rows.of(x, t, tables_of.keys_of(names), weight, design.sparse, groups)
    if basis is not None and codes is not None:
        batch = CodedRows(batch, codes, basis)
    url = work_url(paths, "partitions", index, "npz")
    storage.write_bytes(url, to_bytes(batch))
    return url


def read_batch(paths: RunPaths, index: int) -> Rows | CodedRows:
    """Return one partition's arrays."""
    url = work_url(paths, "partitions", index, "npz")
    # Kept by version: a long-lived process may meet the same run again with other rows.
    return _batch_of(url, storage.fingerprint_of(url))


@lru_cache(maxsize=2)
def _batch_of(url: str, version: str) -> Rows | CodedRows:
    found = read_state(url, State)
    if not isinstance(found, Rows | CodedRows):
        raise TypeError(f"{url} holds a {type(found).__name__}, expected rows")
    return found
