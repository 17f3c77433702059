"""Table 2: instances of the newsgroup sets, probit against logistic."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import numpy as np

from reproduce.milgp_methods import read
from reproduce.milgp_study import (
    COMMON,
    MEANT,
    NEWSGROUP_ROWS,
    newsgroups,
    published_pairs,
    score_methods,
    seconds_said,
    set_table,
    smaller,
    tenths,
)
from reproduce.page import Page, number

NAMES = ("text, 25 sweeps", "recipe (direct)", "logistic, 25 sweeps", "trivial baseline")
FOLDS = 3
PUBLISHED = {"002": NEWSGROUP_ROWS}
DATA = (
    "Data: the sets are rebuilt from 20news-bydate (100 bags of about 40 posts, 200 TF-IDF "
    "features), not the original files, and their folds are ours; the text reduces the features "
    "to 100 by kernel PCA, which is not done here, and some folds of one round stand for ten "
    "rounds. AUC is much lower than published for the text's own algorithm, so the published "
    "sets were easier or their features better.",
    "Rival: our logistic is Haussmann's model from its description; its log-likelihood is better "
    "than published, so the published gap does not appear.",
)


def run(data: Path, quick: bool) -> Page:
    """Run some of ten folds of each set."""
    published = published_pairs(NEWSGROUP_ROWS)
    rows, total = {}, dict.fromkeys(NAMES, 0.0)
    for i, (name, file) in enumerate(newsgroups(quick).items()):
        whole = read(data / "bags", file)
        pairs = tenths(smaller(whole, 60) if quick else whole, 0, 1 if quick else FOLDS)
        found, seconds = score_methods(pairs, NAMES)
        rows[name] = (published[i], found)
        total = {key: total[key] + seconds[key] for key in NAMES}
    own, rival = "text, 25 sweeps", "logistic, 25 sweeps"
    gaps = [
        float(np.mean([r[1] for r in found[own]]) - np.mean([r[1] for r in found[rival]]))
        for _, found in rows.values()
    ]
    theirs = [float(figures[1, 0] - figures[1, 1]) for figures, _ in rows.values()]
    return Page(
        title="MIL-GP-Probit, table 2: the newsgroup sets",
        source=(
            "Wang and Pinar (2021), table 2, lines 280 to 312 of the text version: 20 sets, of "
            "which four could be rebuilt"
        ),
        says=(
            f"{MEANT}\n\nThe published claim on calibration: probit has the better log-likelihood "
            f"on all 20 sets, on these {len(gaps)} by {number(mean(theirs))} on average; here "
            f"the text's algorithm is ahead of the logistic on {sum(g > 0 for g in gaps)}, by "
            f"{number(mean(gaps))} on average. "
            + seconds_said(total)
        ),
        tables=(
            set_table(
                rows, NAMES,
                "Instances of held-out bags, mean (standard error) over folds that have both "
                "kinds.",
            ),
        ),
        differences=(*DATA, *COMMON),
        seeds=f"{FOLDS} of ten folds of the bags, divided by seed 0; errors are over the folds.",
    )  # fmt: skip
