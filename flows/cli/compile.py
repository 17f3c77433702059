"""Small runs of every pipeline on drawn data: what they compile, later runs find in the cache."""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from flows.catalogue import pipeline_named
from flows.run import run
from flows.settings import ComputeSettings

ROWS = 60
_GIVEN: dict[str, dict[str, Any]] = {"variants": {"case": "case", "control": "control"}}


def compiled(names: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Run pipelines on data drawn from their models; yield (name, seconds) of each.

    Numba keeps what it compiles below NUMBA_CACHE_DIR, or next to the source, for processors like
    this one.
    """
    for name in names:
        family = pipeline_named(name)
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="vbflows-") as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            [source, *_] = family.simulate(str(Path(folder) / "in"), ROWS, 1)
            settings = family.settings(**_GIVEN.get(name, {}))
            run(name, source, str(Path(folder) / "out"), settings, ComputeSettings())
        yield name, time.perf_counter() - began
