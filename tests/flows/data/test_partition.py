"""Cuts of files into partitions."""

import time

import numpy as np
import pytest

from flows.storage import InputFile
from flows.tables.partition import cut


def files_of(n):
    return [InputFile(f"f{i:06d}", 10, str(i)) for i in range(n)]


def by_definition(rows, count):
    """Every partition's rows of every file, one by one."""
    total = sum(rows)
    place = [(f, r) for f, n in enumerate(rows) for r in range(n)]
    return [
        place[total * i // count : total * (i + 1) // count]
        for i in range(max(1, min(count, total)))
    ]


@pytest.mark.parametrize("seed", range(3))
def test_cuts_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 9, rng.integers(1, 12)).tolist()
    count = max(1, min(int(rng.integers(1, 30)), sum(rows)))
    files = files_of(len(rows))
    parts = cut(files[::-1], rows[::-1], 1000, count)
    assert [p.index for p in parts] == list(range(count))
    found = [
        [(int(s.url[1:]), r) for s in part.slices for r in range(s.start, s.stop)] for part in parts
    ]
    assert found == by_definition(rows, count)
    for part in parts:
        assert len({s.url for s in part.slices}) == len(part.slices)
        assert all(s.start < s.stop and s.fingerprint == str(int(s.url[1:])) for s in part.slices)


def test_no_rows_make_one_empty_partition():
    (part,) = cut(files_of(2), [0, 0], 10, 5)
    assert (part.rows, part.slices) == (0, ())


def test_many_files_are_cut_into_many_partitions_at_once():
    begin = time.perf_counter()
    parts = cut(files_of(5000), [7] * 5000, 7, 5000)
    assert time.perf_counter() - begin < 3.0  # parts times files took 13 seconds
    assert len(parts) == 5000
