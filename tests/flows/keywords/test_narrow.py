"""What ingest leaves on disk: short numbers, and nothing of tokens for the driver."""

from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.keywords.family import FAMILY
from flows.keywords.input.documents import prepare
from flows.keywords.settings import KeywordSettings
from flows.keywords.work import read_wide
from flows.records.runs import RunPaths
from vbmodels.text.candidates import DocumentTokens
from vbmodels.text.words import TextOptions


def ingested(folder: Path, unit: str):
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(900)]
    # As in English, half of the tokens are stop words.
    texts = [" ".join(f"the {word} of" for word in rng.choice(words, 60)) for _ in range(120)]
    ids = [f"d{i}" for i in range(120)]
    table = pa.table({"doc_id": ids, "text": texts, "keywords": [[t.split()[1]] for t in texts]})
    pq.write_table(table, folder / "in.parquet")
    settings, paths = KeywordSettings(unit=unit), RunPaths(str(folder), "run")
    files = storage.expand(str(folder / "in.parquet"), FAMILY.suffixes)
    parts = FAMILY.plan(files, [FAMILY.read_header(file, settings) for file in files], settings)
    for part in parts:
        FAMILY.ingest(part, settings, paths)
    return table, parts, settings, paths


@pytest.mark.parametrize("unit", ["word", "phrase"])
def test_ingest_writes_at_most_eight_times_its_input(tmp_path, unit):
    table, parts, settings, paths = ingested(tmp_path, unit)
    written = sum(f.stat().st_size for f in Path(paths.work).rglob("*") if f.is_file())
    assert written <= 8 * (tmp_path / "in.parquet").stat().st_size
    tokens = read_wide(f"{paths.work}/tokens/part-00000.npz", DocumentTokens)
    made = prepare(table, TextOptions(language="auto"), settings.with_phrases).tokens
    for field in fields(DocumentTokens):
        assert np.array_equal(getattr(tokens, field.name), getattr(made, field.name)), field.name
    assert len(parts) == 1
