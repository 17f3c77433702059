"""Data, models and rivals of the MIL-GP-Probit tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reproduce.milgp_as_printed import PrintedGP
from reproduce.milgp_logistic import LogisticGP, predict_logistic
from vbmodels.bags.bags import Instances, bags
from vbmodels.bags.mil_gp.fit import DirectGP
from vbmodels.bags.mil_gp.gibbs import GibbsGP, predict_from_draws
from vbmodels.bags.mil_gp.kernel import KernelOptions
from vbmodels.bags.mil_gp.model import CollapsedGP
from vbmodels.bags.mil_gp.predict import predict
from vbmodels.bags.multilabel import MultiLabelBags
from vbmodels.core.fit import fit
from vbmodels.core.state import FloatArray

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
