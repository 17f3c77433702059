"""vMMIC beside its rivals on the text's simulation and on real bags, and beside BLAS.

    python -m benchmarks.vmmic speed
    python -m benchmarks.vmmic study --replicates 20
    python -m benchmarks.vmmic real --data FOLDER     # musk1, musk2, tiger, fox as Parquet

Every part writes a Markdown table to stdout. Times are CPU seconds of one thread; set
OMP_NUM_THREADS=1. The loops are compiled before anything is timed.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from vbmodels.cavi import NotConverged, fit
from vbmodels.mil.batch import Bags, Instances, bags
from vbmodels.mil.collapsed import CollapsedVMMIC
from vbmodels.mil.layout import Moments
from vbmodels.mil.likelihood import Likelihood
from vbmodels.mil.mode import FewBags
from vbmodels.mil.posterior import Prediction, predict
from vbmodels.mil.printed import PrintedVMMIC
from vbmodels.mil.simulate import simulate
from vbmodels.mil.vmmic import MeanFieldVMMIC

Fitted = Callable[[Bags], Prediction]
Methods = dict[str, Callable[[Bags], Fitted]]


def seconds(function: Callable[[], Any], repeats: int = 7) -> float:
    """Return the least CPU seconds of several calls."""
    best = np.inf
    for _ in range(repeats):
        begin = time.process_time()
        function()
        best = min(best, time.process_time() - begin)
    return best


def say(*cells: object) -> None:
    """Write one row of a Markdown table."""
    sys.stdout.write("| " + " | ".join(str(c) for c in cells) + " |\n")
    sys.stdout.flush()


def head(*cells: str) -> None:
    """Write the head of a table."""
    sys.stdout.write("\n")
    say(*cells)
    sys.stdout.write("|---" * len(cells) + "|\n")


# Methods: each takes training bags and returns what predicts new ones.


def variational(model: Any, max_iter: int) -> Callable[[Bags], Fitted]:
    """Fit one of our forms; ``max_iter`` bounds those that creep."""

    def method(data: Bags) -> Fitted:
        posterior = model.posterior(fit(model, [data], tol=1e-6, max_iter=max_iter).q)
        return lambda new: predict(posterior.draws(), posterior.scaling, new)

    return method


def blocks(data: Bags) -> tuple[np.ndarray, np.ndarray]:
    """Return all instances in one matrix, modalities in blocks beside zeros, and their bags."""
    widths = [m.n_features for m in data.modalities]
    starts = np.cumsum([0, *widths])
    x = np.zeros((data.n_instances, starts[-1]))
    first = 0
    for k, m in enumerate(data.modalities):
        x[first : first + len(m.features), starts[k] : starts[k + 1]] = m.features
        first += len(m.features)
    return x, np.concatenate([m.bag for m in data.modalities])


def pooled(data: Bags) -> Fitted:
    """Logistic regression on each bag's mean features (scikit-learn, its defaults)."""

    def means(some: Bags) -> np.ndarray:
        columns = []
        for m in some.modalities:
            sums = [np.bincount(m.bag, x, some.n_bags) for x in m.features.T]
            columns.append(np.array(sums).T / np.maximum(m.sizes, 1)[:, None])
        return np.hstack(columns)

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    model.fit(means(data), data.label)
    return lambda new: Prediction(model.predict_proba(means(new))[:, 1], (), ())


def single(data: Bags) -> Fitted:
    """Logistic regression on instances that carry their bag's label; a bag is their mean."""
    x, bag = blocks(data)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    model.fit(x, data.label[bag])

    def predicted(new: Bags) -> Prediction:
        x, bag = blocks(new)
        p = model.predict_proba(x)[:, 1]
        size = np.maximum(np.bincount(bag, minlength=new.n_bags), 1)
        ends = np.cumsum([len(m.features) for m in new.modalities])[:-1]
        return Prediction(np.bincount(bag, p, new.n_bags) / size, tuple(np.split(p, ends)), ())

    return predicted


COLLAPSED = variational(CollapsedVMMIC(), 4000)
OURS = {
    "collapsed": COLLAPSED,
    "mean field, 200 sweeps": variational(MeanFieldVMMIC(), 200),
    "as printed, 200 sweeps": variational(PrintedVMMIC(), 200),
}
RIVALS = {"mean-pooled logistic": pooled, "single-instance logistic": single}


# The study of the text's section 2.3.


def study(replicates: int, only: str) -> None:
    """Vary one factor at a time from n = 500, m = 20, r = 4, shares .35 and .35."""
    head("setting", "method", "replicates", "bag AUROC (se)", "primary AUROC (se)", "log loss",
         "fit, CPU s", "slowest")  # fmt: skip
    few = {"collapsed": COLLAPSED} | RIVALS
    half = max(replicates // 2, 3)
    rows: list[tuple[str, Methods, int, dict[str, Any]]] = [
        ("n=500", OURS | RIVALS, replicates, {}),
        *((f"n={n}", few, half, {"n_bags": n}) for n in (250, 1000, 4000)),
        ("n=16000", {"collapsed": COLLAPSED}, replicates, {"n_bags": 16_000}),
        ("n=16000", RIVALS, 2, {"n_bags": 16_000}),
        *((f"m={m}", few, half, {"bag_size": m}) for m in (10, 30, 40)),
        *((f"r={r}", few, half, {"ratio": float(r)}) for r in (1, 2, 3)),
        *((f"share={p}", few, half, {"primary": (0.35, p)}) for p in (0.1, 0.6, 0.85)),
    ]
    for setting, methods, count, factors in rows:
        if setting.startswith(only):
            row(setting, methods, count, **factors)


def row(setting: str, methods: Methods, replicates: int, **factors: Any) -> None:
    """Write one line a method: means over replicates with standard errors."""
    found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for seed in range(replicates):
        data, _ = simulate(np.random.default_rng([seed, 0]), **({"n_bags": 500} | factors))
        new, truth = simulate(np.random.default_rng([seed, 1]), **(factors | {"n_bags": 300}))
        primary = np.concatenate(truth.primary)
        for name, method in methods.items():
            begin = time.process_time()
            fitted = method(data)
            took = time.process_time() - begin
            said = fitted(new)
            at = np.concatenate(said.instances) if said.instances else None
            found[name].append(
                (
                    roc_auc_score(new.label, said.bag),
                    np.nan if at is None else roc_auc_score(primary, at),
                    log_loss(new.label, np.clip(said.bag, 1e-12, 1 - 1e-12)),
                    took,
                )
            )
    for name, lines in found.items():
        mean, se = np.mean(lines, axis=0), np.std(lines, axis=0) / np.sqrt(max(replicates - 1, 1))
        instance = "" if np.isnan(mean[1]) else f"{mean[1]:.3f} ({se[1]:.3f})"
        slowest = max(line[3] for line in lines)
        say(setting, name, replicates, f"{mean[0]:.3f} ({se[0]:.3f})", instance, f"{mean[2]:.3f}",
            f"{mean[3]:.2f}", f"{slowest:.2f}")  # fmt: skip


# Real bags.


def real(folder: Path, sets: Sequence[str]) -> None:
    """Five folds of the sets with bag labels."""
    head("set", "method", "AUROC (sd over folds)", "log loss", "fit, CPU s")
    methods = {"collapsed": COLLAPSED} | RIVALS
    for name in sets:
        data = read(folder / f"{name}.parquet")
        found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        for train, test in folds.split(np.zeros(data.n_bags), data.label):
            new = data.take(test)
            for method_name, method in methods.items():
                begin = time.process_time()
                fitted = method(data.take(train))
                took = time.process_time() - begin
                p = fitted(new).bag
                loss = log_loss(new.label, np.clip(p, 1e-12, 1 - 1e-12))
                found[method_name].append((roc_auc_score(new.label, p), loss, took))
        for method_name, lines in found.items():
            mean, sd = np.mean(lines, axis=0), np.std(lines, axis=0)
            say(name, method_name, f"{mean[0]:.3f} ({sd[0]:.3f})", f"{mean[1]:.3f}",
                f"{mean[2]:.2f}")  # fmt: skip


def read(path: Path) -> Bags:
    """Read bags of one modality from Parquet."""
    table = pq.read_table(path)
    features = np.stack(table["features"].to_numpy()).astype(float)
    names, bag = np.unique(table["bag_id"].to_numpy(), return_inverse=True)
    label = np.zeros(names.size, np.int8)
    label[bag] = table["label"].to_numpy()
    return bags([Instances.from_rows(bag, features, names.size)], label)


# Speed against the BLAS calls that cannot be avoided on the same arrays.


def yelp_size(rng: np.random.Generator) -> Bags:
    """37,150 bags with 13.5 instances of 16 features and 3.7 of 64 on average, labels by vMMIC."""
    n = 37_150
    parts, score = [], np.zeros(n)
    for mean, width in ((13.5, 16), (3.7, 64)):
        bag = np.repeat(np.arange(n), rng.poisson(mean, n))
        x = rng.normal(size=(bag.size, width))
        b, beta = rng.normal(size=(2, width)) / np.sqrt(width)
        delta = rng.random(bag.size) < 1.0 / (1.0 + np.exp(1.0 - 3.0 * x @ b))
        score += np.bincount(bag, delta * (x @ beta) * 2.0, n)
        parts.append(Instances.from_rows(bag, x, n))
    return bags(parts, (score + rng.normal(size=n) > 0).astype(np.int8))


def speed() -> None:
    """Time an evaluation, a sweep and a whole fit."""
    head("bags", "what", "ours, ms", "BLAS floor, ms", "ratio")
    sets = {
        "16,000 x 20": simulate(np.random.default_rng(0), 16_000)[0],
        "37,150 (Yelp's size)": yelp_size(np.random.default_rng(0)),
    }
    whole = []
    for name, data in sets.items():
        scaling = Moments.of(data).scaling(standardise=True)
        t = 0.3 * np.random.default_rng(1).normal(size=scaling.layout.dim)
        likelihood = Likelihood(scaling)
        ours = partial(likelihood.evaluate, t, data)
        compare(name, "evaluation, float64", ours, evaluation_floor(data))
        single = bags(
            [Instances(m.features.astype(np.float32), m.offsets) for m in data.modalities],
            data.label,
        )
        ours = partial(likelihood.evaluate, t, single)
        compare(name, "evaluation, float32", ours, evaluation_floor(single))
        ours = partial(Likelihood(scaling, use_compiled=False).evaluate, t, data)
        compare(name, "evaluation, NumPy form", ours, evaluation_floor(data))
        model = MeanFieldVMMIC(start="zero")
        q = model.init(model.observe(data), np.random.default_rng(0))
        local = model.local_step(q, data, None)
        ours = partial(one_sweep, model, q, data, local)
        compare(name, "mean-field sweep, float64", ours, sweep_floor(data))
        begin = time.process_time()
        done = fit(CollapsedVMMIC(), [data], max_iter=4000)
        whole.append((name, done.iterations, time.process_time() - begin))
    head("bags", "whole collapsed fit: evaluations", "CPU s")
    for line in whole:
        say(line[0], line[1], f"{line[2]:.1f}")


def one_sweep(model: MeanFieldVMMIC, q: Any, data: Bags, local: Any) -> None:
    """Do the local step and its sums."""
    model.suff_stats(q, data, model.local_step(q, data, local))


def compare(
    name: str, what: str, ours: Callable[[], Any], floor: Sequence[Callable[[], Any]]
) -> None:
    """Time both in turns and write the ratio of the best."""
    best, least = np.inf, np.full(len(floor), np.inf)
    for _ in range(7):
        best = min(best, seconds(ours, 1))
        least = np.minimum(least, [seconds(call, 1) for call in floor])
    total = float(least.sum())
    say(name, what, f"{1e3 * best:.1f}", f"{1e3 * total:.1f}", f"{best / total:.2f}")


def evaluation_floor(data: Bags) -> list[Callable[[], Any]]:
    """X [b, beta], the two products of an instance's weight with X, and the Gram of J."""
    calls: list[Callable[[], Any]] = []
    width = 1
    for m in data.modalities:
        x, two = m.features, np.ones((m.n_features, 2), m.features.dtype)
        weights = np.ones((2, len(x)), x.dtype)
        calls += [lambda x=x, two=two: x @ two, lambda x=x, weights=weights: weights @ x]
        width += 1 + 2 * m.n_features
    jacobian = np.random.default_rng(0).normal(size=(data.n_bags, width))
    return [*calls, lambda: jacobian.T @ jacobian]


def sweep_floor(data: Bags) -> list[Callable[[], Any]]:
    """Two X b, one X' u and one X' W X a modality."""
    calls: list[Callable[[], Any]] = []
    for m in data.modalities:
        x, b, u = m.features, np.ones(m.n_features), np.ones(len(m.features))
        w = u[:, None]
        calls += [lambda x=x, b=b: x @ b] * 2
        calls += [lambda x=x, u=u: u @ x, lambda x=x, w=w: x.T @ (w * x)]
    return calls


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("speed", "study", "real"))
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["musk1", "musk2", "tiger", "fox"])
    parser.add_argument("--only", help="of the study, the rows whose setting begins so")
    options = parser.parse_args()
    for ignored in (ConvergenceWarning, FewBags, NotConverged):
        warnings.simplefilter("ignore", ignored)
    COLLAPSED(simulate(np.random.default_rng(0), 60)[0])
    if options.part == "speed":
        speed()
    elif options.part == "study":
        study(options.replicates, options.only or "")
    elif options.data is None:
        parser.error("real needs --data FOLDER")
    else:
        real(options.data, options.sets)


if __name__ == "__main__":
    main()
