"""Hashes against the published sequence of splitmix64, and what they must not depend on."""

import numpy as np

from vbmodels.bags.multilabel import row_hash
from vbmodels.core.draws import GOLDEN, hashed, mix


def test_the_sequence_of_seed_0_is_that_of_splitmix64():
    state = np.arange(1, 4, dtype=np.uint64) * GOLDEN
    assert [hex(v) for v in mix(state)] == [
        "0xe220a8397b1dcdaf", "0x6e789e6aa1b965f4", "0x6c45d188009454f",
    ]  # fmt: skip


def test_numbers_belong_to_their_key_and_are_even():
    keys = np.arange(-500, 500)
    drawn = hashed(keys, 2, 5)
    assert drawn.shape == (5, 1000)
    np.testing.assert_array_equal(drawn[:3, 7:9], hashed(keys[7:9], 2, 3))
    assert not np.isin(drawn, hashed(keys, 3, 5)).any()
    assert drawn.min() > 0.0
    assert drawn.max() < 1.0
    assert np.abs(np.histogram(drawn, 10, (0.0, 1.0))[0] - 500.0).max() < 100.0


def test_equal_rows_have_equal_hashes_whatever_the_sign_of_zero():
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]])
    one, two, other = row_hash(rows, 5)
    assert one == two != other
