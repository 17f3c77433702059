"""Figure 1.3: F of full papers (SemEval2010) by their share of keywords, in quartiles."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from reproduce.keyword_levels import PACKAGES, Study, chosen, corpus_of, heading, study
from reproduce.keyword_methods import LEVELS, Task, figures
from reproduce.page import NOT_SAID, Page, Table, canvas, mean_se, number

METHODS = ("corpus", "full", "ss", "textrank", "TF-IDF (scikit-learn)")
GROUPS = "ABCD"


def quartiles(task: Task) -> np.ndarray:
    """Return each document's group 0 to 3 by its share of keywords, as the text has it."""
    sizes = np.diff(task.batch.offsets)
    share = np.add.reduceat(task.truth.astype(float), task.batch.offsets[:-1]) / sizes
    low, middle, high = np.quantile(share, [0.25, 0.5, 0.75])
    return np.where(share <= low, 0, np.where(share >= high, 3, np.where(share <= middle, 1, 2)))


def of_group(task: Task, group: int) -> Task:
    """Return the task with the documents of one group scored."""
    member = quartiles(task) == group
    gold = sum(len(g) for g, mine in zip(task.corpus.gold, member, strict=True) if mine)
    return replace(task, scored=member[task.batch.document_of_word], n_gold=gold)


def f_by_group(found: Study, name: str) -> np.ndarray:
    """Return F [seeds, groups, levels]; selection is over all documents, as published."""
    rows = []
    for task, scores in zip(found.tasks, found.scores, strict=True):
        taken = [chosen(task, scores, name, level) for level in LEVELS]
        rows.append(
            [[figures(of_group(task, g), selected)[2] for selected in taken] for g in range(4)]
        )
    return np.array(rows)


def picture(f: dict[str, np.ndarray]) -> Figure:
    """Draw F against the group, one panel a level."""
    figure = canvas(3, 2, 3.2, 2.8)
    for i, (axes, level) in enumerate(zip(figure.axes, LEVELS, strict=True)):
        for name, values in f.items():
            style = "-" if heading(name).startswith("ours") else ":"
            axes.plot(list(GROUPS), values[:, :, i].mean(0), style, marker="o", label=heading(name))
        axes.set_title(f"level {level:g}", fontsize=9)
    figure.axes[0].legend(fontsize=6)
    figure.supxlabel("quarter of the documents, by rising share of keywords")
    figure.supylabel("F")
    return figure


def run(data: Path, quick: bool) -> Page:
    """Run the methods and score the four groups."""
    seeds = range(1 if quick else 2)
    corpus = corpus_of("papers", data, 8 if quick else None)
    found = study(corpus, seeds, METHODS)
    f = {name: f_by_group(found, name) for name in METHODS}
    rows = [
        (GROUPS[g], number(level, 2), NOT_SAID, *(mean_se(f[name][:, g, i]) for name in METHODS))
        for g in range(4)
        for i, level in enumerate(LEVELS)
    ]
    falls = [np.all(np.diff(values.mean(0)[:, i]) < 0) for values in f.values() for i in range(6)]
    drop = {name: values.mean(0)[0] - values.mean(0)[3] for name, values in f.items()}
    drops = "; ".join(
        f"{heading(name)} {fall[0]:.3f} at level .05, {fall[-1]:.3f} at .30"
        for name, fall in drop.items()
    )
    return Page(
        title="VBSS, figure 1.3: the share of keywords (SemEval2010)",
        source=(
            "Hu (2024), figure 1.3, line 492 of the text version, which holds no figure: lines "
            "479 to 485 say that F falls as the share of keywords rises, less so at larger "
            "levels, and that VBSS is best at larger levels"
        ),
        says=(
            f"F falls from each group to the next in {sum(falls)} of {len(falls)} curves. From "
            f"group A (fewest keywords) to D it falls by: {drops}."
        ),
        tables=(
            Table(
                "F, mean (standard error).",
                ("group", "level", "published F", *map(heading, METHODS)),
                tuple(rows),
            ),
        ),
        differences=(
            "The published figures are a picture that the text version lacks, so only the trend "
            "can be compared.",
            "Data: the groups are cut at the quartiles of the share of keywords among the "
            "candidate words of each document, as in the text; KPMiner has no package here, "
            "TF-IDF stands in its place.",
            "The reasons for other levels of F are those of [table 1.5](vbss-table-1.5.md).",
        ),
        seeds=f"draws {list(seeds)} of the 5 observed words; errors are over draws.",
        packages=PACKAGES,
        figures=(("vbss-figure-1.3.png", picture(f), "F by share of keywords"),),
    )
