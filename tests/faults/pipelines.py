"""Small runs of every pipeline, and what they publish, compared bit by bit."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from flows import storage
from flows.catalogue import pipeline_named
from flows.run import run as launch
from flows.settings import ComputeSettings

SETTINGS: dict[str, dict[str, Any]] = {
    # Phrases take twice the time; who tests what they write sets them.
    "keywords": {"max_iter": 6, "keyword_rate": 0.3, "unit": "word"},
    "bags": {"model": "vmmic", "max_iter": 6},
    "variants": {"max_iter": 4, "case": "case", "control": "control"},
    "features": {"max_iter": 80, "n_features": 2},
    # Boosted trees use OpenMP, which does not survive the fork that commands are started by.
    "experts": {"n_experts": 2, "inference": "cavi", "baselines": False},
}
# What holds times, or where the run stands.
_OF_THE_MOMENT = {"run.json", "report.html", "trace.parquet", "kept", "work"}
ROWS = {"keywords": 40, "bags": 60, "variants": 150, "features": 120, "experts": 200}


def simulate(name: str, target: str, rows: int | None = None) -> str:
    """Draw data of a pipeline; return the URL of the first file."""
    return pipeline_named(name).simulate(target, rows or ROWS[name], 1)[0]


def run(
    name: str, source: str, target: str, compute: ComputeSettings | None = None,
    resume: str | None = None, **changes: Any,
) -> dict[str, Any]:  # fmt: skip
    """Run a pipeline on three partitions."""
    family = pipeline_named(name)
    settings = family.settings(**{"partitions": 3, **SETTINGS[name], **changes})
    return launch(name, source, target, settings, compute or ComputeSettings(), None, resume)


def published(outcome: dict[str, Any]) -> dict[str, Any]:
    """Return the bits of what a run left: its posterior and its tables."""
    root = storage.join(outcome["target"], "runs", outcome["run_id"])
    return dict(_files(root, ""))


def _files(folder: str, above: str) -> Iterator[tuple[str, Any]]:
    for name in storage.names(folder):
        url = storage.join(folder, name)
        if not above and name in _OF_THE_MOMENT:
            continue
        if "." not in name:
            yield from _files(url, f"{above}{name}/")
        elif name.endswith(".parquet"):
            yield f"{above}{name}", _bits(storage.read_table(url))
        else:
            yield f"{above}{name}", storage.read_bytes(url)


def _bits(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return sink.getvalue().to_pybytes()
