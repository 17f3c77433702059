"""What ingest leaves on disk: short numbers, and nothing of tokens for the driver."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.data import storage
from flows.data.runs import RunPaths
from flows.data.states import read_state
from flows.keywords.documents import prepare
from flows.keywords.family import FAMILY
from flows.keywords.settings import KeywordSettings
from flows.keywords.shards import Shard
from flows.keywords.text import TextOptions
from flows.keywords.work import read_wide, write_narrow
from vbmodels.core.state import same_bits
from vbmodels.keywords.batch import DocumentTokens
from vbmodels.keywords.lengths import Lengths


def lengths(values):
    n = np.array(values, np.int64)
    return Lengths(n, np.zeros_like(n), np.zeros_like(n), np.ones_like(n))


@pytest.mark.parametrize(
    ("values", "bits"),
    [
        ([], 8), ([0, 127, -128], 8), ([128], 16), ([-129, 5], 16), ([1 << 15], 32),
        ([-(1 << 31)], 32), ([1 << 31], 64),
    ],
)  # fmt: skip
def test_numbers_are_as_short_as_they_can_be_and_come_back(tmp_path, values, bits):
    state, url = lengths(values), str(tmp_path / "state.npz")
    write_narrow(url, state)
    assert read_state(url, Lengths).n.dtype == np.dtype(f"i{bits // 8}")
    assert same_bits(read_wide(url, Lengths), state)


def ingested(folder: Path, unit: str):
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(900)]
    # As in English, half of the tokens are stop words.
    texts = [" ".join(f"the {word} of" for word in rng.choice(words, 60)) for _ in range(60)]
    ids = [f"d{i}" for i in range(60)]
    table = pa.table({"doc_id": ids, "text": texts, "keywords": [[t.split()[1]] for t in texts]})
    pq.write_table(table, folder / "in.parquet")
    settings, paths = KeywordSettings(unit=unit, tag=False), RunPaths(str(folder), "run")
    files = storage.expand(str(folder / "in.parquet"), FAMILY.suffixes)
    parts = FAMILY.plan(files, [FAMILY.check(file, settings) for file in files], settings)
    for part in parts:
        FAMILY.ingest(part, settings, paths)
    return table, parts, settings, paths


@pytest.mark.parametrize("unit", ["word", "phrase"])
def test_ingest_writes_at_most_eight_times_its_input(tmp_path, unit):
    table, parts, settings, paths = ingested(tmp_path, unit)
    written = sum(f.stat().st_size for f in Path(paths.work).rglob("*") if f.is_file())
    assert written <= 8 * (tmp_path / "in.parquet").stat().st_size
    tokens = read_wide(f"{paths.work}/tokens/part-00000.npz", DocumentTokens)
    made = prepare(table, TextOptions(tag=False), settings.with_phrases).tokens
    for field in fields(DocumentTokens):
        assert np.array_equal(getattr(tokens, field.name), getattr(made, field.name)), field.name
    assert len(parts) == 1


def test_the_driver_reads_no_tokens(tmp_path):
    _, parts, settings, paths = ingested(tmp_path, "phrase")
    for name in ("tokens", "marks", "documents", "vocabulary"):
        for file in Path(paths.work, name).iterdir():
            file.unlink()
    asked = []

    def each(function, items, *more):
        asked.append(items)
        if isinstance(items[0], Shard):
            return [("digest", np.zeros((2, 10), np.int64)) for _ in items]
        return [f"partition {i}" for i in items]

    FAMILY.prepare(parts, settings, paths, None, each)
    assert asked == [[Shard(kind, 0, 1, 0, 1) for kind in ("words", "phrases")], [0]]
