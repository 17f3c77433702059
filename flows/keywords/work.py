"""Where a run of keywords keeps a partition's files while it works."""

from __future__ import annotations

from flows.data import storage
from flows.data.runs import RunPaths


def work_url(paths: RunPaths, name: str, index: int, suffix: str = "parquet") -> str:
    """Return the place of a partition's file."""
    return storage.join(paths.work, name, f"part-{index:05d}.{suffix}")
