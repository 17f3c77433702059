"""Rows with steps, made as the pipeline and the estimator make them."""

import itertools

import numpy as np

from vbmodels.core.state import FloatArray
from vbmodels.experts.rows import Rows
from vbmodels.experts.terms.knots import RowSample, coded
from vbmodels.experts.terms.step_rows import CodedRows, basis_of
from vbmodels.tables.encoding import ColumnSums, cell_keys, scaled


def cut_coded(
    x: FloatArray, t: FloatArray, parts: int = 1, new: FloatArray | None = None,
    joint: bool = False, bare: bool = False, y: FloatArray | None = None,
) -> list[CodedRows]:  # fmt: skip
    """Return the rows x [N, D] in parts; or ``new`` rows, without labels, as x has them.

    ``joint``: with columns for a Gaussian process. ``bare``: see `basis_of`. ``y``: numbers that
    are the labels, by which a Gaussian process sees columns.
    """
    gaps = np.isnan(x if new is None else new)
    usual = np.nanmean(x, axis=0)
    x = np.where(np.isnan(x), usual, x)
    sums = ColumnSums.of(x, t)
    design = sums.scaling(True)
    sparse = sums.density(design[0]) < 0.25
    fixed = sums.binary | sums.constant
    label = np.where(t == 0.0, -1, t > 0.0).astype(np.int64)
    sample = RowSample.of(x, cell_keys(x), label)
    if y is not None:
        sample = RowSample.of(x, cell_keys(x), np.where(t == 0.0, -1, 0), 1, y)
    basis = basis_of(sample, design, fixed, sparse, 6.0, landmarks=200 if joint else 0, bare=bare)
    if new is not None:
        x, t = np.where(gaps, usual, new), np.zeros(len(new))
    bounds = [len(t) * i // parts for i in range(parts + 1)]
    keys = np.arange(len(t), dtype=np.int64)
    return [
        CodedRows(
            Rows.of(
                np.clip(scaled(x[a:b], *design), -6.0, 6.0), t[a:b], keys[a:b], None, sparse,
                cell_keys(x[a:b]),
            ),
            coded(x[a:b], basis.knots),
            basis,
            gaps[a:b],
        )
        for a, b in itertools.pairwise(bounds)
    ]  # fmt: skip


def ran(algorithm, batches):
    """Run an algorithm of requests on some partitions; return what it returns."""
    answer = None
    while True:
        try:
            request = algorithm.send(answer)
        except StopIteration as end:
            return end.value
        name = type(request).__name__
        if name == "Save":
            answer = request.value
        elif name == "Phase":
            answer = ran(request.algorithm, batches)
        else:
            stats = [request.q.sums(batch) for batch in batches]
            answer = sum(stats[1:], stats[0])
