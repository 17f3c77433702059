"""The stack for bags, its members and simple rivals, fold by fold, on sets of bags.

    python -m benchmarks.bag_stack FOLDER [--sets elephant fox] [--seeds 1] [--rivals]

FOLDER holds one Parquet file a set with bag_id, label and features (and instance_label, where it
is known). Folds are scikit-learn's StratifiedKFold(5, shuffle=True, random_state=0) over bags in
order of their names; two for sets called newsgroups_*. Probabilities of all folds are put together
for log loss; AUC is the mean over folds. LightGBM and attention networks (torch) are rivals where
they are installed; what is left out is said.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.harness import calibration_error, head, row
from flows.bags.rivals import Held, by_instances
from flows.evaluate.fits import class_trees
from vbmodels.bags.bags import Bags, Instances, bags
from vbmodels.bags.embedding.model import EmbeddingModel
from vbmodels.bags.embedding.pools import pooled, sizes_of
from vbmodels.bags.stack.model import AutoModel
from vbmodels.bags.stack.predict import predict_auto
from vbmodels.core.fit import fit

Rivals = dict[str, Callable[[Bags, Bags, int], np.ndarray]]


def read(path: Path) -> tuple[Bags, np.ndarray | None]:
    """Return a set's bags in order of names, and its instances' labels if they are known."""
    table = pd.read_parquet(path)
    names, number = np.unique(table["bag_id"].to_numpy(), return_inverse=True)
    table = table.iloc[np.argsort(number, kind="stable")]
    x = np.stack(table["features"]).astype(float)
    rows = Instances.from_rows(np.sort(number), x, names.size)
    label = table.groupby("bag_id")["label"].last().to_numpy(np.int8)
    known = "instance_label" in table and "newsgroups" in path.name
    return bags([rows], label), table["instance_label"].to_numpy() if known else None


def stack(
    train: Bags, test: Bags, seed: int
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Return P of the test bags by the stack and its members; its weights; instances' P."""
    model = AutoModel(EmbeddingModel(sample_seed=seed))
    q = fit(model, [train], seed=seed, max_iter=10_000).q
    found = predict_auto(model, q, test)
    predicted = {"auto": found.probability, "embedding": found.members[:, 0]}
    predicted |= {"gp_probit": found.members[:, 1], "base rate": found.members[:, 3]}
    return predicted, q.weights, found.instances(test)[0]


def pools(data: Bags) -> np.ndarray:
    """Return mean, largest, smallest, sd and size of bags."""
    return np.hstack([pooled(data.modalities[0]), sizes_of(data)])


def boosted(train: Bags, test: Bags, seed: int) -> np.ndarray:
    """Boosted trees on pooled features, scikit-learn's as the report has them."""
    return class_trees(pools(train), train.label, seed)(pools(test))[:, 1]


def lightgbm(train: Bags, test: Bags, seed: int) -> np.ndarray:
    """LightGBM on pooled features, as careful as scikit-learn's trees: its defaults are worse."""
    from lightgbm import LGBMClassifier

    model = LGBMClassifier(
        n_estimators=100, learning_rate=0.05, colsample_bytree=0.3,
        random_state=seed, n_jobs=1, verbose=-1,
    )  # fmt: skip
    return model.fit(pools(train), train.label).predict_proba(pools(test))[:, 1]


def smooth(train: Bags, test: Bags, seed: int) -> np.ndarray:
    """Logistic regression on bags' means of Nystroem features of a Gaussian kernel."""
    rows, of = train.modalities[0].features, test.modalities[0].features
    scale = StandardScaler().fit(rows)
    count = min(200, len(np.unique(rows, axis=0)))
    gamma = 1.0 / rows.shape[1]
    kernel = Nystroem(gamma=gamma, n_components=count, random_state=seed).fit(scale.transform(rows))

    def means(data: Bags, x: np.ndarray) -> np.ndarray:
        mapped = kernel.transform(scale.transform(x))
        instances = Instances(mapped, data.modalities[0].offsets)
        return np.hstack([pooled(instances)[:, : mapped.shape[1]], sizes_of(data)])

    head = LogisticRegressionCV(
        Cs=7, cv=5, scoring="neg_log_loss", max_iter=2000, l1_ratios=(0.0,),
        use_legacy_attributes=False,
    )  # fmt: skip
    model = make_pipeline(StandardScaler(), head).fit(means(train, rows), train.label)
    return model.predict_proba(means(test, of))[:, 1]


def instances(train: Bags, test: Bags, seed: int) -> np.ndarray:
    """Boosted trees on instances with their bag's label, and a head on scores out of fold."""
    rows = np.concatenate([d.modalities[0].features for d in (train, test)]).astype(np.float32)
    bag = np.concatenate([train.modalities[0].bag, train.n_bags + test.modalities[0].bag])
    n = train.n_bags + test.n_bags
    label = np.concatenate([train.label, test.label]).astype(np.int64)
    at = np.arange(n)
    held = at >= train.n_bags
    of = Held(np.empty((n, 0)), label.astype(float), held, held, rows, bag, at)
    return by_instances(of, at[: train.n_bags], at[train.n_bags :], seed)


RIVALS: Rivals = {
    "trees on pools": boosted,
    "smooth means": smooth,
    "trees on instances": instances,
}
if find_spec("lightgbm"):
    RIVALS["LightGBM"] = lightgbm
if find_spec("torch"):
    from benchmarks.abmil import attention

    RIVALS["attention"] = attention


def evaluate(path: Path, seed: int, rivals: Rivals) -> list[dict[str, Any]]:
    """Return AUC, log loss and ECE of every method on one set; print them."""
    data, truth = read(path)
    y, k = data.label.astype(int), 2 if path.stem.startswith("newsgroups") else 5
    predicted: dict[str, np.ndarray] = {}
    weights, inside = [], np.zeros(data.n_instances)
    folds = list(StratifiedKFold(k, shuffle=True, random_state=0).split(y, y))
    for train, test in folds:
        some, new = data.take(train), data.take(test)
        found, weight, own = stack(some, new, seed)
        weights.append(weight)
        inside[np.isin(data.modalities[0].bag, test)] = own
        found |= {name: rival(some, new, seed) for name, rival in rivals.items()}
        for name, p in found.items():
            predicted.setdefault(name, np.zeros(y.size))[test] = p
    out = []
    for name, p in predicted.items():
        auc = float(np.mean([roc_auc_score(y[test], p[test]) for _, test in folds]))
        loss = float(log_loss(y, np.clip(p, 1e-15, 1 - 1e-15)))
        out.append({"set": path.stem, "method": name, "AUC": auc, "log loss": loss})
        print(f"{path.stem} {name}: {auc:.3f} / {loss:.3f} / {calibration_error(p, y):.3f}")
    share = ", ".join(f"{w:.2f}" for w in np.mean(weights, axis=0))
    inner = "" if truth is None else f"; instances' AUC {roc_auc_score(truth, inside):.3f}"
    print(f"{path.stem} weights {share}{inner}", flush=True)
    return out


def table(found: pd.DataFrame) -> list[str]:
    """Return the table in Markdown, with means and mean ranks below it."""
    auc, loss = (found.pivot(index="set", columns="method", values=v) for v in ("AUC", "log loss"))
    names = list(found["method"].unique())
    lines = [head(["set", *names])]
    for name in found["set"].unique():
        lines.append(
            row([name, *(f"{auc.loc[name, n]:.3f} / {loss.loc[name, n]:.3f}" for n in names)])
        )
    compared = [n for n in names if n not in ("embedding", "gp_probit", "base rate")]
    for what, values, sign in (("AUC", auc[compared], -1.0), ("log loss", loss[compared], 1.0)):
        ranks = (sign * values).rank(axis=1, method="min").mean()
        listed = ", ".join(f"{name} {rank:.2f}" for name, rank in ranks.items())
        means = ", ".join(f"{name} {mean:.3f}" for name, mean in values.mean().items())
        lines.append(f"\nMean rank in {what}: {listed}. Mean {what}: {means}.")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rivals", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for package in ("lightgbm", "torch"):
        if given.rivals and not find_spec(package):
            print(f"a rival is left out: pip install {package}", flush=True)
    paths = sorted(given.folder.glob("*.parquet"))
    paths = [p for p in paths if given.sets is None or p.stem in given.sets]
    rivals = RIVALS if given.rivals else {}
    for seed in range(given.seeds):
        found = pd.DataFrame([one for path in paths for one in evaluate(path, seed, rivals)])
        print(f"\nSeed {seed}\n\n" + "\n".join(table(found)))


if __name__ == "__main__":
    main()
