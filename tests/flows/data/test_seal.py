"""What a run makes for itself is sealed: whatever is changed or cut is damage, on any store."""

import random
import uuid

import numpy as np
import pyarrow as pa
import pytest

from flows import storage
from flows.storage import DamagedError
from flows.storage.objects.access import filesystem
from flows.storage.objects.seal import BLOCK

RUN = "runs/20260102T030405-0a1b2c"
TABLE = pa.table({"n": np.arange(400_000), "x": np.random.default_rng(1).normal(size=400_000)})


@pytest.fixture(params=["local", "memory"])
def store(request, tmp_path):
    if request.param == "local":
        yield str(tmp_path)
        return
    url = f"memory://{uuid.uuid4().hex}"
    yield url
    storage.delete(url)


def raw(url):
    fs, path = filesystem(url)
    return fs.cat_file(path)


def put(url, content):
    fs, path = filesystem(url)
    fs.pipe_file(path, content)


def mutants(content, seed):
    rng = random.Random(seed)
    ends = [0, len(content) - 1, len(content) - 9, len(content) - 20, len(content) - 40]
    for at in ends + [rng.randrange(len(content)) for _ in range(10)]:
        changed = bytearray(content)
        changed[at] ^= 1 << rng.randrange(8)
        yield bytes(changed)
    for length in (0, 1, len(content) // 2, len(content) - 1):
        yield content[:length]
    yield content + b"\0"


def test_a_table_of_a_run_is_read_whole_and_in_part_or_not_at_all(store):
    url = f"{store}/{RUN}/work/rows/part-00000.parquet"
    storage.write_table(url, TABLE, 16_384)
    content = raw(url)
    assert len(content) > 2 * BLOCK
    assert storage.read_table(url).equals(TABLE)
    assert storage.read_overlapping(url, "n", 399_990, 400_100)["n"][-1].as_py() == 399_999
    for mutant in mutants(content, 1):
        put(url, mutant)
        with pytest.raises(DamagedError, match=r"part-00000\.parquet is damaged") as raised:
            storage.read_table(url)
        assert raised.value.url == url
        with pytest.raises(DamagedError, match=r"part-00000\.parquet is damaged"):
            storage.read_overlapping(url, "n", 0, 400_000)


@pytest.mark.parametrize("size", [0, 1, BLOCK, 3 * BLOCK + 7])
def test_bytes_of_a_run_are_what_was_written_or_damage(store, size):
    url = f"{store}/{RUN}/kept/local/part-00000.npz"
    data = random.Random(size).randbytes(size)
    storage.write_bytes(url, data)
    assert storage.read_bytes(url) == data
    copied = f"{store}/{RUN}/corpus/terms.npz"
    storage.copy(url, copied)
    assert raw(copied) == data
    for mutant in mutants(raw(url), size):
        put(url, mutant)
        with pytest.raises(DamagedError):
            storage.read_bytes(url)


@pytest.mark.parametrize(
    "name", [f"{RUN}/rows/part-00000.parquet", "runs/mine/work/table.parquet", "work/a.parquet"]
)
def test_what_others_read_is_not_sealed(store, name):
    url = f"{store}/{name}"
    storage.write_table(url, TABLE[:5])
    assert raw(url).endswith(b"PAR1")
    assert storage.read_table(url).equals(TABLE[:5])
