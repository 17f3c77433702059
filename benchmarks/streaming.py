"""Streams: what a night costs and is worth beside fits of all rows, and false alarms of drift.

    python -m benchmarks.streaming [--models texts mixture ...] [--seeds 3] [--nights 20]
    python -m benchmarks.streaming --models alarms [--seeds 25] [--nights 20]

Rows come in nights of equal size. The last night is learnt from by a stream (with the drift's two
passes), by a fit of its rows alone, by a fit of all rows that starts at the posterior of the night
before, and by a fit of all rows anew. Values are bounds on the log density a unit of rows that
nobody has seen. The alarms are those of whole pipelines, on rows of one distribution.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples" / f"vbflows_{name}") for name in ("logistic", "mixture")]

from vbflows_logistic.family import FAMILY as LOGISTIC  # noqa: E402
from vbflows_mixture.family import FAMILY as MIXTURE  # noqa: E402

from benchmarks.memoised import (  # noqa: E402
    Subject,
    drawn_documents,
    logistic,
    mixture,
    real_documents,
)
from flows.run.events import Events  # noqa: E402
from flows.run.pipeline import run_pipeline  # noqa: E402
from flows.settings import ComputeSettings  # noqa: E402
from vbmodels.core.fit import fit, go_on, loop_of  # noqa: E402
from vbmodels.core.in_process import InProcess  # noqa: E402
from vbmodels.core.streaming import updated  # noqa: E402

METHODS = ("stream", "new rows alone", "all rows, from the posterior before", "all rows anew")
TOL, MOST = 1e-6, 300


def told(model: Any, q: Any, batches: Sequence[Any]) -> np.ndarray:
    """Return the bound on every unit's log density, from cold local states."""
    each = [model.unit_bounds(q, batch, model.local_step(q, batch, None)) for batch in batches]
    return np.concatenate(each)


def last_night(subject: Subject, seed: int, nights: int) -> dict[str, tuple[float, float]]:
    """Return CPU seconds and held-out value of every way to learn from the last night."""
    model, parts = subject.model, subject.batches(seed)
    cut = np.array_split(np.arange(len(parts)), nights + 2)
    held = [parts[i] for i in [*cut[0], *cut[1]]]
    rows = [[parts[i] for i in night] for night in cut[2:]]
    left = None
    for night in rows[:-1]:
        _, left = updated(model, left, night, seed=seed, tol=TOL, max_iter=MOST)
    every = [batch for night in rows for batch in night]
    loop = loop_of(model)

    def stream() -> Any:
        told(model, left.q, rows[-1])
        return updated(model, left, rows[-1], tol=TOL, max_iter=MOST)[0].q

    ways: dict[str, Callable[[], Any]] = {
        METHODS[0]: stream,
        METHODS[1]: lambda: fit(model, rows[-1], seed=seed, tol=TOL, max_iter=MOST).q,
        METHODS[2]: lambda: (
            go_on(model, InProcess(model, every), left.q, tol=TOL, max_iter=MOST, loop=loop).q
        ),
        METHODS[3]: lambda: fit(model, every, seed=seed, tol=TOL, max_iter=MOST).q,
    }
    found = {}
    for name, way in ways.items():
        began = time.process_time()
        q = way()
        found[name] = time.process_time() - began, float(told(model, q, held).mean())
    return found


def compared(subject: Subject, seeds: int, nights: int) -> str:
    """Return the table of one model."""
    found = [last_night(subject, seed, nights) for seed in range(seeds)]
    lines = [
        f"{subject.title}; {nights} nights, {seeds} seeds:",
        "",
        "| the last night by | CPU, new rows alone = 1 | held-out nats a unit, beyond all anew |",
        "|---|---|---|",
    ]
    for name in METHODS:
        cost = np.median([one[name][0] / one[METHODS[1]][0] for one in found])
        value = [one[name][1] - one[METHODS[3]][1] for one in found]
        told_so = ", ".join(f"{v:+.4f}" for v in value)
        lines.append(f"| {name} | {cost:.2f} | {told_so} |")
    return "\n".join(lines)


def alarms(streams: int, nights: int) -> str:
    """Return how many nights of exchangeable rows raise the alarm, by whole pipelines."""
    lines = ["| pipeline | forgetting factor | nights judged | alarms |", "|---|---|---|---|"]
    for family, changes in ((MIXTURE, {"components": 4}), (LOGISTIC, {})):
        for factor in (1.0, 0.9):
            judged = false = 0
            for seed in range(streams):
                p = _stream(family, changes, factor, seed, nights)
                judged, false = judged + len(p), false + sum(x < 0.005 for x in p)
            lines.append(f"| {family.name} | {factor:g} | {judged:,} | {false} |")
    return "\n".join(lines)


def _stream(
    family: Any, changes: dict[str, Any], factor: float, seed: int, nights: int
) -> list[float]:
    """Return the p of every night that is judged."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        table = pq.read_table(family.simulate(f"{folder}/drawn", 60 * nights, seed)[0])
        settings = family.settings(**changes, forgetting_factor=factor, partitions=2)
        for night in range(nights):
            url = f"{folder}/night-{night}.parquet"
            pq.write_table(table.slice(60 * night, 60), url)
            done = run_pipeline(
                family, Events(), url, f"{folder}/out", settings, ComputeSettings(), None, "latest"
            )
            if "drift_p" in done["results"]:
                found.append(done["results"]["drift_p"])
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    data = ROOT.parent / "shared" / "data" / "keywords"
    subjects: dict[str, Callable[[], Subject]] = {
        "texts": lambda: real_documents(data), "documents": drawn_documents, "mixture": mixture,
        "logistic": logistic,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*subjects, "alarms"]
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--nights", type=int, default=20)
    given = parser.parse_args(arguments)
    with threadpool_limits(1):
        for name in given.models:
            if name == "texts" and not data.is_dir():
                print("\nthe shared texts are not there and are left out")
            elif name == "alarms":
                print(f"\n{alarms(given.seeds, given.nights)}", flush=True)
            else:
                table = compared(subjects[name](), given.seeds, given.nights)
                print(f"\n{table}", flush=True)


if __name__ == "__main__":
    main()
