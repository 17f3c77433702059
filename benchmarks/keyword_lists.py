"""Lists of keyphrases as people give them: drawn from all gold phrases, candidates or not.

    python -m benchmarks.keyword_lists [--corpora hulth,kdd,...] [--seeds 0,1,2] [--documents 500]

The estimator is given 28 % of each list, or the whole lists of 20 documents, with the mean number
of keyphrases and without it; the prior is that of the nine other corpora. Scored is what is not
listed, of documents whose list is not whole: the precision of what is selected, and of what has a
probability above .5, expected and real; ECE in ten bins; precision of each document's ten best; F
of the selection; "rate" is the fitted share of keyphrases over the true one.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks import keyword_prior
from benchmarks.harness import DATA, calibration_error, head
from benchmarks.prior_learning import LabelledCorpus, learn_prior, read_corpus, whole_corpus
from vbmodels.estimators.keywords import KeywordExtractor
from vbmodels.keywords.learnt_prior import LearntPrior

CORPORA = ("hulth", "semeval2017", "kdd", "wikinews_fr", "110pt")


def listed(
    corpus: LabelledCorpus, case: str, number: bool, seed: int, prior: LearntPrior
) -> dict[str, float]:
    """Give the estimator lists, and return the figures of what is not listed."""
    rng = np.random.default_rng([seed, 7])
    gold = [list(dict.fromkeys(term.lower() for term in one)) for one in corpus.keywords]
    size = len(gold)
    whole = np.zeros(size, bool)
    if case == "whole":
        whole[rng.choice(size, min(20, size // 2), replace=False)] = True
        lists = [one if all_of_it else None for one, all_of_it in zip(gold, whole, strict=True)]
    else:
        lists = [[term for term in one if rng.random() < 0.28] for one in gold]
    mean = float(np.mean([len(one) for one in gold])) if number else None
    language = keyword_prior.LANGUAGES.get(corpus.name, "english")
    found = KeywordExtractor(language=language, prior=prior, keyphrases=mean, n_partitions=1)
    found.fit(corpus.texts, lists, complete=whole, ids=[str(d) for d in range(size)])
    read = read_corpus(corpus)
    spans, numbers = read.part.read.spans, read.part.documents
    rows = read.phrases
    truth = set(zip(numbers[spans.document[rows]].tolist(), spans.key[rows].tolist(), strict=True))
    every = found._fitted  # with the numbers of the candidates
    document, key = np.array(every["document"]), every["key"].tolist()
    at = ~every["observed"] & ~whole[document]
    true = np.array([pair in truth for pair in zip(document.tolist(), key, strict=True)])[at]
    r, chosen, own = every["probability"][at], every["selected"][at], document[at]
    order = np.lexsort((-r, own))
    place = np.arange(len(order)) - np.searchsorted(own[order], own[order])
    ten = order[place < 10]
    pairs = zip(gold, lists, whole, strict=True)
    hidden = sum(len(one) - len(known or ()) for one, known, all_of_it in pairs if not all_of_it)
    sure = r > 0.5
    true_rate = float(rows[~whole[numbers[spans.document]]].mean())
    return {
        "selected": float(chosen.sum()),
        "expected": float(r[chosen].sum()),
        "real": float(true[chosen].sum()),
        "sure": float(sure.sum()),
        "sure expected": float(r[sure].sum()),
        "sure real": float(true[sure].sum()),
        "ECE": calibration_error(r, true),
        "P@10": float(true[ten].sum() / (10 * (~whole).sum())),
        "F": float(2 * true[chosen].sum() / (chosen.sum() + hidden)),
        "rate": float(found.keyword_rate_ / true_rate),
    }


def line(name: str, draws: list[dict[str, float]]) -> str:
    """Return the row of a corpus: means over draws, and precisions over all that is in them."""
    total = {key: sum(one[key] for one in draws) for key in draws[0]}
    mean = {key: value / len(draws) for key, value in total.items()}
    selected, sure = max(total["selected"], 1.0), max(total["sure"], 1.0)
    above = f"{total['sure expected'] / sure:.3f} / {total['sure real'] / sure:.3f}"
    cells = [
        f"{total['expected'] / selected:.3f} / {total['real'] / selected:.3f}",
        f"{mean['sure']:.0f}, {above}",
        *(f"{mean[key]:.3f}" for key in ("ECE", "P@10", "F", "rate")),
    ]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Print a table for each form of lists."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA / "keywords")
    parser.add_argument("--corpora", default=",".join(CORPORA))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--documents", type=int, default=500, help="the first N of each corpus")
    given = parser.parse_args()
    names, seeds = given.corpora.split(","), [int(seed) for seed in given.seeds.split(",")]
    with threadpool_limits(1):
        learnt = {
            name: whole_corpus(keyword_prior.load(name, given.data, 250))
            for name in keyword_prior.KINDS
        }
        priors = {
            name: learn_prior([one for other, one in learnt.items() if other != name])
            for name in names
        }
        corpora = {name: keyword_prior.load(name, given.data, given.documents) for name in names}
        for case, number in product(("28 %", "whole"), (False, True)):
            print(f"\n## {case}, {'the true number given' if number else 'no number given'}\n")
            print(head(["", "selected: expected, real", "above .5: n, expected, real", "ECE",
                        "P@10", "F", "rate"]))  # fmt: skip
            for name in names:
                draws = [listed(corpora[name], case, number, s, priors[name]) for s in seeds]
                print(line(name, draws), flush=True)


if __name__ == "__main__":
    main()
