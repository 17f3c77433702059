"""CPU of a run: of a pipeline and of its user's rival on the same file, and of a night of cases.

    python -m benchmarks.cost rivals [--rows 10000] [--only keywords bags ...]
    python -m benchmarks.cost night [--cases 20] [--positions 150] [--depth 1000]

rivals  Each pipeline draws a file from its own model and runs on it by its command with its
        defaults; the rival reads the same file and does its fit and its predictions, both in a
        process of their own, with imports. The pipelines also choose, check on held-out rows and
        write a report, which rivals do not. Topics (the example of an own model) and a Gaussian
        mixture are fits alone, as many sweeps of each.
night   Cases of variants that share a control: one amplicon, a BAM of each case and of the control,
        one allele of 5 % in each case. CPU seconds of whole commands, their workers' included: one
        case alone; all cases in one run; the same again with three cases more and `--since latest`.
        Prints a line each, and the CPU seconds of a further case.

Kernels are compiled by small runs before.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pysam
from scipy.sparse import csr_matrix
from scipy.special import digamma

from benchmarks.harness import head, row, seconds
from flows.catalogue import pipeline_named
from vbmodels.core.fit import fit

COMMAND = [sys.executable, "-m", "flows.entry"]
GIVEN = {"variants": ["--set", "control=control"]}
SWEEPS = 50

# The rivals: each reads a file, fits and predicts.


def keywords(file: str) -> None:
    """YAKE, twenty words of each document."""
    from yake import KeywordExtractor

    extractor = KeywordExtractor(lan="en", n=1, top=20)
    for tokens in pq.read_table(file)["tokens"].to_pylist():
        extractor.extract_keywords(" ".join(tokens))


def bags(file: str) -> None:
    """Boosted trees on instances with their bag's label, a bag's mean: five folds and a fit."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    table = pd.read_parquet(file)
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

    table = pd.read_parquet(file)
    pooled = table.groupby(["chrom", "pos", "ref", "sample"])[list("ACGT")].sum()
    for (*_, ref), both in pooled.groupby(["chrom", "pos", "ref"]):
        for allele in set("ACGT") - {ref}:
            reads = both[allele].to_numpy()
            fisher_exact(np.stack([reads, both.to_numpy().sum(1) - reads]))


def features(file: str) -> None:
    """Latent classes by EM from some starts, their number by BIC."""
    from vbmodels.features.rivals import by_bic

    table = pd.read_parquet(file).set_index("id")
    codes = [table[name].factorize()[0][:, None] for name in table]  # -1 where missing
    levels = np.array([one.max() + 1 for one in codes])
    blocks = [one == np.arange(size) for one, size in zip(codes, levels, strict=True)]
    by_bic(np.concatenate(blocks, axis=1).astype(float), levels, 0)


def experts(file: str) -> None:
    """Boosted trees: five folds and a fit."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import cross_val_predict

    table = pd.read_parquet(file).set_index("id").dropna(subset="label")
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
    name = f"{SWEEPS} sweeps of topics"
    return row([name, f"{rows:,}", f"{cpu:.1f}", f"{their_cpu:.1f}", what])


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
    each = [f"{cpu / done.iterations:.3f}", f"{their_cpu / theirs.n_iter_:.3f}"]
    return row(["a sweep of a mixture", f"{10 * rows:,}", *each, "scikit-learn"])


def compare(given: argparse.Namespace) -> None:
    """Print the CPU of every pipeline and of its rival."""
    print(head(["", "rows", "ours, CPU s", "rival, CPU s", "rival"]), flush=True)
    for name in (name for name in RIVALS if name in given.only):
        with tempfile.TemporaryDirectory() as folder:
            [small, *_] = pipeline_named(name).simulate(f"{folder}/small", 100, 1)
            [file, *_] = pipeline_named(name).simulate(f"{folder}/large", given.rows, 1)
            run = [*COMMAND, name]
            seconds([*run, small, f"{folder}/compiled", *GIVEN.get(name, [])])
            ours, _ = seconds([*run, file, f"{folder}/out", *GIVEN.get(name, [])])
            rival = [sys.executable, "-m", "benchmarks.cost", "rival", name, file]
            their, _ = seconds(rival)
        what = str(RIVALS[name].__doc__).rstrip(".")
        print(row([name, f"{given.rows:,}", f"{ours:.1f}", f"{their:.1f}", what]), flush=True)
    for example in (topics, mixture):
        if example.__name__ in given.only:
            print(example(given.rows), flush=True)


# A night of cases.

READ, ERROR = 75, 0.001


def write_bam(
    path: Path, reference: np.ndarray, depth: int, rng: np.random.Generator, allele: int | None
) -> None:
    """Write single reads of an amplicon, of which a share of .05 carries an allele."""
    length = len(reference)
    header = pysam.AlignmentHeader.from_dict(
        {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": "amplicon", "LN": length}]}
    )
    letters = np.array(list("ACGT"))
    with pysam.AlignmentFile(str(path), "wb", header=header) as file:
        starts = np.sort(rng.integers(0, length - READ + 1, depth * length // READ))
        for i, start in enumerate(starts.tolist()):
            codes = reference[start : start + READ].copy()
            wrong = np.flatnonzero(rng.random(READ) < ERROR)
            codes[wrong] = (codes[wrong] + rng.integers(1, 4, len(wrong))) % 4
            if allele is not None and 0 <= allele - start < READ and rng.random() < 0.05:
                codes[allele - start] = (reference[allele] + 1) % 4
            read = pysam.AlignedSegment(header)
            read.query_name, read.query_sequence = f"r{i}", "".join(letters[codes])
            read.flag, read.reference_id, read.reference_start = 16 * (i % 2), 0, start
            read.mapping_quality, read.cigarstring = 60, f"{READ}M"
            read.query_qualities = pysam.qualitystring_to_array("F" * READ)
            file.write(read)
    pysam.index(str(path))


def write_sheet(folder: Path, cases: int) -> str:
    """Write a sheet of the first cases and the control; return its path."""
    lines = ["sample,path,role", "control,control.bam,control"]
    lines += [f"case{c},case{c}.bam,case" for c in range(cases)]
    sheet = folder / f"samples-{cases}.csv"
    sheet.write_text("\n".join(lines) + "\n")
    return str(sheet)


def night(given: argparse.Namespace) -> None:
    """Print the seconds of one case, of a night of cases, and of three more."""
    rng, n = np.random.default_rng(0), given.positions
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        reference = rng.integers(0, 4, n)
        text = "".join("ACGT"[code] for code in reference)
        (folder / "reference.fa").write_text(f">amplicon\n{text}\n")
        pysam.faidx(str(folder / "reference.fa"))
        write_bam(folder / "control.bam", reference, given.depth, rng, None)
        for c in range(given.cases + 3):
            write_bam(folder / f"case{c}.bam", reference, given.depth, rng, (10 + 7 * c) % n)

        def run(cases: int, target: str, *options: str) -> tuple[float, float]:
            sheet = write_sheet(folder, cases)
            words = [*COMMAND, "variants", sheet, str(folder / target), *options]
            return seconds(words, threads=None)

        run(1, "warm1")
        run(2, "warm2")
        alone = run(1, "alone")
        together = run(given.cases, "night", "--since", "latest")
        more = run(given.cases + 3, "night", "--since", "latest")
    for what, (cpu, wall) in (
        ("one case", alone), (f"{given.cases} cases", together),
        ("3 cases more, --since latest", more),
    ):  # fmt: skip
        print(f"{what}: {cpu:.2f} CPU s, {wall:.1f} s")
    print(f"a further case: {(together[0] - alone[0]) / (given.cases - 1):.2f} CPU s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(required=True)
    of = kinds.add_parser("rivals")
    of.add_argument("--rows", type=int, default=10_000)
    of.add_argument("--only", nargs="*", default=[*RIVALS, "topics", "mixture"])
    of.set_defaults(run=compare)
    of = kinds.add_parser("rival", help="what `rivals` runs in a process of its own")
    of.add_argument("name", choices=RIVALS)
    of.add_argument("file")
    of.set_defaults(run=lambda given: RIVALS[given.name](given.file))
    of = kinds.add_parser("night")
    of.add_argument("--cases", type=int, default=20)
    of.add_argument("--positions", type=int, default=150)
    of.add_argument("--depth", type=int, default=1000)
    of.set_defaults(run=night)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
