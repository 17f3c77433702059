"""The surest words of few labels: are probabilities right there, and could more be selected?

    python -m benchmarks.keyword_top [--data FOLDER] [--corpora ...] [--schemes one,tenth,share]
                                     [--seeds 0,1,2] [--documents 500]

Two forms of the corpus model, told the true rate: coefficients at their mode, and integrated out
(where labels are few; see `vbmodels.keywords.corpus`). For each, over the words that are not known
and pooled over draws: expected and true share of keywords among those with r of .8 to .9 and more;
the corpus-wide selection at a level; and the largest selection whose *realised* false share is at
the level, which only the truth could pick. A form that ranks no better at the top selects no more
at the same realised level, whatever its probabilities. Of a given selection the expected false
share is the mean of 1 - r, linear in the probabilities: their joint posterior has the same one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.keyword_corpora import LANGUAGES, SHARED, draw, load, short
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus import CorpusProbit

LEVEL = 0.1
BINS = ((0.8, 0.9), (0.9, 1.1))


def counts(r: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return (words, sum of r, keywords) of each bin, (words, keywords) of both selections."""
    found = []
    for low, high in BINS:
        own = (r >= low) & (r < high)
        found += [own.sum(), r[own].sum(), true[own].sum()]
    order = np.argsort(-r, kind="stable")
    places = np.arange(1, len(r) + 1)
    for false in (np.cumsum(1.0 - r[order]) / places, np.cumsum(~true[order]) / places):
        fits = np.flatnonzero(false <= LEVEL)
        size = fits[-1] + 1 if len(fits) else 0
        found += [size, true[order[:size]].sum()]
    return np.array(found, float)


def row(total: np.ndarray) -> str:
    """Return one line of the table."""
    bins = [
        f"{short(r / max(n, 1))} / {short(t / max(n, 1))} ({n:.0f})"
        for n, r, t in total[:6].reshape(2, 3)
    ]
    chosen, true, most, _ = total[6:]
    return " | ".join([*bins, f"{chosen:.0f}", short(1.0 - true / max(chosen, 1)), f"{most:.0f}"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both forms and write Markdown to stdout."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the Parquet files")
    parser.add_argument("--corpora", default=",".join(LANGUAGES))
    parser.add_argument("--schemes", default="one,tenth,share")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--documents", type=int, default=500, help="the first N of each corpus")
    given = parser.parse_args(arguments)
    sys.stdout.write(
        "| | r of .8 to .9: expected / true (words) | r above .9 | selected at .1 | false | "
        "most at a realised .1 |\n" + "|---" * 6 + "|\n"
    )
    for name in given.corpora.split(","):
        corpus = load(name, given.data, given.documents)
        for scheme in given.schemes.split(","):
            total = {"mode": np.zeros(10), "integrated out": np.zeros(10)}
            for seed in map(int, given.seeds.split(",")):
                task = draw(corpus, scheme, seed)
                model = CorpusProbit(keyword_rate=task.rate)
                q = fit(model, [task.batch]).q
                many = replace(q, law=replace(q.law, listed=np.inf))
                for form, at in (("mode", many), ("integrated out", q)):
                    r = model.probabilities(at, task.batch, None)[task.scored]
                    total[form] += counts(r, task.truth[task.scored])
            for form, one in total.items():
                sys.stdout.write(f"| {name}, {scheme}, {form} | {row(one)} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
