"""MIL-GP-Probit, tables 2 to 5: labels of instances in newsgroups and birdsong."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reproduce.milgp_as_printed import PrintedGP
from reproduce.milgp_logistic import LogisticGP, predict_logistic
from reproduce.page import NOT_SAID, Page, mean_se, number, published, table
from vbmodels.bags.bags import Instances, bags
from vbmodels.bags.mil_gp.features import KernelOptions
from vbmodels.bags.mil_gp.gibbs import GibbsGP, predict_from_draws
from vbmodels.bags.mil_gp.model import CollapsedGP, DirectGP
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.bags.multilabel import MultiLabelBags
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray

# The sets and how they are divided.

NEWSGROUPS = ("alt.atheism", "comp.graphics", "rec.sport.hockey", "sci.med")


@dataclass(frozen=True)
class Data:
    """Instances [N, D], bag of each, labels of bags [B, C] and of instances [N, C]."""

    rows: FloatArray
    bag: np.ndarray
    labels: np.ndarray
    truth: np.ndarray

    def of_bags(self, chosen: np.ndarray) -> Data:
        """Return some bags, renumbered."""
        rows = np.isin(self.bag, chosen)
        _, bag = np.unique(self.bag[rows], return_inverse=True)
        return Data(self.rows[rows], bag, self.labels[chosen], self.truth[rows])

    def batch(self) -> MultiLabelBags:
        """Return the data as the models take them."""
        instances = Instances.from_rows(self.bag, self.rows, len(self.labels))
        return MultiLabelBags(bags([instances], self.labels[:, 0]), self.labels)


@dataclass(frozen=True)
class Pair:
    """Bags to fit and bags to test, of a set."""

    name: str
    train: Data
    test: Data


def read(data: Path, name: str) -> Data:
    """Read one set; birdsong has a class a bit of its mask."""
    found = pd.read_parquet(data / f"bags/{name}.parquet")
    rows = np.stack(found["features"]).astype(float)
    _, first, bag = np.unique(found["bag_id"], return_index=True, return_inverse=True)
    own = found["instance_label"].to_numpy()
    if "bag_label_mask" in found:
        classes = np.arange(own.max() + 1)
        labels = (found["bag_label_mask"].to_numpy()[first][:, None] >> classes) & 1
        truth = own[:, None] == classes
    else:
        labels, truth = found["label"].to_numpy()[first][:, None], own[:, None] == 1
    order = np.argsort(bag, kind="stable")
    return Data(rows[order], bag[order], labels.astype(np.int8), truth[order])


def smaller(data: Data, n_bags: int, classes: int | None = None) -> Data:
    """Return bags spread over the set, and the first classes only."""
    chosen = np.linspace(0, len(data.labels) - 1, n_bags).astype(int)
    some = data.of_bags(chosen)
    return replace(some, labels=some.labels[:, :classes], truth=some.truth[:, :classes])


def divided(data: Data, parts: int) -> list[np.ndarray]:
    """Return the bags of so many parts, by seed 0."""
    order = np.random.default_rng(0).permutation(len(data.labels))
    return [np.sort(part) for part in np.array_split(order, parts)]


def newsgroups(data: Path, folds: int, quick: int | None) -> Iterator[Pair]:
    """Yield some of ten folds of each set; a quick run has one of so many bags of the first."""
    for name in NEWSGROUPS[:1] if quick else NEWSGROUPS:
        whole = read(data, f"newsgroups_{name}")
        if quick:
            whole = smaller(whole, quick)
        parts = divided(whole, 10)
        for i in range(1 if quick else folds):
            rest = np.sort(np.concatenate([*parts[:i], *parts[i + 1 :]]))
            yield Pair(name, whole.of_bags(rest), whole.of_bags(parts[i]))


def birdsong(data: Path, quick: bool) -> Iterator[Pair]:
    """Yield one half of the bags to fit and the other to test, then the other way round."""
    whole = read(data, "birdsong")
    if quick:
        whole = smaller(whole, 80, 2)
    halves = divided(whole, 2)
    for fitted, tested in (halves, halves[::-1]):
        yield Pair("hja", whole.of_bags(fitted), whole.of_bags(tested))


# The methods: each returns score and probability of the test's instances for every class.

Scored = list[tuple[FloatArray, FloatArray]]
HEURISTIC = KernelOptions(length_scales=(1.0,), amplitudes=(3.0,))
CHAINS = GibbsGP(HEURISTIC, chains=2, warmup=50, draws=50, thin=1)


def trivial(train: Data, test: Data) -> Scored:
    """Copy the bag's label to each instance; logistic regression, of z-scores but for text."""
    is_text = (np.abs(np.linalg.norm(train.rows, axis=1) - 1) < 1e-3).mean() > 0.9
    found = []
    for y in train.labels.T:
        model = LogisticRegression(max_iter=2000)
        if not is_text:
            model = make_pipeline(StandardScaler(), model)
        p = model.fit(train.rows, y[train.bag]).predict_proba(test.rows)[:, 1]
        found.append((p, p))
    return found


def probit(model: CollapsedGP, max_iter: int = 1000) -> Callable[[Data, Data], Scored]:
    """Fit one of the probit's forms."""

    def run(train: Data, test: Data) -> Scored:
        q = fit(model, [train.batch()], max_iter=max_iter, tol=1e-7).q
        found = predict(model.posterior(q), test.batch(), points=8)
        return [(p.score, p.probability) for p in found]

    return run


def logistic(train: Data, test: Data) -> Scored:
    """Fit the logistic rival."""
    q = fit(LogisticGP(), [train.batch()], max_iter=2000, tol=1e-7).q
    return [(score, p) for score, p, _ in predict_logistic(q, test.batch())]


def gibbs(train: Data, test: Data) -> Scored:
    """Sample two short chains at the heuristic kernel value."""
    q = fit(CHAINS, [train.batch()], max_iter=10_000).q
    return [(p.score, p.probability) for p in predict_from_draws(q, test.batch())]


TEXT, RECIPE, ASCENT = "ours text, 25 sweeps", "ours recipe", "ours collapsed ascent"
LOGISTIC, TRIVIAL = "rival logistic, 25 sweeps", "rival trivial"
METHODS: dict[str, Callable[[Data, Data], Scored]] = {
    TEXT: probit(PrintedGP()),
    RECIPE: probit(DirectGP()),
    ASCENT: probit(CollapsedGP(HEURISTIC), 5000),
    "ours Gibbs": gibbs,
    LOGISTIC: logistic,
    TRIVIAL: trivial,
}
CRITERIA = ["AUC", "log-likelihood", "average precision"]


def score(pairs: Iterable[Pair], names: Sequence[str]) -> tuple[pd.DataFrame, dict[str, float]]:
    """Return the criteria of every pair, class with both kinds and method, and CPU seconds."""
    rows, seconds = [], dict.fromkeys(names, 0.0)
    for pair in pairs:
        for name in names:
            begin = time.process_time()
            found = METHODS[name](pair.train, pair.test)
            seconds[name] += time.process_time() - begin
            for c, ((scores, probability), truth) in enumerate(
                zip(found, pair.test.truth.T, strict=True)
            ):
                if truth.all() or not truth.any():
                    continue
                p = np.clip(probability, 1e-12, 1 - 1e-12)
                rows.append({
                    "set": pair.name, "class": c, "method": name,
                    "AUC": roc_auc_score(truth, scores),
                    "log-likelihood": np.where(truth, np.log(p), np.log1p(-p)).mean(),
                    "average precision": average_precision_score(truth, scores),
                })  # fmt: skip
    return pd.DataFrame(rows), seconds


def published_pairs(name: str) -> np.ndarray:
    """Return [sets, criteria, (probit, logistic)] of table 2 or 4."""
    return published(name)[0].reshape(-1, 3, 2)


def set_table(found: pd.DataFrame, theirs: np.ndarray, key: str, names: Sequence[str]) -> str:
    """Return a table of each set: a row a criterion, the published two methods and ours."""
    lines = []
    for (label, own), figures in zip(found.groupby(key, sort=False), theirs, strict=True):
        for c, criterion in enumerate(CRITERIA):
            mine = [mean_se(own.loc[own["method"] == name, criterion]) for name in names]
            shown = [number(value) for value in figures[c]]
            lines.append((str(label), criterion, *shown, *mine))
    columns = ("set", "criterion", "published probit", "published logistic", *names)
    return table(columns, lines)


def mean_table(whole: str, same: str, found: pd.DataFrame, kind: str) -> str:
    """Return a table of means over sets: published over all and over the same, ours, rivals'."""
    sampled, probit, logistic, margin = published(whole)[0]
    means = published_pairs(same).mean(0)
    rows = (
        ("Gibbs", sampled, None, "ours Gibbs"),
        ("probit, variational", probit, means[:, 0], TEXT),
        ("probit, the recipe", None, None, RECIPE),
        ("probit, collapsed ascent", None, None, ASCENT),
        ("logistic", logistic, means[:, 1], LOGISTIC),
        ("logistic, large margin", margin, None, None),
        ("trivial baseline", None, None, TRIVIAL),
    )
    lines = []
    for label, everywhere, there, name in rows:
        own = found[found["method"] == name]
        if everywhere is None and own.empty:
            continue
        cells = [
            NOT_SAID if figures is None else " / ".join(map(number, figures))
            for figures in (everywhere, there)
        ]
        ours, rival = NOT_SAID, NOT_SAID
        if name in (LOGISTIC, TRIVIAL):
            rival = " / ".join(mean_se(own[c]) for c in CRITERIA)
        elif not own.empty:
            ours = " / ".join(mean_se(own[c]) for c in CRITERIA)
        lines.append((label, *cells, ours, rival))
    columns = (
        " / ".join(CRITERIA), f"published, all {kind}", "published, the same sets", "ours", "rival"
    )  # fmt: skip
    return table(columns, lines)


def table_2(data: Path, quick: bool) -> Page:
    """Run some of ten folds of each newsgroup set, probit against logistic."""
    names, folds = (TEXT, RECIPE, LOGISTIC, TRIVIAL), 3
    found, seconds = score(newsgroups(data, folds, 60 if quick else None), names)
    theirs = published_pairs("milgp-table-2")
    means = found.groupby(["method", "set"], sort=False)["log-likelihood"].mean()
    gaps = means[TEXT] - means[LOGISTIC]
    theirs = theirs[: len(gaps)]
    return Page({
        "gaps": gaps, "their_gaps": theirs[:, 1, 0] - theirs[:, 1, 1],
        "seconds": seconds, "folds": folds,
        "sets": set_table(found, theirs, "set", names),
    })  # fmt: skip


def table_3(data: Path, quick: bool) -> Page:
    """Run one of ten folds of each newsgroup set by all methods."""
    found, seconds = score(newsgroups(data, 1, 40 if quick else None), [*METHODS])
    means = mean_table("milgp-table-3", "milgp-table-2", found, "20 sets")
    return Page({"chains": CHAINS, "seconds": seconds, "means": means})


def table_4(data: Path, quick: bool) -> Page:
    """Fit one half of birdsong's bags and score the other, both ways, a problem for each class."""
    names = (TEXT, ASCENT, LOGISTIC, TRIVIAL)
    pairs = list(birdsong(data, quick))[: 1 if quick else None]
    found, seconds = score(pairs, names)
    found = found.sort_values("class", kind="stable")
    found["problem"] = "hja_" + found["class"].astype(str)
    theirs = published_pairs("milgp-table-4")[found["class"].unique()]
    means = found.groupby(["method", "class"])[CRITERIA].mean()
    return Page({
        "wins": (means.loc[TEXT] > means.loc[LOGISTIC]).sum().tolist(), "classes": len(theirs),
        "their_wins": (theirs[:, :, 0] > theirs[:, :, 1]).sum(0), "seconds": seconds,
        "sets": set_table(found, theirs, "problem", names),
    })  # fmt: skip


def table_5(data: Path, quick: bool) -> Page:
    """Fit one half of birdsong's bags by all methods and score the other."""
    left_out = (RECIPE, "ours Gibbs") if quick else (RECIPE,)
    names = [name for name in METHODS if name not in left_out]
    found, seconds = score(list(birdsong(data, quick))[:1], names)
    auc = found.groupby("method")["AUC"].mean()
    means = mean_table("milgp-table-5", "milgp-table-4", found, "59 problems")
    return Page({
        "chains": CHAINS, "seconds": seconds, "means": means, "best": auc.idxmax(),
        "best_auc": auc.max(),
    })  # fmt: skip
