"""A driver as a process of its own: fit, score, leave the bits, say what happened."""

import argparse
import hashlib
import json
import logging
import sys
from contextlib import nullcontext
from pathlib import Path

from flows.fit.connect import connect
from flows.fit.driver import run_fit
from flows.fit.executor import InProcess
from flows.fit.job import ClusterError
from flows.records.lock import claim
from flows.storage import write_bytes
from tests.faults.models import Paced, job, probabilities
from vbmodels.core.state import to_bytes


def bits(result, scored) -> dict[str, str]:
    """Return digests of q, of the trace and of the published probabilities."""
    return {
        "q": hashlib.sha256(to_bytes(result.q)).hexdigest(),
        "elbo": result.trace.elbo.tobytes().hex(),
        "scored": hashlib.sha256(b"".join(scored)).hexdigest(),
    }


def main() -> int:
    """Run one fit as the command line does."""
    parser = argparse.ArgumentParser()
    parser.add_argument("corpus", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("run_id")
    parser.add_argument("--scheduler")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--pause", type=float, default=0.0)
    given = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("flows").setLevel(logging.INFO)
    urls = tuple(sorted(str(path) for path in given.corpus.iterdir()))
    model = Paced(pause=given.pause)
    task = job(urls, given.target, given.run_id, model=model)
    elsewhere = given.scheduler or given.workers
    place = connect(given.workers, given.scheduler) if elsewhere else nullcontext()
    try:
        with place as cluster, claim(task.store, given.run_id):
            executor = cluster.executor(task) if cluster else InProcess(task)
            result = run_fit(
                task,
                executor,
                on_step=lambda step: print(f"sweep {step.iteration}", flush=True),
                resume=given.resume,
            )
            scored = executor.map(probabilities, result.q, result.number)
            content = json.dumps(bits(result, scored)).encode()
            write_bytes(str(given.target / f"{given.run_id}.json"), content)
            write_bytes(str(given.target / "latest.json"), given.run_id.encode())
            executor.close()
    except ClusterError as error:
        print(f"run {given.run_id}: {error}", flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
