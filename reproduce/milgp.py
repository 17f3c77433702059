"""MIL-GP-Probit, tables 2 to 5: data, models, rivals, and what the tables share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reproduce.milgp_as_printed import PrintedGP
from reproduce.milgp_logistic import LogisticGP, predict_logistic
from reproduce.page import NOT_SAID, Page, Table, figures_of, mean_se, number
from vbmodels.bags.bags import Instances, bags
from vbmodels.bags.mil_gp.fit import DirectGP
from vbmodels.bags.mil_gp.gibbs import GibbsGP, predict_from_draws
from vbmodels.bags.mil_gp.kernel import KernelOptions
from vbmodels.bags.mil_gp.model import CollapsedGP
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.bags.multilabel import MultiLabelBags
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray

# Data, models and rivals of the MIL-GP-Probit tables.

NEWSGROUPS = ("alt.atheism", "comp.graphics", "rec.sport.hockey", "sci.med")
MODE = DirectGP(
    KernelOptions(
        linear_variance=2.0,
        linear_prior="independent",
        length_scales=(0.5, 0.7, 1.0, 1.4),
        amplitudes=(1.0, 3.0, 10.0),
    ),
    posterior_form="laplace",
)
"""The mode with independent words and a short grid."""
HEURISTIC = KernelOptions(length_scales=(1.0,), amplitudes=(3.0,))


@dataclass(frozen=True)
class Data:
    """Instances [N, D], bag of each, labels of bags [B, C] and of instances [N, C]."""

    name: str
    rows: FloatArray
    bag: np.ndarray
    labels: np.ndarray
    truth: np.ndarray

    def of_bags(self, chosen: np.ndarray) -> Data:
        """Return some bags, renumbered."""
        rows = np.isin(self.bag, chosen)
        _, bag = np.unique(self.bag[rows], return_inverse=True)
        return Data(self.name, self.rows[rows], bag, self.labels[chosen], self.truth[rows])

    def batch(self) -> MultiLabelBags:
        """Return the data as the models take them."""
        instances = Instances.from_rows(self.bag, self.rows, len(self.labels))
        return MultiLabelBags(bags([instances], self.labels[:, 0]), self.labels)


def read(folder: Path, name: str) -> Data:
    """Read one set; birdsong has a class a bit of its mask."""
    table = pq.read_table(folder / f"{name}.parquet")
    rows = np.array(table["features"].combine_chunks().flatten(), dtype=float)
    rows = rows.reshape(table.num_rows, -1)
    _, first, bag = np.unique(table["bag_id"].to_numpy(), return_index=True, return_inverse=True)
    own = table["instance_label"].to_numpy()
    if "bag_label_mask" in table.column_names:
        classes = np.arange(own.max() + 1)
        labels = (table["bag_label_mask"].to_numpy()[first][:, None] >> classes) & 1
        truth = own[:, None] == classes
    else:
        labels, truth = table["label"].to_numpy()[first][:, None], own[:, None] == 1
    order = np.argsort(bag, kind="stable")
    return Data(name, rows[order], bag[order], labels.astype(np.int8), truth[order])


Scored = list[tuple[FloatArray, FloatArray]]


def trivial(train: Data, test: Data) -> Scored:
    """Copy the bag's label to each instance; logistic regression."""
    return [
        (p, p)
        for y in train.labels.T
        for p in [_regression(train).fit(train.rows, y[train.bag]).predict_proba(test.rows)[:, 1]]
    ]


def _regression(data: Data) -> LogisticRegression:
    model = LogisticRegression(max_iter=2000)
    return model if _is_text(data) else make_pipeline(StandardScaler(), model)


def _is_text(data: Data) -> bool:
    return bool((np.abs(np.linalg.norm(data.rows, axis=1) - 1) < 1e-3).mean() > 0.9)


def probit(model: CollapsedGP, max_iter: int = 1000) -> Callable[[Data, Data], Scored]:
    """Fit one of the probit's forms."""

    def run(train: Data, test: Data) -> Scored:
        q = fit(model, [train.batch()], max_iter=max_iter, tol=1e-7).q
        found = predict(model.posterior(q), test.batch(), points=8)
        return [(p.score, p.probability) for p in found]

    return run


def logistic(sweeps: int | None) -> Callable[[Data, Data], Scored]:
    """Fit the logistic rival."""

    def run(train: Data, test: Data) -> Scored:
        q = fit(LogisticGP(sweeps=sweeps), [train.batch()], max_iter=2000, tol=1e-7).q
        return [(score, p) for score, p, _ in predict_logistic(q, test.batch())]

    return run


def gibbs(train: Data, test: Data) -> Scored:
    """Sample at the heuristic kernel value."""
    model = GibbsGP(HEURISTIC, chains=2, warmup=150, draws=100, thin=4)
    q = fit(model, [train.batch()], max_iter=10_000).q
    return [(p.score, p.probability) for p in predict_from_draws(q, test.batch())]


METHODS: dict[str, Callable[[Data, Data], Scored]] = {
    "trivial baseline": trivial,
    "recipe (direct)": probit(DirectGP()),
    "recipe without its cures": probit(MODE),
    "collapsed ascent, heuristic kernel": probit(CollapsedGP(HEURISTIC), 5000),
    "text, 25 sweeps": probit(PrintedGP()),
    "text, converged": probit(PrintedGP(sweeps=None), 5000),
    "logistic, 25 sweeps": logistic(25),
    "logistic, converged": logistic(None),
    "Gibbs, heuristic kernel": gibbs,
}


def score_bags(found: Scored, test: Data) -> Iterator[tuple[float, float, float]]:
    """Yield AUC, log-likelihood and average precision of each class that has both kinds."""
    for (score, probability), truth in zip(found, test.truth.T, strict=True):
        if 0 < truth.sum() < truth.size:
            p = np.clip(probability, 1e-12, 1 - 1e-12)
            yield (
                float(roc_auc_score(truth, score)),
                float(np.where(truth, np.log(p), np.log1p(-p)).mean()),
                float(average_precision_score(truth, score)),
            )


def folds(data: Data, seeds: int) -> Iterator[tuple[Data, Data]]:
    """Yield both halves of the bags in turn as train and test, for each seed."""
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(len(data.labels))
        halves = [np.sort(half) for half in np.array_split(order, 2)]
        for a, b in (halves, halves[::-1]):
            yield data.of_bags(a), data.of_bags(b)


# What tables 2 to 5 of MIL-GP-Probit share: published figures, folds, methods, scores.

# Table 2, lines 290-309 of the text version: AUC, log-likelihood and MAP, probit and logistic
# each, of 20 sets; here the four that were rebuilt, then the means over all 20 (table 3).
NEWSGROUP_ROWS = """
0.969 0.974 -0.036 -0.158 0.714 0.700
0.901 0.928 -0.052 -0.164 0.796 0.787
0.988 0.990 -0.075 -0.181 0.914 0.923
0.956 0.951 -0.054 -0.171 0.760 0.742
"""
# Table 3, lines 319-322: AUC, log-likelihood, MAP of Gibbs, probit, logistic and logistic-LM.
TABLE_3 = """
0.853 -0.045 0.651
0.952 -0.046 0.723
0.962 -0.165 0.730
0.957 -0.343 0.725
"""
# Table 4, lines 359-370, birdsong ("hja"), classes 0 to 12 as in table 2; two rows stand in one
# line there.
BIRDSONG_ROWS = """
0.756 0.734 -0.108 -0.159 0.134 0.117
0.645 0.694 -0.155 -0.129 0.271 0.292
0.843 0.817 -0.095 -0.123 0.203 0.279
0.934 0.927 -0.088 -0.123 0.490 0.502
0.568 0.635 -0.023 -0.028 0.009 0.011
0.759 0.788 -0.060 -0.082 0.058 0.070
0.597 0.700 -0.012 -0.015 0.005 0.010
0.882 0.786 -0.066 -0.077 0.399 0.239
0.977 0.944 -0.028 -0.050 0.715 0.473
0.619 0.661 -0.031 -0.043 0.015 0.018
0.837 0.638 -0.044 -0.055 0.177 0.040
0.936 0.932 -0.158 -0.101 0.874 0.875
0.763 0.746 -0.032 -0.037 0.025 0.023
"""
# Table 5, lines 399-402, as table 3.
TABLE_5 = """
0.764 -0.097 0.227
0.770 -0.094 0.225
0.713 -0.099 0.190
0.539 -0.133 0.110
"""
CRITERIA = ("AUC", "log-likelihood", "average precision")
SHOWN = {
    "text, 25 sweeps": "ours text, 25 sweeps",
    "recipe (direct)": "ours recipe",
    "collapsed ascent, heuristic kernel": "ours collapsed ascent",
    "Gibbs": "ours Gibbs",
    "logistic, 25 sweeps": "rival logistic, 25 sweeps",
    "trivial baseline": "rival trivial",
}
MEANT = (
    '"Text" is the model and the algorithm as published; "collapsed ascent" the tighter bound at '
    'the same kernel value, converged; "recipe" the direct form with its kernel chosen, which the '
    'pipeline runs; "logistic" the published rival (MIL-GP-Logistic) from our own code; "trivial" '
    "the bag's label copied to each instance and a logistic regression."
)
CHAINS = GibbsGP(HEURISTIC, chains=2, warmup=50, draws=50, thin=1)
COMMON = (
    "Rival: the large-margin variant MIL-GP-Logistic-LM is not built here.",
    "Convergence: 25 sweeps are far from the fixed point and act as early stopping, here as there.",
)
BagScores = list[tuple[float, float, float]]


def two_chains(train: Data, test: Data) -> Scored:
    """Sample two short chains at the heuristic kernel value."""
    q = fit(CHAINS, [train.batch()], max_iter=10_000).q
    return [(p.score, p.probability) for p in predict_from_draws(q, test.batch())]


FORMS = METHODS | {"Gibbs": two_chains}


def tenths(data: Data, seed: int, wanted: int) -> list[tuple[Data, Data]]:
    """Return the first of ten folds of the bags, as (train, test)."""
    order = np.random.default_rng(seed).permutation(len(data.labels))
    parts = [np.sort(part) for part in np.array_split(order, 10)]
    return [
        (data.of_bags(np.sort(np.concatenate([*parts[:i], *parts[i + 1 :]]))), data.of_bags(part))
        for i, part in enumerate(parts[:wanted])
    ]


def newsgroups(quick: bool) -> dict[str, str]:
    """Return the sets' names and their files."""
    names = NEWSGROUPS[:1] if quick else NEWSGROUPS
    return {name: f"newsgroups_{name}" for name in names}


def smaller(data: Data, n_bags: int, classes: int | None = None) -> Data:
    """Return bags spread over the set, and the first classes only."""
    chosen = np.linspace(0, len(data.labels) - 1, n_bags).astype(int)
    some = data.of_bags(chosen)
    return replace(some, labels=some.labels[:, :classes], truth=some.truth[:, :classes])


def score_methods(
    pairs: Iterable[tuple[Data, Data]], names: Sequence[str]
) -> tuple[dict[str, BagScores], dict[str, float]]:
    """Run methods on (train, test) pairs: their criteria a pair and class, and CPU seconds."""
    found: dict[str, BagScores] = {name: [] for name in names}
    seconds = dict.fromkeys(names, 0.0)
    for train, test in pairs:
        for name in names:
            begin = time.process_time()
            scored = FORMS[name](train, test)
            seconds[name] += time.process_time() - begin
            found[name] += score_bags(scored, test)
    return found, seconds


def published_pairs(text: str) -> np.ndarray:
    """Return [sets, criteria, (probit, logistic)] of table 2 or 4."""
    return np.array(figures_of(text)).reshape(-1, 3, 2)


def set_table(
    rows: Mapping[str, tuple[np.ndarray, Mapping[str, BagScores]]],
    names: Sequence[str],
    caption: str,
) -> Table:
    """Tabulate each set: a row a criterion, the published two methods and ours."""
    lines = []
    for label, (theirs, found) in rows.items():
        for c, criterion in enumerate(CRITERIA):
            mine = [mean_se([row[c] for row in found[name]]) for name in names]
            shown = [number(value) for value in theirs[c]]
            lines.append((label, criterion, *shown, *mine))
    columns = ("set", "criterion", "published probit", "published logistic")
    return Table(caption, (*columns, *(SHOWN[name] for name in names)), tuple(lines))


def mean_table(
    whole: str, same: np.ndarray, found: Mapping[str, BagScores], kind: str, caption: str
) -> Table:
    """Tabulate means over sets: published ones over all and over the same, ours, rivals'."""
    gibbs_row, probit, logistic, margin = figures_of(whole)
    rows = [
        ("Gibbs", gibbs_row, None, "Gibbs", None),
        ("probit, variational", probit, same[:, :, 0].mean(0).tolist(), "text, 25 sweeps", None),
        ("probit, the recipe", None, None, "recipe (direct)", None),
        ("probit, collapsed ascent", None, None, "collapsed ascent, heuristic kernel", None),
        ("logistic", logistic, same[:, :, 1].mean(0).tolist(), None, "logistic, 25 sweeps"),
        ("logistic, large margin", margin, None, None, None),
        ("trivial baseline", None, None, None, "trivial baseline"),
    ]

    def figures(values: Sequence[float] | None) -> str:
        return NOT_SAID if values is None else " / ".join(map(number, values))

    def means(name: str | None) -> str:
        if name is None or name not in found:
            return NOT_SAID
        return " / ".join(mean_se([row[c] for row in found[name]]) for c in range(3))

    return Table(
        caption,
        ("AUC / log-likelihood / average precision", f"published, all {kind}",
         "published, the same sets", "ours", "rival"),
        tuple((label, figures(all_), figures(mine), means(ours), means(rival))
              for label, all_, mine, ours, rival in rows
              if all_ is not None or ours in found or rival in found),
    )  # fmt: skip


def seconds_said(seconds: Mapping[str, float]) -> str:
    """Return one sentence on what the methods took."""
    shown = ", ".join(f"{SHOWN[name]} {value:.0f} s" for name, value in seconds.items())
    return f"CPU seconds of all folds: {shown}."


# Table 2: instances of the newsgroup sets, probit against logistic.

TABLE_2_NAMES = ("text, 25 sweeps", "recipe (direct)", "logistic, 25 sweeps", "trivial baseline")
FOLDS = 3
TABLE_2_QUOTED = {"002": NEWSGROUP_ROWS}
NEWSGROUP_DATA = (
    "Data: the sets are rebuilt from 20news-bydate (100 bags of about 40 posts, 200 TF-IDF "
    "features), not the original files, and their folds are ours; the text reduces the features "
    "to 100 by kernel PCA, which is not done here, and some folds of one round stand for ten "
    "rounds. AUC is much lower than published for the text's own algorithm, so the published "
    "sets were easier or their features better.",
    "Rival: our logistic is Haussmann's model from its description; its log-likelihood is better "
    "than published, so the published gap does not appear.",
)


def table_2(data: Path, quick: bool) -> Page:
    """Run some of ten folds of each set."""
    published = published_pairs(NEWSGROUP_ROWS)
    rows, total = {}, dict.fromkeys(TABLE_2_NAMES, 0.0)
    for i, (name, file) in enumerate(newsgroups(quick).items()):
        whole = read(data / "bags", file)
        pairs = tenths(smaller(whole, 60) if quick else whole, 0, 1 if quick else FOLDS)
        found, seconds = score_methods(pairs, TABLE_2_NAMES)
        rows[name] = (published[i], found)
        total = {key: total[key] + seconds[key] for key in TABLE_2_NAMES}
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
                rows, TABLE_2_NAMES,
                "Instances of held-out bags, mean (standard error) over folds that have both "
                "kinds.",
            ),
        ),
        differences=(*NEWSGROUP_DATA, *COMMON),
        seeds=f"{FOLDS} of ten folds of the bags, divided by seed 0; errors are over the folds.",
    )  # fmt: skip


# Table 3: means over the newsgroup sets, with the Gibbs sampler.

TABLE_3_QUOTED = {"002": NEWSGROUP_ROWS + TABLE_3}
TABLE_3_FOLDS = 1


def table_3(data: Path, quick: bool) -> Page:
    """Run some of ten folds of each set by all methods."""
    pairs = []
    for file in newsgroups(quick).values():
        whole = read(data / "bags", file)
        pairs += tenths(smaller(whole, 40) if quick else whole, 0, 1 if quick else TABLE_3_FOLDS)
    found, seconds = score_methods(pairs, tuple(SHOWN))
    return Page(
        title="MIL-GP-Probit, table 3: means over the newsgroup sets",
        source=(
            "Wang and Pinar (2021), table 3, lines 316 to 324 of the text version, and table 2 "
            "for the means over the four sets at hand"
        ),
        says=f"{MEANT}\n\n{seconds_said(seconds)}",
        tables=(
            mean_table(
                TABLE_3, published_pairs(NEWSGROUP_ROWS), found, "20 sets",
                "AUC / log-likelihood / average precision of instances of held-out bags: means "
                "(standard errors).",
            ),
        ),
        differences=(
            *NEWSGROUP_DATA,
            "Erratum: the published Gibbs sampler gives the instances' latent values variance 1 "
            "where the model, with f integrated out, has 1 + k; ours is exact. It has two chains "
            f"here ({CHAINS.warmup} + {CHAINS.draws} sweeps; 1000 + 5000 published) and averages "
            "probabilities; the text lays its sampler's low AUC to the noise of its averages.",
            *COMMON,
        ),
        seeds=(
            f"{TABLE_3_FOLDS} of the ten folds of table 2 of each set; errors are over the folds "
            "of all sets."
        ),
    )  # fmt: skip


# Table 4: instances of birdsong, a problem for each of its 13 classes.

TABLE_4_NAMES = (
    "text, 25 sweeps",
    "collapsed ascent, heuristic kernel",
    "logistic, 25 sweeps",
    "trivial baseline",
)
TABLE_4_QUOTED = {"002": BIRDSONG_ROWS}
BIRDSONG_DATA = (
    "Data: of the 59 problems the 13 of birdsong (hja) are at hand, from another copy (548 bags, "
    "4998 instances; 533 and 4983 published). Salad, Voc12 and msrcv2 cannot be had.",
    "Data: the published log-likelihood of every class is .22 to .35 of the entropy of its share "
    "in this copy. That makes the numbers of the classes agree, and says that each was about "
    "five times rarer among the published instances, which the low average precisions say too; "
    "why is not known. So AUC can be compared, log-likelihood and average precision cannot.",
    "Preprocessing: one feature reaches 1e5, so features are brought to z-scores and cut at 3; "
    "the text does not say what it did.",
    "The recipe is left out for its time: over all classes it has AUC .856, log-likelihood -.172 "
    "and average precision .603.",
)


def by_class(found: dict[str, BagScores], pairs: list[Any]) -> dict[int, dict[str, BagScores]]:
    """Sort the scores by class: a class with one kind only on a fold has no figures there."""
    there = [c for _, test in pairs for c, truth in enumerate(test.truth.T)
             if 0 < truth.sum() < truth.size]  # fmt: skip
    return {
        c: {name: [row for row, of in zip(rows, there, strict=True) if of == c]
            for name, rows in found.items()}
        for c in sorted(set(there))
    }  # fmt: skip


def table_4(data: Path, quick: bool) -> Page:
    """Fit one half of the bags and score the other, both ways."""
    whole = read(data / "bags", "birdsong")
    pairs = list(folds(smaller(whole, 80, 2) if quick else whole, 1))[: 1 if quick else None]
    names = TABLE_4_NAMES
    found, seconds = score_methods(pairs, TABLE_4_NAMES)
    published = published_pairs(BIRDSONG_ROWS)
    classes = by_class(found, pairs)
    rows = {f"hja_{c}": (published[c], scores) for c, scores in classes.items()}
    mine = {name: np.array([np.mean(j[name], axis=0) for j in classes.values()]) for name in names}
    theirs = published[sorted(classes)]
    wins = [int((mine[names[0]][:, c] > mine["logistic, 25 sweeps"][:, c]).sum()) for c in range(3)]
    their_wins = [int((theirs[:, c, 0] > theirs[:, c, 1]).sum()) for c in range(3)]
    return Page(
        title="MIL-GP-Probit, table 4: birdsong",
        source=(
            "Wang and Pinar (2021), table 4, lines 359 to 370 of the text version (two rows of "
            "which are run together)"
        ),
        says=(
            f"{MEANT}\n\nOf {len(classes)} classes the probit wins over the logistic in {wins[0]} "
            f"(AUC), {wins[1]} (log-likelihood) and {wins[2]} (average precision); published are "
            f"{their_wins[0]}, {their_wins[1]} and {their_wins[2]}. "
            + seconds_said(seconds)
        ),
        tables=(
            set_table(
                rows, names, "Instances of held-out bags, mean (standard error) over both halves."
            ),
        ),
        differences=(
            *BIRDSONG_DATA,
            "Rounds: one division into halves, both ways, stands for 100 random halves.",
            *COMMON,
        ),
        seeds=(
            "one division of the bags into halves, seed 0, each half tested once; errors are "
            "over the two."
        ),
    )  # fmt: skip


# Table 5: means over problems that are not simulated, with the Gibbs sampler.

TABLE_5_QUOTED = {"002": BIRDSONG_ROWS + TABLE_5}


def table_5(data: Path, quick: bool) -> Page:
    """Fit one half of the bags by all methods and score the other."""
    whole = read(data / "bags", "birdsong")
    pairs = list(folds(smaller(whole, 80, 2) if quick else whole, 1))[:1]
    names = tuple(
        name for name in SHOWN if name != "recipe (direct)" and not (quick and name == "Gibbs")
    )
    found, seconds = score_methods(pairs, names)
    auc = {name: float(np.mean([row[0] for row in rows])) for name, rows in found.items()}
    best = max(auc, key=lambda name: auc[name])
    return Page(
        title="MIL-GP-Probit, table 5: means over birdsong's classes",
        source=(
            "Wang and Pinar (2021), table 5, lines 396 to 404 of the text version, and table 4 "
            "for the means over birdsong's 13 classes"
        ),
        says=(
            f"{MEANT}\n\nThe best AUC has {SHOWN[best]}, {number(auc[best])}. "
            + seconds_said(seconds)
        ),
        tables=(
            mean_table(
                TABLE_5, published_pairs(BIRDSONG_ROWS), found, "59 problems",
                "AUC / log-likelihood / average precision of instances of held-out bags: means "
                "(standard errors).",
            ),
        ),
        differences=(
            *BIRDSONG_DATA,
            f"Sampler: two chains of {CHAINS.warmup} + {CHAINS.draws} sweeps at a heuristic "
            "kernel value, exact where the published one lacks a variance (see [table "
            "3](milgp-table-3.md)).",
            *COMMON,
        ),
        seeds=(
            "one division of the bags into halves, seed 0, one of them tested; errors are over "
            "the classes."
        ),
    )  # fmt: skip


QUOTED = {
    "table_2": TABLE_2_QUOTED,
    "table_3": TABLE_3_QUOTED,
    "table_4": TABLE_4_QUOTED,
    "table_5": TABLE_5_QUOTED,
}
"""What a page quotes of the text: lines by the number of the paper."""
