"""VBSS: tables 1.5 and A.1.2, figures 1.2 to 1.4.

Methods with probabilities select by their own Bayesian false discovery rate. The others get, as
in section 1.4 of the text, the same share of each document's words as ours selects over the whole
corpus: ours being the corpus model. Observed words count as selected everywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from reproduce.keyword_documents import fit_documents, select_share, take_documents
from reproduce.page import NOT_SAID, Page, canvas, mean_se, number, published, table
from reproduce.vbss_bss import BSS, bss
from reproduce.vbss_gibbs import sample_documents
from reproduce.vbss_methods import METHODS, WITHOUT_LABELS, Corpus, Task, draw, load
from vbmodels.core.fit import fit
from vbmodels.keywords.corpus.model import CorpusProbit
from vbmodels.keywords.selection import select_by_fdr
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss.model import VBSS

LEVELS = (0.05, 0.10, 0.15, 0.20, 0.25, 0.30)
MEASURES = ("precision", "recall", "F")


@dataclass(frozen=True)
class Study:
    """One task and the scores [W] of every method a seed; CPU seconds of each method a seed."""

    tasks: list[Task]
    scores: list[dict[str, np.ndarray]]
    seconds: dict[str, list[float]]

    def measures(self, name: str, measure: str = "F") -> np.ndarray:
        """Return a measure by level, [seeds, levels]."""
        at = MEASURES.index(measure)
        return np.array([
            [task.figures(chosen(task, scores, name, level))[at] for level in LEVELS]
            for task, scores in zip(self.tasks, self.scores, strict=True)
        ])  # fmt: skip

    def at_share(self, name: str, precision: float, recall: float) -> list[float]:
        """Return F a seed where as many words are selected as published P and R imply."""
        found = []
        for task, scores in zip(self.tasks, self.scores, strict=True):
            share = recall / precision * task.n_gold / task.batch.n_words
            taken = select_share(scores[name], task.batch.y, task.batch.offsets, share)
            found.append(task.figures(taken)[2])
        return found


def chosen(task: Task, scores: Mapping[str, np.ndarray], name: str, level: float) -> np.ndarray:
    """Return which words a method selects at a level [W]."""
    y, offsets = task.batch.y, task.batch.offsets
    if name.startswith("ours"):
        return select_by_fdr(scores[name], y, offsets, level)
    share = float(select_by_fdr(scores["ours corpus"], y, offsets, level).mean())
    return select_share(scores[name], y, offsets, share)


def study(corpus: Corpus, seeds: Sequence[int], names: Sequence[str], observed: int = 5) -> Study:
    """Run methods on draws of the observed words; one that sees no labels runs once."""
    tasks = [draw(corpus, seed, observed) for seed in seeds]
    scores, kept = [], {}
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for task in tasks:
        for name in names:
            if name not in kept or name not in WITHOUT_LABELS:
                begin = time.process_time()
                kept[name] = METHODS[name](task)
                seconds[name].append(time.process_time() - begin)
        scores.append(dict(kept))
    return Study(tasks, scores, seconds)


def papers_published() -> dict[str, pd.DataFrame]:
    """Return table 1.5: of each measure the methods' figures over the levels."""
    columns = ("level", "VBSS", "SS", "TR", "TpR", "MR", "PosR", "TF-IDF", "KPMiner", "YAKE")
    tables = published("vbss-table-1.5")
    return {m: pd.DataFrame(t, columns=columns) for m, t in zip(MEASURES, tables, strict=True)}


def abstracts_published() -> dict[str, pd.DataFrame]:
    """Return table A.1.2, as `papers_published`."""
    (rows,) = published("vbss-table-a.1.2")
    return {
        m: pd.DataFrame({"VBSS": rows[2 * i], "BSS": rows[2 * i + 1]})
        for i, m in enumerate(MEASURES)
    }


def level_table(found: Study, theirs: pd.DataFrame, measure: str = "F") -> str:
    """Return one measure over the levels: published columns, ours and the rivals'."""
    mine = [found.measures(name, measure) for name in found.seconds]
    rows = [
        (number(level, 2), *map(number, theirs.loc[i]), *(mean_se(own[:, i]) for own in mine))
        for i, level in enumerate(LEVELS)
    ]
    return table(("level", *(f"published {p}" for p in theirs), *found.seconds), rows)


def size_table(found: Study, theirs: Mapping[str, pd.DataFrame]) -> str:
    """Return F of every method at the sizes that the published VBSS selected."""
    task, rows = found.tasks[0], []
    for i, level in enumerate(LEVELS):
        p, r, f = (theirs[m]["VBSS"][i] for m in MEASURES)
        share = r / p * task.n_gold / task.batch.n_words
        mine = [mean_se(found.at_share(name, p, r)) for name in found.seconds]
        rows.append((number(level, 2), f"{share:.1%}", number(f), *mine))
    return table(("level", "share of words", "published VBSS", *found.seconds), rows)


def style(name: str) -> str:
    """Return how a method's line is drawn."""
    return "-" if name.startswith("ours") else ":"


def level_figure(found: Study, theirs: pd.DataFrame) -> Figure:
    """Draw F against the level: published dashed, ours solid, rivals dotted."""
    figure = canvas(1, 1, 7.0, 4.2)
    (axes,) = figure.axes
    for name in theirs:
        axes.plot(LEVELS, theirs[name], "--", marker="x", label=f"published {name}")
    for name in found.seconds:
        axes.plot(LEVELS, found.measures(name).mean(0), style(name), marker="o", label=name)
    axes.set_xlabel("level of the false discovery rate")
    axes.set_ylabel("F")
    axes.legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def panels(
    x: Any, f: Mapping[str, np.ndarray], label: str, crosses: pd.Series | None = None
) -> Figure:
    """Draw F [x, levels] of methods, one panel a level; crosses are published with 5 words."""
    figure = canvas(3, 2, 3.2, 2.8)
    for i, (axes, level) in enumerate(zip(figure.axes, LEVELS, strict=True)):
        for name, values in f.items():
            axes.plot(x, values[:, i], style(name), marker="o", label=name)
        if crosses is not None:
            axes.plot([5], [crosses[i]], "kx", label="published VBSS (table 1.5)")
            axes.set_xticks(x)
        axes.set_title(f"level {level:g}", fontsize=9)
    figure.axes[0].legend(fontsize=6)
    figure.supxlabel(label)
    figure.supylabel("F")
    return figure


def level_page(
    found: Study, theirs: Mapping[str, pd.DataFrame], kept: Sequence[str]
) -> dict[str, Any]:
    """Return what tables 1.5 and A.1.2 share; of precision and recall some published columns."""
    return {
        "seconds": found.seconds, "draws": list(range(len(found.tasks))),
        "f": level_table(found, theirs["F"]), "sizes": size_table(found, theirs),
        "precision": level_table(found, theirs["precision"][[*kept]], "precision"),
        "recall": level_table(found, theirs["recall"][[*kept]], "recall"),
    }  # fmt: skip


def table_1_5(data: Path, quick: bool) -> Page:
    """Run all forms and rivals on the papers."""
    corpus = load("papers", data, 5 if quick else None)
    found = study(corpus, range(1 if quick else 5), [*METHODS])
    shown = ["VBSS", "SS", "TR", "TF-IDF", "KPMiner", "YAKE"]
    theirs = {measure: frame[shown] for measure, frame in papers_published().items()}
    p, r, f = (theirs[m]["VBSS"].iloc[-1] for m in MEASURES)
    values = level_page(found, theirs, ("VBSS", "SS")) | {
        "ours": np.mean(found.at_share("ours corpus", p, r)),
        "ss": np.mean(found.at_share("rival SS", p, r)),
        "vbss": f,
    }
    drawn = level_figure(found, theirs["F"][["VBSS", "SS", "KPMiner"]])
    return Page(values, {"vbss-table-1.5.png": drawn})


def table_a_1_2(data: Path, quick: bool) -> Page:
    """Run all forms and rivals on the abstracts."""
    corpus = load("abstracts", data, 12 if quick else 600)
    found = study(corpus, range(1 if quick else 2), [*METHODS])
    theirs = abstracts_published()
    both = zip(theirs["precision"]["VBSS"], theirs["recall"]["VBSS"], strict=True)
    values = level_page(found, theirs, ("VBSS", "BSS")) | {
        "best": found.measures("ours corpus").mean(0).max(), "theirs": theirs["F"],
        "sizes_f": [np.mean(found.at_share("ours corpus", p, r)) for p, r in both],
    }  # fmt: skip
    return Page(values, {"vbss-table-a.1.2.png": level_figure(found, theirs["F"])})


def figure_1_2(data: Path, quick: bool) -> Page:
    """Run the methods with 3, 5 and 7 observed words of each paper."""
    counts, draws = (3, 5, 7), range(1 if quick else 2)
    names = [name for name in METHODS if name not in ("ours mean_field", "ours as_printed",
                                                      "rival YAKE")]  # fmt: skip
    papers = 120
    corpus = load("papers", data, 3 if quick else papers)
    found = {k: study(corpus, draws, names, k) for k in counts}
    f = {name: np.array([found[k].measures(name) for k in counts]) for name in names}
    theirs = papers_published()["F"][["VBSS", "SS", "TR"]]
    rows = []
    for at, k in enumerate(counts):
        for i, level in enumerate(LEVELS):
            shown = map(number, theirs.loc[i]) if k == 5 else [NOT_SAID] * 3
            mine = [mean_se(f[name][at, :, i]) for name in names]
            rows.append((str(k), number(level, 2), *shown, *mine))
    means = {name: values.mean(1) for name, values in f.items()}
    columns = ("observed", "level", "published VBSS", "published SS", "published TR", *names)
    values: dict[str, object] = {
        "rises": all(np.all(np.diff(own, axis=0) > 0) for own in means.values()),
        "gains": {name: own[-1, -1] - own[0, -1] for name, own in means.items()},
        "counts": table(columns, rows), "papers": papers, "draws": list(draws),
    }  # fmt: skip
    drawn = panels(counts, means, "observed keywords of a document", theirs["VBSS"])
    return Page(values, {"vbss-figure-1.2.png": drawn})


def by_quartile(task: Task) -> list[Task]:
    """Return the task with the documents of one quarter scored, by their share of keywords."""
    sizes = np.diff(task.batch.offsets)
    share = np.add.reduceat(task.truth.astype(float), task.batch.offsets[:-1]) / sizes
    low, middle, high = np.quantile(share, [0.25, 0.5, 0.75])
    inner = np.where(share <= middle, 1, 2)
    group = np.where(share <= low, 0, np.where(share >= high, 3, inner))
    tasks = []
    for g in range(4):
        gold = sum(len(task.corpus.gold[d]) for d in np.flatnonzero(group == g))
        scored = (group == g)[task.batch.document_of_word]
        tasks.append(replace(task, scored=scored, n_gold=gold))
    return tasks


def f_by_group(found: Study, name: str) -> np.ndarray:
    """Return F [seeds, groups, levels]; selection is over all documents, as published."""
    rows = []
    for task, scores in zip(found.tasks, found.scores, strict=True):
        taken = [chosen(task, scores, name, level) for level in LEVELS]
        rows.append([[own.figures(words)[2] for words in taken] for own in by_quartile(task)])
    return np.array(rows)


def figure_1_3(data: Path, quick: bool) -> Page:
    """Run the methods on the papers and score four groups by their share of keywords."""
    draws, groups = range(1 if quick else 2), list("ABCD")
    names = ("ours corpus", "ours full", "rival SS", "rival TextRank", "rival TF-IDF")
    found = study(load("papers", data, 8 if quick else None), draws, names)
    f = {name: f_by_group(found, name) for name in names}
    rows = [
        (group, number(level, 2), NOT_SAID, *(mean_se(f[name][:, g, i]) for name in names))
        for g, group in enumerate(groups)
        for i, level in enumerate(LEVELS)
    ]
    means = {name: values.mean(0) for name, values in f.items()}
    falls = np.array([np.all(np.diff(own, axis=0) < 0, axis=0) for own in means.values()])
    values: dict[str, object] = {
        "falls": falls.sum(), "curves": falls.size, "draws": list(draws),
        "drops": {name: own[0] - own[3] for name, own in means.items()},
        "groups": table(("group", "level", "published F", *names), rows),
    }  # fmt: skip
    drawn = panels(groups, means, "quarter of the documents, by rising share of keywords")
    return Page(values, {"vbss-figure-1.3.png": drawn})


# Figure 1.4: seconds of VBSS and of BSS a document (Hulth) against its candidate words.


def by_vbss(batch: KeywordBatch) -> np.ndarray:
    """Fit VBSS with its full covariance."""
    return fit_documents(batch, VBSS(), max_sweeps=500).probability


def by_bss(batch: KeywordBatch, iterations: int) -> np.ndarray:
    """Sample BSS: two chains, as many draws as warm-up."""
    rng = np.random.default_rng(batch.n_words)
    sampler = partial(bss, model=BSS(), chains=2, draws=iterations, warmup=iterations)
    return sample_documents(batch, sampler, rng)[0]


def timed(
    task: Task, method: Callable[[KeywordBatch], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities [W], and CPU seconds [D], of every document on its own."""
    found, seconds = [], []
    for d in range(task.batch.n_documents):
        own = take_documents(task.batch, d, d + 1)
        begin = time.process_time()
        found.append(method(own))
        seconds.append(time.process_time() - begin)
    return np.concatenate(found), np.array(seconds)


def time_figure(
    drawn: Mapping[str, tuple[np.ndarray, np.ndarray]], slopes: Mapping[str, float]
) -> Figure:
    """Draw seconds against candidate words, and boxes of both."""
    figure = canvas(2, 1, 4.4, 3.6)
    left, right = figure.axes
    for (name, (sizes, seconds)), color in zip(drawn.items(), ("0.6", "k"), strict=True):
        size = 6 if name == "BSS" else 3
        left.loglog(
            sizes, seconds, ".", color=color, ms=size, label=f"{name}, slope {slopes[name]:.1f}"
        )
    left.set_xlabel("candidate words of a document")
    left.set_ylabel("CPU seconds")
    left.legend(fontsize=8)
    right.boxplot([seconds for _, seconds in drawn.values()], tick_labels=[*drawn])
    right.set_yscale("log")
    return figure


def same_documents(few: Task, scores: Mapping[str, np.ndarray]) -> str:
    """Return F by level of ours and of BSS on the documents that BSS was run on."""
    theirs, rows = abstracts_published()["F"], []
    for i, level in enumerate(LEVELS):
        cells = []
        for score in scores.values():
            own = score[: few.batch.n_words]
            p, _, f = few.figures(select_by_fdr(own, few.batch.y, few.batch.offsets, level))
            cells.append(f"{number(f)} / {number(1 - p)}")
        rows.append((number(level, 2), *map(number, theirs.loc[i]), *cells))
    return table(("level", "published VBSS", "published BSS", *scores), rows)


def figure_1_4(data: Path, quick: bool) -> Page:
    """Time every document by VBSS and the first ones by BSS; F of both on the same ones."""
    count, iterations = (3, 60) if quick else (12, 300)
    task = draw(load("abstracts", data, 6 if quick else 300), 0)
    few = task.first(count)
    fit_documents(take_documents(task.batch, 0, 1), VBSS())  # compiles what is to be compiled
    vbss, seconds = timed(task, by_vbss)
    sampled, bss_seconds = timed(few, partial(by_bss, iterations=iterations))
    begin = time.process_time()
    by_vbss(task.batch)
    together = time.process_time() - begin
    model = CorpusProbit(keyword_rate=float(task.truth.mean()))
    begin = time.process_time()
    q = fit(model, [task.batch]).q
    corpus_seconds = time.process_time() - begin
    scores = {
        "ours corpus": model.probabilities(q, task.batch, None),
        "ours full": vbss,
        "rival BSS by Gibbs": sampled,
    }
    drawn = {
        "BSS": (np.diff(few.batch.offsets), bss_seconds),
        "VBSS": (np.diff(task.batch.offsets), seconds),
    }
    slopes = {n: np.polyfit(np.log(size), np.log(took), 1)[0] for n, (size, took) in drawn.items()}
    values = {
        "count": count, "documents": task.batch.n_documents, "iterations": iterations,
        "ratio": bss_seconds.mean() / seconds[:count].mean(), "slopes": slopes,
        "seconds": seconds, "median": np.median(seconds), "together": together,
        "corpus": corpus_seconds, "bss": bss_seconds, "bss_median": np.median(bss_seconds),
        "same": same_documents(few, scores),
    }  # fmt: skip
    return Page(values, {"vbss-figure-1.4.png": time_figure(drawn, slopes)})
