"""The memoised loop beside plain sweeps and SQUAREM: sweeps and CPU to near the final bound.

    python -m benchmarks.memoised [--models lda mixture ...] [--seeds 3]

Every model is fitted by each loop from the same starts, in one process and one thread, in as many
partitions as there are rounds at most. A loop's final bound is where it stands after the stated
sweeps; counted is what it took to within 1e-4 (relative) of that, and to within 1e-4 of the best
final bound of all loops. Medians over seeds; a loop that does not get there counts as never.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "examples" / f"vbflows_{name}") for name in ("logistic", "mixture")]

from vbflows_logistic.model import LogisticRegression  # noqa: E402
from vbflows_logistic.model import Rows as LabelledRows  # noqa: E402
from vbflows_mixture.model import Mixture, Rows  # noqa: E402
from vbflows_mixture.simulate import simulate as simulate_mixture  # noqa: E402

from benchmarks.lda import Topics, completion, counted, partition, texts  # noqa: E402
from benchmarks.lda import simulate as simulate_documents  # noqa: E402
from vbmodels.core.cavi import begin, cavi  # noqa: E402
from vbmodels.core.in_process import InProcess  # noqa: E402
from vbmodels.core.memoised import Memoised  # noqa: E402
from vbmodels.core.protocol import Loop  # noqa: E402
from vbmodels.core.squarem import squarem  # noqa: E402
from vbmodels.core.state import FloatArray  # noqa: E402
from vbmodels.experts.batch import Rows as ExpertRows  # noqa: E402
from vbmodels.experts.published.cavi import BoundedExperts  # noqa: E402
from vbmodels.experts.simulate import simulate as simulate_experts  # noqa: E402
from vbmodels.keywords.pooled import PooledVBSS  # noqa: E402
from vbmodels.keywords.simulate import (  # noqa: E402
    simulate_pooled,
    split_documents,
    typical_coefficients,
)

NEAR = 1e-4
PARTS = 32
LOOPS: dict[str, Loop] = {
    "cavi": cavi,
    "squarem": squarem,
    "memoised, 8 rounds": Memoised(8),
    "memoised, 32 rounds": Memoised(32),
}

Trace = list[tuple[int, float, float]]
"""Sweeps, seconds of CPU and bound at every step."""


@dataclass(frozen=True)
class Subject:
    """A model, its data by seed, and how many sweeps lead it to its end."""

    title: str
    model: Any
    batches: Callable[[int], list[Any]]
    sweeps: int


def _shared(x: Any) -> list[Any]:
    return np.array_split(x, PARTS)


def _documents(counts: sparse.csr_matrix, seed: int) -> list[Any]:
    order = np.random.default_rng(seed).permutation(counts.shape[0])
    return [partition(counts[rows]) for rows in _shared(order)]


def real_documents(data: Path) -> Subject:
    """Topics of the shared texts."""
    counts = counted(texts(data), 5)
    title = f"LDA, {counts.shape[0]:,} texts of {counts.shape[1]:,} words, 20 topics"
    return Subject(title, Topics(20, 0.1, 0.05), lambda seed: _documents(counts, seed), 60)


def drawn_documents() -> Subject:
    """Topics of simulated documents."""
    rng = np.random.default_rng(1)
    drawn, _, _ = simulate_documents(rng, 2000, 1000, 20, 80, alpha=0.1, eta=0.02)
    counts = sparse.csr_matrix(drawn)
    title = "LDA, 2,000 simulated documents of 1,000 words, 20 topics"
    return Subject(title, Topics(20, 0.1, 0.05), lambda seed: _documents(counts, seed), 60)


def mixture() -> Subject:
    """Groups of rows; they overlap in half of the seeds."""

    def batches(seed: int) -> list[Rows]:
        prior = Mixture(weight0=0.05 if seed % 2 else 0.5, freedom=10.0)
        x, _ = simulate_mixture(np.random.default_rng(seed), 20_000, 10, 8, prior)
        return [Rows(rows) for rows in _shared((x - x.mean(0)) / x.std(0))]

    return Subject("Gaussian mixture, 20,000 rows of 8, 10 groups", Mixture(10), batches, 120)


def _labelled(seed: int, rows: int, columns: int) -> tuple[FloatArray, Any]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, columns))
    x[:, 0] = 1.0
    odds = x @ rng.normal(0.0, 1.0, columns)
    return x, (rng.random(rows) < 1.0 / (1.0 + np.exp(-odds))).astype(np.int64)


def logistic() -> Subject:
    """Labels of rows."""

    def batches(seed: int) -> list[LabelledRows]:
        x, label = _labelled(seed, 30_000, 20)
        pairs = zip(_shared(x), _shared(label), strict=True)
        return [LabelledRows(np.ascontiguousarray(a), b) for a, b in pairs]

    return Subject("Logistic regression, 30,000 rows of 20", LogisticRegression(), batches, 40)


def keywords() -> Subject:
    """Words of documents whose lists of keywords are not complete."""

    def batches(seed: int) -> list[Any]:
        batch, _ = simulate_pooled(
            np.random.default_rng(seed), 640, coefficients=typical_coefficients(6, 0.2)
        )
        return list(split_documents(batch, PARTS))

    return Subject("Keywords, pooled, 640 documents", PooledVBSS(keyword_rate=0.2), batches, 150)


def experts() -> Subject:
    """Labels of rows by a mixture of experts, each with a bound."""

    def batches(seed: int) -> list[ExpertRows]:
        x, t, _ = simulate_experts(np.random.default_rng(seed), 5_000)
        keys = np.arange(len(t))
        return [ExpertRows.of(x[rows], t[rows], rows) for rows in _shared(keys)]

    return Subject("Experts, 5,000 rows of 4, 3 experts", BoundedExperts(3), batches, 200)


def compared(subject: Subject, seeds: int) -> str:
    """Return the table of one model."""
    found: dict[str, list[Trace]] = {name: [] for name in LOOPS}
    for seed in range(seeds):
        batches = subject.batches(seed)
        fitted(subject.model, batches[:1], cavi, seed, 1, [])  # compiles
        for name, loop in LOOPS.items():
            found[name].append([])
            fitted(subject.model, batches, loop, seed, subject.sweeps, found[name][-1])
    best = [max(t[-1][2] for t in of_seed) for of_seed in zip(*found.values(), strict=True)]
    lines = [
        f"{subject.title}; {seeds} seeds, {subject.sweeps} sweeps:",
        "",
        "| loop | sweeps | CPU s | sweeps to the end of cavi | CPU s to the end of cavi "
        "| sweeps to the best | CPU s to the best | final bound below the best, relative "
        "| CPU of a sweep, cavi's = 1 |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    unit, ends = _a_sweep(found["cavi"]), [t[-1][2] for t in found["cavi"]]
    for name, traces in found.items():
        own = [_reached(t, t[-1][2]) for t in traces]
        same = [_reached(t, to) for t, to in zip(traces, ends, strict=True)]
        common = [_reached(t, to) for t, to in zip(traces, best, strict=True)]
        short = np.median([(b - t[-1][2]) / abs(b) for t, b in zip(traces, best, strict=True)])
        cells = [
            f"{v:.{d}f}"
            for pair in (own, same, common)
            for v, d in zip(_median(pair), (0, 2), strict=True)
        ]
        cells = [cell.replace("inf", "never") for cell in cells]
        each = _a_sweep(traces) / unit
        lines.append(f"| {name} | {' | '.join(cells)} | {short:.1e} | {each:.2f} |")
    return "\n".join(lines)


def held_out(data: Path, seeds: int) -> str:
    """Return the table of topics of real texts, a tenth of which is held out."""
    counts, found = (
        counted(texts(data), 5),
        {name: [] for name in ("cavi", "squarem", "memoised, 8 rounds")},
    )
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        order = rng.permutation(counts.shape[0])
        cut = counts.shape[0] // 10
        value, train = completion(counts[order[:cut]], rng), counts[order[cut:]]
        batches = [partition(train[rows]) for rows in _shared(np.arange(train.shape[0]))]
        for name, of_loop in found.items():
            trace: Trace = []
            q = fitted(Topics(20, 0.1, 0.05), batches, LOOPS[name], seed, 60, trace)
            of_loop.append((trace, value(q.lam)))
    lines = [
        f"Topics of {counts.shape[0]:,} texts, a tenth held out, {seeds} seeds, 60 sweeps:",
        "",
        "| loop | sweeps to the end of cavi | CPU s to the end of cavi | nats a held-out word |",
        "|---|---|---|---|",
    ]
    ends = [trace[-1][2] for trace, _ in found["cavi"]]
    for name, of_loop in found.items():
        pairs = [_reached(t, to) for (t, _), to in zip(of_loop, ends, strict=True)]
        sweeps, cpu = _median(pairs)
        each = ", ".join(f"{at:.4f}" for _, at in of_loop)
        lines.append(f"| {name} | {sweeps:.0f} | {cpu:.2f} | {each} |")
    return "\n".join(lines)


def fitted(model: Any, batches: list[Any], loop: Loop, seed: int, sweeps: int, trace: Trace) -> Any:
    """Fit in so many sweeps, note each in the trace; the bound may not fall on the way."""
    began = time.process_time()
    reduce = InProcess(model, batches)
    q = model.init(reduce.observe(), np.random.default_rng(seed))
    for step in loop(model, reduce, begin(loop, model, q, reduce)):
        trace.append((step.iteration + 1, time.process_time() - began, step.elbo))
        if step.iteration + 1 >= sweeps:
            break
    bounds = [bound for _, _, bound in trace]
    fall = max(-np.diff(bounds), default=0.0)
    if fall > 1e-9 * abs(bounds[-1]):
        raise ArithmeticError(f"the bound fell by {fall:.3g} of {bounds[-1]:.6g}")
    return step.q


def _reached(trace: Trace, to: float) -> tuple[float, float]:
    near = [(n, cpu) for n, cpu, bound in trace if bound >= to - NEAR * abs(to)]
    return near[0] if near else (np.inf, np.inf)


def _median(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    sweeps, seconds = np.quantile(np.array(pairs), 0.5, axis=0, method="higher")
    return float(sweeps), float(seconds)


def _a_sweep(traces: list[Trace]) -> float:
    return float(np.median([t[-1][1] / t[-1][0] for t in traces]))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    data = ROOT.parent / "shared" / "data" / "keywords"
    subjects: dict[str, Callable[[], Subject]] = {
        "texts": lambda: real_documents(data), "documents": drawn_documents, "mixture": mixture,
        "logistic": logistic, "keywords": keywords, "experts": experts,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [*subjects, "heldout"]
    parser.add_argument("--models", nargs="+", choices=names, default=names)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args(arguments)
    with threadpool_limits(1):
        for name in given.models:
            if name in ("texts", "heldout") and not data.is_dir():
                print("\nthe shared texts are not there and are left out")
                continue
            table = (
                held_out(data, given.seeds)
                if name == "heldout"
                else compared(subjects[name](), given.seeds)
            )
            print(f"\n{table}", flush=True)


if __name__ == "__main__":
    main()
