"""CPU of a pipeline and of the rival that its user has at hand, on the same file, in one run.

    python -m benchmarks.rival_cost [--rows 10000] [--only keywords bags ...]

Each pipeline draws a file from its own model and runs on it by its command with its defaults; the
rival reads the same file and does its fit and its predictions, both in a process of their own, with
imports. The pipelines also choose, check on held-out rows and write a report, which rivals do not.
Topics (the example of an own model) and a Gaussian mixture are fits alone, as many sweeps of each.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy.sparse import csr_matrix
from scipy.special import digamma

from benchmarks.harness import head, row, seconds
from flows.catalogue import pipeline_named
from vbmodels.core.fit import fit

GIVEN = {"variants": ["--set", "control=control"]}
SWEEPS = 50


def keywords(file: str) -> None:
    """YAKE, twenty words of each document."""
    from yake import KeywordExtractor

    extractor = KeywordExtractor(lan="en", n=1, top=20)
    for tokens in pq.read_table(file)["tokens"].to_pylist():
        extractor.extract_keywords(" ".join(tokens))


def bags(file: str) -> None:
    """Boosted trees on instances with their bag's label, a bag's mean: five folds and a fit."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    table = pq.read_table(file).to_pandas()
    for name in sorted(set(table["modality"])):
        part = table[table["modality"] == name]
        x, label = np.stack(part["features"]), part["label"].to_numpy()
        bag = np.unique(part["bag_id"], return_inverse=True)[1]
        for fold in (*range(5), -1):
            kept = bag % 5 != fold
            model = HistGradientBoostingClassifier(early_stopping=True).fit(x[kept], label[kept])
            chance = model.predict_proba(x)[:, 1]
            np.bincount(bag, chance)


def variants(file: str) -> None:
    """Fisher's exact test of the pooled reads of each location and allele."""
    from scipy.stats import fisher_exact

    table = pq.read_table(file).to_pandas()
    pooled = table.groupby(["chrom", "pos", "ref", "sample"])[list("ACGT")].sum()
    for (*_, ref), both in pooled.groupby(["chrom", "pos", "ref"]):
        for allele in set("ACGT") - {ref}:
            reads = both[allele].to_numpy()
            fisher_exact(np.stack([reads, both.to_numpy().sum(1) - reads]))


def features(file: str) -> None:
    """Latent classes by EM from some starts, their number by BIC."""
    from vbmodels.features.rivals import by_bic

    table = pq.read_table(file).to_pandas().set_index("id")
    codes = [table[name].factorize()[0][:, None] for name in table]  # -1 where missing
    levels = np.array([one.max() + 1 for one in codes])
    blocks = [one == np.arange(size) for one, size in zip(codes, levels, strict=True)]
    by_bic(np.concatenate(blocks, axis=1).astype(float), levels, 0)


def experts(file: str) -> None:
    """Boosted trees: five folds and a fit."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import cross_val_predict

    table = pq.read_table(file).to_pandas().set_index("id").dropna(subset="label")
    x, label = table.drop(columns="label").to_numpy(), table["label"].to_numpy()
    model = HistGradientBoostingClassifier(early_stopping=True)
    cross_val_predict(model, x, label, cv=5, method="predict_proba")
    model.fit(x, label).predict_proba(x)


RIVALS: dict[str, Callable[[str], None]] = {
    "keywords": keywords, "bags": bags, "variants": variants, "features": features,
    "experts": experts,
}  # fmt: skip


def taken(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a call gives, and its CPU seconds."""
    began = time.process_time()
    return work(), time.process_time() - began


def topics(rows: int) -> str:
    """Return CPU and perplexity of topics, ours and scikit-learn's, both in batch."""
    from sklearn.decomposition import LatentDirichletAllocation

    sys.path.append("examples/vbflows_lda")
    from vbflows_lda.documents import Documents
    from vbflows_lda.model import Topics

    rng = np.random.default_rng(0)
    chance = rng.dirichlet(np.full(20, 0.1), rows) @ rng.dirichlet(np.full(2000, 0.05), 20)
    counts = csr_matrix(np.stack([rng.multinomial(120, p) for p in chance]).astype(float))
    parts = [
        Documents(part.indices.astype(np.int64), part.data, part.indptr.astype(np.int64), 2000)
        for part in (counts[i : i + 2500] for i in range(0, rows, 2500))
    ]
    fit(Topics(), parts, max_iter=2)  # compiles
    theirs = LatentDirichletAllocation(
        20, doc_topic_prior=0.1, topic_word_prior=0.05, max_iter=SWEEPS, random_state=0
    )
    found, cpu = taken(lambda: fit(Topics(), parts, max_iter=SWEEPS).q.lam)
    _, their_cpu = taken(lambda: theirs.fit(counts))
    before = theirs.perplexity(counts)
    theirs.components_ = found
    theirs.exp_dirichlet_component_ = np.exp(digamma(found) - digamma(found.sum(1))[:, None])
    what = f"scikit-learn; perplexity {theirs.perplexity(counts):.1f} and {before:.1f}"
    return f"| {SWEEPS} sweeps of topics | {rows:,} | {cpu:.1f} | {their_cpu:.1f} | {what} |"


def mixture(rows: int) -> str:
    """Return CPU of a Gaussian mixture of five components, ours and scikit-learn's."""
    from sklearn.mixture import BayesianGaussianMixture

    sys.path.append("examples")
    from mixture import Mixture, Rows

    rng = np.random.default_rng(0)
    centres = 2.0 * rng.standard_normal((5, 10))
    x = rng.standard_normal((10 * rows, 10)) + centres[rng.integers(0, 5, 10 * rows)]
    x = (x - x.mean(0)) / x.std(0)
    parts = [Rows(part) for part in np.array_split(x, 4)]
    theirs = BayesianGaussianMixture(n_components=5, tol=0.0, max_iter=SWEEPS, random_state=0)
    done, cpu = taken(lambda: fit(Mixture(5), parts, tol=1e-15, max_iter=SWEEPS))
    _, their_cpu = taken(lambda: theirs.fit(x))
    ours, other = cpu / done.iterations, their_cpu / theirs.n_iter_
    return f"| a sweep of a mixture | {10 * rows:,} | {ours:.3f} | {other:.3f} | scikit-learn |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", default=[*RIVALS, "topics", "mixture"])
    parser.add_argument("--rival", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rival:
        name, file = given.rival
        RIVALS[name](file)
        return
    print(head(["", "rows", "ours, CPU s", "rival, CPU s", "rival"]), flush=True)
    for name in (name for name in RIVALS if name in given.only):
        with tempfile.TemporaryDirectory() as folder:
            [small, *_] = pipeline_named(name).simulate(f"{folder}/small", 100, 1)
            [file, *_] = pipeline_named(name).simulate(f"{folder}/large", given.rows, 1)
            run = [sys.executable, "-m", "flows.entry", name]
            seconds([*run, small, f"{folder}/compiled", *GIVEN.get(name, [])])
            ours, _ = seconds([*run, file, f"{folder}/out", *GIVEN.get(name, [])])
            rival = [sys.executable, "-m", "benchmarks.rival_cost", "--rival", name, file]
            their, _ = seconds(rival)
        what = str(RIVALS[name].__doc__).rstrip(".")
        print(row([name, f"{given.rows:,}", f"{ours:.1f}", f"{their:.1f}", what]), flush=True)
    for example in (topics, mixture):
        if example.__name__ in given.only:
            print(example(given.rows), flush=True)


if __name__ == "__main__":
    main()
