"""What TLS between a run and its local workers costs: seconds to start, CPU and time of a sweep.

``--workers 2`` as it is and with plain TCP, in turns within one run, so that other load meets
both alike. The sweeps are those of `benchmarks.engine`: next to no arithmetic, 64 partitions,
100 KB of global parameters.

    python -m benchmarks.tls [--starts 5] [--sweeps 40] [--turns 5] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from distributed.security import Security

from benchmarks.engine import Series, stored
from flows.engine.dask import connect, connecting

KINDS = ("tls", "tcp")


def speaking(kind: str) -> AbstractContextManager[Any]:
    """Start local workers as they are, or with plain TCP."""
    plain = Security(require_encryption=False)
    return nullcontext() if kind == "tls" else patch.object(connecting, "_security", lambda: plain)


def starts(count: int) -> dict[str, list[float]]:
    """Return the seconds until two workers are ready, in turns."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(2 * count):
        kind = KINDS[turn % 2]
        began = time.perf_counter()
        with speaking(kind), connect(workers=2):
            seconds[kind].append(time.perf_counter() - began)
    return seconds


def sweeps(folder: Path, count: int, turns: int) -> dict[str, Series]:
    """Run sweeps on both, in turns."""
    series = {}
    with ExitStack() as stack:
        for kind in KINDS:
            with speaking(kind):
                made = stack.enter_context(connect(workers=2))
            pids = list(made.seam.client.run(os.getpid).values())
            groups = {"driver and scheduler": [os.getpid()], "workers": pids}
            series[kind] = Series(made.executor(stored(folder, 0, kind)), groups)
        for each in series.values():
            each.run(10, record=False)
        for _ in range(turns):
            for each in series.values():
                each.run(count)
    return series


def main() -> None:
    """Measure, and print both and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--sweeps", type=int, default=40)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    seconds = starts(given.starts)
    with tempfile.TemporaryDirectory() as folder:
        series = sweeps(Path(folder), given.sweeps, given.turns)
    found: dict[str, Any] = {
        kind: {
            "start_s": round(float(np.median(seconds[kind])), 2),
            **series[kind].figures(),
        }
        for kind in KINDS
    }
    cpu = {kind: sum(found[kind]["cpu_ms"].values()) for kind in KINDS}
    pairs = np.array(seconds["tls"]) - np.array(seconds["tcp"])
    found["start_extra_s"] = round(float(np.median(pairs)), 2)
    found["cpu_ratio"] = round(cpu["tls"] / cpu["tcp"], 3)
    found["sweep_ratio"] = round(found["tls"]["median_ms"] / found["tcp"]["median_ms"], 3)
    print(json.dumps(found) if given.json else json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
