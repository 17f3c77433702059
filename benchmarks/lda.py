"""Topics of documents beside scikit-learn, gensim and Spark: CPU to the same held-out perplexity.

    python -m benchmarks.lda [--corpora texts simulated] [--topics 20] [--documents 10000]
    python -m benchmarks.lda --corpora docstrings simulated --documents 100000 --online

The example package `vbflows_lda`, `LatentDirichletAllocation`, batch and online, gensim's
`LdaModel` and Spark MLlib's online `LDA`, with the same priors, on the texts of the shared data, on
the docstrings of the Python packages that are installed (some 10^5 in a developer's environment)
and on simulated documents. A tenth of the documents is held out; of each, half of the words fold it
in and the other half is predicted (document completion), by the same function for all. Values are
log densities a word: perplexity is exp(-value). What is not installed is left out with a word.
"""

from __future__ import annotations

import argparse
import ast
import sys
import sysconfig
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from scipy import sparse
from sklearn.decomposition import LatentDirichletAllocation
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "vbflows_lda"))

from vbflows_lda import kernels  # noqa: E402
from vbflows_lda.documents import Documents  # noqa: E402
from vbflows_lda.model import Topics  # noqa: E402
from vbflows_lda.simulate import simulate  # noqa: E402
from vbflows_lda.vocabulary import WORD, chosen  # noqa: E402

from benchmarks import beside, spark  # noqa: E402
from vbmodels.core.cavi import cavi  # noqa: E402
from vbmodels.core.memoised import Memoised  # noqa: E402
from vbmodels.core.state import FloatArray  # noqa: E402

ALPHA, ETA = 0.1, 0.05
PASSES = (4, 8, 16, 24)
TEXTS = ("hulth", "110pt", "kdd", "semeval2017")
"""Files with English texts."""


def texts(folder: Path) -> list[str]:
    """Return the real documents of the shared data."""
    return [
        text
        for name in TEXTS
        for text in pq.read_table(folder / f"{name}.parquet", columns=["text"])["text"].to_pylist()
    ]


def docstrings(least: int = 15) -> list[str]:
    """Return the docstrings of this interpreter's packages with so many words, each once."""
    found: dict[str, None] = {}
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    places = [sysconfig.get_path("stdlib"), *(p for p in sys.path if p.endswith("site-packages"))]
    for place in dict.fromkeys(places):
        for file in sorted(Path(place).rglob("*.py")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what other people's code warns of
                try:
                    tree = ast.parse(file.read_bytes())
                except (SyntaxError, ValueError):
                    continue
            for node in ast.walk(tree):
                text = ast.get_docstring(node) if isinstance(node, kinds) else None
                if text and len(text.split()) >= least:
                    found[text] = None
    return list(found)


def counted(documents: Sequence[str], least_documents: int) -> sparse.csr_matrix:
    """Return counts [D, V] of the words of documents, as the package chooses them."""
    from vbflows_lda.settings import TopicSettings

    found = [Counter(WORD.findall(text.lower())) for text in documents]
    settings = TopicSettings(least_documents=least_documents, largest_share=0.2)
    words = chosen([Counter(word for one in found for word in one)], len(found), settings)
    place = {word: i for i, word in enumerate(words)}
    rows, columns, counts = [], [], []
    for d, one in enumerate(found):
        for word, n in one.items():
            if word in place:
                rows.append(d)
                columns.append(place[word])
                counts.append(n)
    return sparse.csr_matrix((counts, (rows, columns)), (len(found), len(words)), dtype=float)


def partition(counts: sparse.csr_matrix) -> Documents:
    """Return counts as a partition."""
    counts = counts.tocsr()
    counts.sort_indices()
    return Documents(
        counts.indices.astype(np.int64), counts.data, counts.indptr.astype(np.int64),
        counts.shape[1],
    )  # fmt: skip


def completion(held: sparse.csr_matrix, rng: np.random.Generator) -> Callable[[FloatArray], float]:
    """Return what tells the log density a word of unseen halves, from topics [K, V]."""
    first = held.copy()
    first.data = rng.binomial(held.data.astype(int), 0.5).astype(float)
    rest = held - first
    seen, unseen = partition(first), partition(rest)

    def value(beta: FloatArray) -> float:
        weights = np.ascontiguousarray((beta / beta.sum(1, keepdims=True)).T)
        cold = np.full((held.shape[0], weights.shape[1]), ALPHA + 1.0)
        gamma = kernels.settle(
            cold[:0], cold, weights, seen.word, seen.count, seen.offsets, ALPHA, 200, 1e-5
        )
        share = gamma / gamma.sum(1, keepdims=True)
        _, total = kernels.collect(share, weights, unseen.word, unseen.count, unseen.offsets)
        return float(total / unseen.count.sum())

    return value


def rival(counts: sparse.csr_matrix, topics: int, seed: int, method: str) -> Callable:
    """Return what fits scikit-learn's model for some passes."""

    def fits(passes: int) -> LatentDirichletAllocation:
        model = LatentDirichletAllocation(
            topics, doc_topic_prior=ALPHA, topic_word_prior=ETA, learning_method=method,
            max_iter=passes, random_state=seed, batch_size=256, learning_offset=10.0,
        )  # fmt: skip
        return model.fit(counts)

    return fits


def gensim_online(counts: sparse.csr_matrix, topics: int, seed: int, chunk: int) -> Callable:
    """Return what fits gensim's model for some passes."""
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LdaModel

    corpus = list(Sparse2Corpus(counts.T.tocsc()))

    def fits(passes: int) -> FloatArray:
        model = LdaModel(
            corpus, topics, id2word={i: str(i) for i in range(counts.shape[1])}, alpha=ALPHA,
            eta=ETA, passes=passes, chunksize=chunk, offset=10.0, decay=0.7, iterations=100,
            eval_every=None, random_state=seed, dtype=np.float64,
        )  # fmt: skip
        return model.state.get_lambda()

    return fits


def spark_online(session: Any, folder: str, counts: sparse.csr_matrix, topics: int) -> Callable:
    """Return what fits Spark's model for some passes of twenty steps each."""
    from pyspark.ml.clustering import LDA

    rows = spark.cached(session, folder, "documents", counts)

    def fits(seed: int, passes: int) -> FloatArray:
        model = LDA(
            k=topics, maxIter=20 * passes, seed=seed, optimizer="online", subsamplingRate=0.05,
            docConcentration=[ALPHA], topicConcentration=ETA, learningOffset=10.0,
            learningDecay=0.7,
        )  # fmt: skip
        return np.asarray(model.fit(rows).topicsMatrix().toArray()).T

    return fits


def head_to_head(counts: sparse.csr_matrix, given: argparse.Namespace) -> str:
    """Return the table for one corpus."""
    rng, topics, seeds, passes = np.random.default_rng(0), given.topics, given.seeds, given.passes
    order = rng.permutation(counts.shape[0])
    cut = counts.shape[0] // 10
    value = completion(counts[order[:cut]], rng)
    train = counts[order[cut:]]
    batches = [partition(train[part]) for part in np.array_split(np.arange(train.shape[0]), 8)]
    model = Topics(topics, ALPHA, ETA)
    beside.ours(model, batches[:1], lambda q: value(q.lam), seed=0, sweeps=1)  # compiles

    def of_ours(seed: int, loop: object = None) -> beside.Curve:
        return beside.ours(
            model, batches, lambda q: value(q.lam), seed=seed, sweeps=given.sweeps, loop=loop
        )

    def of_rival(seed: int, method: str) -> beside.Curve:
        fits = rival(train, topics, seed, method)
        return beside.anew(fits, passes, lambda fitted: value(fitted.components_))

    curves = {"vbflows_lda, memoised": [of_ours(seed, Memoised()) for seed in range(seeds)]}
    if not given.online:
        curves["vbflows_lda, squarem"] = [of_ours(seed) for seed in range(seeds)]
        curves["vbflows_lda, cavi"] = [of_ours(seed, cavi) for seed in range(seeds)]
        curves["scikit-learn, batch"] = [of_rival(seed, "batch") for seed in range(seeds)]
    curves["scikit-learn, online"] = [of_rival(seed, "online") for seed in range(seeds)]
    if not beside.absent("gensim"):
        for chunk in (256,) if given.online else (256, 2000):
            curves[f"gensim, {chunk} at a time"] = [
                beside.anew(gensim_online(train, topics, seed, chunk), passes, value)
                for seed in range(seeds)
            ]
    if not given.spark or beside.absent("pyspark"):
        return beside.compared(curves, within=0.005, unit="nats a held-out word")
    with tempfile.TemporaryDirectory() as folder, spark.session(folder) as session:
        fits = spark_online(session, folder, train, topics)
        fits(0, 1)  # what the virtual machine compiles at first
        curves["Spark MLlib, online"] = [
            beside.anew(partial(fits, seed), passes, value, spark.cpu) for seed in range(seeds)
        ]
    return beside.compared(curves, within=0.005, unit="nats a held-out word")


def corpus(name: str, given: argparse.Namespace) -> sparse.csr_matrix:
    """Return the counts of a corpus."""
    if name == "texts":
        return counted(texts(given.data), 5)
    if name == "docstrings":
        return counted(docstrings(), 20)
    rng = np.random.default_rng(1)
    drawn, _, _ = simulate(rng, given.documents, 2000, given.topics, 80, alpha=0.1, eta=0.02)
    return sparse.csr_matrix(drawn)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--corpora", nargs="+", choices=("texts", "docstrings", "simulated"),
        default=("texts", "simulated"),
    )  # fmt: skip
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--documents", type=int, default=10_000, help="simulated")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--sweeps", type=int, default=24, help="of ours")
    parser.add_argument("--passes", type=int, nargs="+", default=PASSES, help="of the others")
    parser.add_argument("--online", action="store_true", help="leave out what steps by batches")
    parser.add_argument("--spark", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data" / "keywords")
    given = parser.parse_args(arguments)
    for name in beside.absent("gensim", "pyspark"):
        print(f"{name} is not installed and is left out")
    with threadpool_limits(1):
        for name in given.corpora:
            counts = corpus(name, given)
            documents, words = counts.shape
            print(f"\n{name}: {documents:,} documents, {words:,} words, {given.topics} topics")
            print(head_to_head(counts, given), flush=True)


if __name__ == "__main__":
    main()
