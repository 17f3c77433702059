"""One worker against two on 43,093 x 52 synthetic rows (K = 25), and the converged fit.

    python -m benchmarks.ibp_workers [--sweeps 20] [--converge]

Sweeps of both clusters alternate, so other load meets both alike. Beside the wall clock stands the
CPU time of each sweep's longest chain: the driver's, and that of its busiest worker. "No engine"
is what the machine itself gives: the same local steps in one process, and by halves in two at once.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from benchmarks.ibp import say, table
from flows.data import storage
from flows.engine.block import Job
from flows.engine.dask import Cluster, connect
from vbmodels.core.fit import fit
from vbmodels.core.in_process import InProcess
from vbmodels.core.state import to_bytes
from vbmodels.features.batch import FeatureBatch, split_rows
from vbmodels.features.polya_gamma import PolyaGammaIBP
from vbmodels.features.restarts import Restarts

NAME = "SYNTHETIC_nesarc_like52"
PARTITIONS = 16
K = 25


def stored(folder: Path, name: str) -> Job:
    """Store the partitions and return the job."""
    codes, levels = table(NAME)
    urls = []
    for i, batch in enumerate(split_rows(codes, levels, PARTITIONS)):
        urls.append(storage.join(str(folder), name, f"part-{i:03d}.npz"))
        storage.write_bytes(urls[-1], to_bytes(batch))
    store = storage.join(str(folder), "runs", name)
    return Job(PolyaGammaIBP(K), FeatureBatch, tuple(urls), store, run_id=name)


@dataclass
class Series:
    """Sweeps on one cluster."""

    cluster: Cluster
    job: Job
    wall: list[float] = field(default_factory=list)
    chain: list[float] = field(default_factory=list)

    def begin(self) -> None:
        """Make the first parameters; find the workers' processes."""
        self.reduce = self.cluster.executor(self.job)
        observed = self.reduce.observe()
        self.q = self.job.model.init(observed.stats, np.random.default_rng(0))
        self.pids = list(self.cluster.seam.client.run(os.getpid).values())
        self.number = 0

    def sweep(self, record: bool) -> None:
        """Run one sweep and the driver's step."""
        before = [self.used(pid) for pid in self.pids]
        own, began = time.process_time(), time.perf_counter()
        warm = self.number - 1 if self.number else None
        stats = self.reduce(self.q, number=self.number, warm=warm)
        self.q = self.job.model.global_step(self.q, stats)
        self.number += 1
        if record:
            self.wall.append(time.perf_counter() - began)
            busiest = max(self.used(p) - b for p, b in zip(self.pids, before, strict=True))
            self.chain.append(time.process_time() - own + busiest)

    @staticmethod
    def used(pid: int) -> float:
        """Return the CPU seconds of a process."""
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)


def compare(sweeps: int) -> None:
    """Alternate sweeps on one worker and on two."""
    load = os.getloadavg()[0]
    with (
        tempfile.TemporaryDirectory() as name,
        connect(workers=1) as one,
        connect(workers=2) as two,
    ):
        folder = Path(name)
        series = {n: Series(c, stored(folder, f"w{n}")) for n, c in ((1, one), (2, two))}
        for each in series.values():
            each.begin()
        for i in range(sweeps + 2):
            for each in series.values():
                each.sweep(record=i > 1)
    say(f"load average before: {load:.1f}, {os.cpu_count()} cores, {sweeps} sweeps")
    for what in ("wall", "chain"):
        times: dict[int, Any] = {n: np.array(getattr(s, what)) for n, s in series.items()}
        ratio = np.median(times[1] / times[2])
        say(f"| {what} | one {np.median(times[1]):.3f} s | two {np.median(times[2]):.3f} s | "
            f"ratio {ratio:.2f} (of the fastest tenth "
            f"{np.quantile(times[1], 0.1) / np.quantile(times[2], 0.1):.2f}) |")  # fmt: skip


def bare_sweeps(which: slice, sweeps: int) -> list[float]:
    """Time the local steps of some partitions in this process, no engine about them."""
    codes, levels = table(NAME)
    model, batches = PolyaGammaIBP(K), split_rows(codes, levels, PARTITIONS)
    reduce = InProcess(model, batches[which])
    q, seconds = model.init(InProcess(model, batches).observe(), np.random.default_rng(0)), []
    with threadpool_limits(1):
        for number in range(sweeps + 2):
            began = time.perf_counter()
            reduce(q, number=number, warm=number - 1 if number else None)
            seconds.append(time.perf_counter() - began)
    return seconds[2:]


def bare(sweeps: int) -> None:
    """What two cores can give: all partitions in one process, halves in two at once."""
    half = PARTITIONS // 2
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        (one,) = pool.map(bare_sweeps, [slice(None)], [sweeps])
        two = list(pool.map(bare_sweeps, [slice(half), slice(half, None)], [2 * sweeps] * 2))
    alone, together = np.median(one), np.median(np.concatenate(two))
    say(f"| no engine | one {alone:.3f} s | two {together:.3f} s | ratio {alone / together:.2f} |")


def converge() -> None:
    """Fit to convergence in this process and compare with the features behind the data."""
    codes, levels = table(NAME)
    batches = split_rows(codes, levels, 4)
    model = Restarts((PolyaGammaIBP(K),), race=90)
    began = time.process_time()
    done = fit(model, batches, seed=0, tol=1e-6, max_iter=500)
    used = time.process_time() - began
    reduce: InProcess = done.reduce
    (q,) = done.q.members
    counts = np.zeros(K)
    for batch, local in zip(batches, reduce.local_states(done.iterations - 1), strict=True):
        counts += (local.members[0].nu[batch.row_of] > 0.5).sum(0)
    share = np.sort(counts / len(codes))[::-1]
    shown = " ".join(f"{s:.3f}" for s in share if s > 0.001)
    say(f"| converged {done.converged} | {done.iterations} sweeps | {used:.0f} s CPU | bound "
        f"{done.trace[-1]:.1f} | alpha {q.alpha:.2f} sigma2 {0.5 * q.variance[0]:.2f} | "
        f"shares {shown} |")  # fmt: skip


def main() -> None:
    """Run what was asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweeps", type=int, default=20)
    parser.add_argument("--converge", action="store_true")
    given = parser.parse_args()
    if given.converge:
        converge()
    else:
        compare(given.sweeps)
        bare(given.sweeps)


if __name__ == "__main__":
    main()
