"""Keyword methods over levels of the false discovery rate, selected as the text selects.

Methods with probabilities select by their own Bayesian false discovery rate. The others get,
as in section 1.4 of the text, the same share of each document's words as ours selects over the
whole corpus: ours being the corpus model. Observed words count as
selected everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from reproduce.keyword_methods import FORMS, LEVELS, SHARED, Corpus, Task, draw, figures, load
from reproduce.page import Table, canvas, mean_se, number
from vbmodels.keywords.selection import select_by_fdr, select_share

OURS = ("corpus", "full", "mean_field", "as_printed")
RIVALS = (
    "logistic regression, same features",
    "ss",
    "textrank",
    "TF-IDF (scikit-learn)",
    "YAKE (PyPI)",
)
SHOWN = {
    "logistic regression, same features": "logistic",
    "ss": "SS",
    "textrank": "TextRank",
    "TF-IDF (scikit-learn)": "TF-IDF",
    "YAKE (PyPI)": "YAKE",
}
PACKAGES = ("numpy", "scipy", "scikit-learn", "yake")


@dataclass(frozen=True)
class Study:
    """One task and the scores [W] of every method a seed; CPU seconds of each method a seed."""

    tasks: list[Task]
    scores: list[dict[str, np.ndarray]]
    seconds: dict[str, list[float]]

    def measures(self, name: str, level: int) -> np.ndarray:
        """Return precision, recall and F [seeds, 3] at a level."""
        rows = []
        for task, scores in zip(self.tasks, self.scores, strict=True):
            rows.append(figures(task, chosen(task, scores, name, LEVELS[level]))[:3])
        return np.array(rows)

    def at_share(self, name: str, precision: float, recall: float) -> list[float]:
        """Return F a seed where as many words are selected as published P and R imply."""
        found = []
        for task, scores in zip(self.tasks, self.scores, strict=True):
            share = recall / precision * task.n_gold / task.batch.n_words
            taken = select_share(scores[name], task.batch.y, task.batch.offsets, share)
            found.append(figures(task, taken)[2])
        return found


def chosen(task: Task, scores: Mapping[str, np.ndarray], name: str, level: float) -> np.ndarray:
    """Return which words a method selects at a level [W]."""
    y, offsets = task.batch.y, task.batch.offsets
    if FORMS[name].probability:
        return select_by_fdr(scores[name], y, offsets, level)
    share = float(select_by_fdr(scores["corpus"], y, offsets, level).mean())
    return select_share(scores[name], y, offsets, share)


def corpus_of(name: str, data: Path, documents: int | None) -> Corpus:
    """Read an evaluation set from the folder of the real data."""
    return load(name, data / SHARED.name, documents)


def study(corpus: Corpus, seeds: Sequence[int], names: Sequence[str], observed: int = 5) -> Study:
    """Run methods on draws of the observed words; one that sees no labels runs once."""
    tasks = [draw(corpus, seed, observed=observed) for seed in seeds]
    scores, kept = [], {}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for task in tasks:
        for name in names:
            if name not in kept or FORMS[name].uses_labels:
                begin = time.process_time()
                kept[name] = FORMS[name].run(task)
                seconds[name].append(time.process_time() - begin)
        scores.append(dict(kept))
    return Study(tasks, scores, seconds)


def heading(name: str) -> str:
    """Return a method's heading, its group first."""
    return f"ours {name}" if name in OURS else f"rival {SHOWN[name]}"


def level_table(
    found: Study, published: Mapping[str, Sequence[float]], measure: int, caption: str
) -> Table:
    """Tabulate one measure over the levels: published columns, ours and the rivals'."""
    names = list(found.seconds)
    rows = []
    for i, level in enumerate(LEVELS):
        theirs = [number(values[i]) for values in published.values()]
        mine = [mean_se(found.measures(name, i)[:, measure]) for name in names]
        rows.append((number(level, 2), *theirs, *mine))
    columns = ("level", *(f"published {p}" for p in published), *map(heading, names))
    return Table(caption, columns, tuple(rows))


def size_table(
    found: Study, precision: Sequence[float], recall: Sequence[float], measure: Sequence[float]
) -> Table:
    """Tabulate F of every method at the sizes that the published VBSS selected."""
    names, rows = list(found.seconds), []
    task = found.tasks[0]
    for i, level in enumerate(LEVELS):
        share = recall[i] / precision[i] * task.n_gold / task.batch.n_words
        mine = [mean_se(found.at_share(name, precision[i], recall[i])) for name in names]
        rows.append((number(level, 2), f"{share:.1%}", number(measure[i]), *mine))
    return Table(
        "F with as many words as the published VBSS selected: share = R / P x keywords / words. "
        "Every method ranks; no level is involved.",
        ("level", "share of words", "published VBSS", *map(heading, names)),
        tuple(rows),
    )


def level_figure(found: Study, published: Mapping[str, Sequence[float]]) -> Figure:
    """Draw F against the level: published dashed, ours solid, rivals dotted."""
    figure = canvas(1, 1, 7.0, 4.2)
    (axes,) = figure.axes
    for name, values in published.items():
        axes.plot(LEVELS, values, "--", marker="x", label=f"published {name}")
    for name in found.seconds:
        values = [found.measures(name, i)[:, 2].mean() for i in range(len(LEVELS))]
        axes.plot(LEVELS, values, "-" if name in OURS else ":", marker="o", label=heading(name))
    axes.set_xlabel("level of the false discovery rate")
    axes.set_ylabel("F")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def seconds_said(found: Study) -> str:
    """Return one sentence on what each method took."""
    shown = [f"{name} {np.mean(values):.2f} s" for name, values in found.seconds.items() if values]
    return "CPU seconds of one draw over all documents: " + ", ".join(shown) + "."
