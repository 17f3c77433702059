"""Per-document VBSS beside the floor of its arithmetic, on real abstracts and papers.

    python -m benchmarks.vbss [--documents N]

CPU milliseconds of one thread a document. "100 sweeps": from the graph on, without leaps.
"Floor": the eigendecomposition and the two products V x of each of 100 sweeps, alone.
"Converged": until every document has settled, with and without leaps.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from vbmodels.keywords.batch import KeywordBatch
from vbmodels.keywords.graph import adjacency
from vbmodels.keywords.published.documents import DocumentFit, batch_of, fit_documents
from vbmodels.keywords.published.spectrum import decompose
from vbmodels.keywords.published.vbss import VBSS

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "keywords"
OBSERVED = 5


def documents(file: str, count: int) -> KeywordBatch:
    """Read documents and observe five gold words of each at random."""
    rng = np.random.default_rng(0)
    made = []
    for row in pq.read_table(DATA / f"{file}.parquet").slice(0, count).to_pylist():
        number = {word: i for i, word in enumerate(dict.fromkeys(row["tokens"]))}
        a = adjacency(np.array([number[word] for word in row["tokens"]]), len(number))
        gold = np.flatnonzero(np.isin(list(number), row["gold"]))
        y = np.zeros(len(number), dtype=bool)
        y[rng.choice(gold, min(OBSERVED, len(gold)), replace=False)] = True
        made.append((y, a))
    return batch_of(made)


def fresh(batch: KeywordBatch) -> KeywordBatch:
    """Return the batch as a new object, for which no spectrum is kept."""
    return KeywordBatch(**vars(batch))


def floor(batch: KeywordBatch) -> None:
    """Do the eigendecompositions and the products of 100 sweeps."""
    for _, a in batch.documents():
        beta, v = decompose(a, 0.85)
        x = beta.copy()
        for _ in range(100):
            x = v @ (v.T @ x)


def milliseconds(run: Callable[[], object], count: int) -> tuple[float, object]:
    """Return the least CPU time of three runs by document, and what the last returned."""
    best, result = np.inf, None
    for _ in range(3):
        begin = time.process_time()
        result = run()
        best = min(best, time.process_time() - begin)
    return 1000.0 * best / count, result


def main() -> None:
    """Write one table to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--documents", type=int, default=100)
    count = parser.parse_args().documents
    lines = ["| set | form | words | 100 sweeps | one alone | floor | ratio "]
    lines[0] += "| converged | sweeps | without leaps | sweeps |"
    lines.append("|---" * 11 + "|")
    with threadpool_limits(1):
        for name, file, n in (
            ("abstracts", "hulth_eval", count),
            ("papers", "semeval_eval", max(count // 10, 1)),
        ):
            for form in ("full", "mean_field"):
                lines.append(line(name, documents(file, n), form))
    sys.stdout.write("\n".join(lines) + "\n")


def line(name: str, batch: KeywordBatch, form: str) -> str:
    """Measure one form on one set."""
    plain = VBSS(form=form, accelerate=False, tolerance=1e-300)
    n = batch.n_documents
    hundred, _ = milliseconds(lambda: fit_documents(fresh(batch), plain, 100), n)
    y, a = next(iter(batch.documents()))
    alone, _ = milliseconds(lambda: fit_documents(batch_of([(y, a)]), plain, 100), 1)
    least, _ = milliseconds(lambda: floor(batch), n)
    cells = [f"{batch.n_words / n:.0f}", f"{hundred:.2f}", f"{alone:.2f}", f"{least:.2f}"]
    cells.append(f"{hundred / least:.1f}")
    for accelerate in (True, False):
        model = VBSS(form=form, accelerate=accelerate)
        spent, found = milliseconds(lambda m=model: fit_documents(fresh(batch), m, 5000), n)
        assert isinstance(found, DocumentFit)
        cells += [f"{spent:.2f}", f"{np.median(found.local.sweeps):.0f}"]
    return f"| {name} | {form} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
