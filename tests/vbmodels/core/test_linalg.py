"""Factors, solves and packed triangles against NumPy's dense answers, alone and in stacks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vbmodels.core import linalg


@pytest.fixture(params=[(), (4,), (2, 3)], ids=["one", "stack", "stack of stacks"])
def matrix(request):
    half = np.random.default_rng(0).standard_normal((*request.param, 5, 8))
    return half @ np.swapaxes(half, -1, -2)


def test_solve_inverse_and_determinant(matrix):
    factor = linalg.cholesky(matrix)
    right = np.random.default_rng(1).standard_normal(matrix.shape[:-1])
    assert_allclose(
        linalg.solve(factor, right), np.linalg.solve(matrix, right[..., None])[..., 0], rtol=1e-9
    )
    assert_allclose(linalg.inverse(factor), np.linalg.inv(matrix), rtol=1e-9, atol=1e-12)
    assert_allclose(linalg.log_det(factor), np.linalg.slogdet(matrix)[1], rtol=1e-12)
    full = linalg.inverse(factor)
    assert np.array_equal(full, np.swapaxes(full, -1, -2))


def test_jitter_is_relative_to_the_diagonal(matrix):
    factor = linalg.cholesky(1e-6 * matrix, jitter=0.1)
    scale = 1e-7 * np.diagonal(matrix, axis1=-2, axis2=-1).mean(-1)
    want = 1e-6 * matrix + scale[..., None, None] * np.eye(5)
    assert_allclose(factor @ np.swapaxes(factor, -1, -2), want, rtol=1e-12, atol=1e-18)


def test_packed_triangle(matrix):
    packed = linalg.pack(matrix)
    assert packed.shape == (*matrix.shape[:-2], 15)
    assert np.array_equal(
        linalg.unpack(packed), np.tril(matrix) + np.swapaxes(np.tril(matrix, -1), -1, -2)
    )
    with pytest.raises(ValueError, match="14 numbers"):
        linalg.unpack(packed[..., :14])
