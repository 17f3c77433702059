"""vMMIC beside its rivals on the text's simulation and on real bags, and beside BLAS.

    python -m benchmarks.vmmic speed
    python -m benchmarks.vmmic study --replicates 20
    python -m benchmarks.vmmic real --data FOLDER     # musk1, musk2, tiger, fox as Parquet

Every part writes a Markdown table to stdout. Times are CPU seconds of one thread; set
OMP_NUM_THREADS=1. The loops are compiled before anything is timed. torchmil's ABMIL takes
part where it can be imported: it is no dependency of ours.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.vmmic_rivals import ATTENTION, MISSING, RIVALS, Fitted, Methods, pooled_by_folds
from benchmarks.vmmic_speed import head, say, speed
from reproduce.vmmic_as_printed import PrintedVMMIC
from vbmodels.bags.batch import Bags, Instances, bags
from vbmodels.bags.collapsed import CollapsedVMMIC
from vbmodels.bags.mode import FewBags
from vbmodels.bags.posterior import predict
from vbmodels.bags.published.vmmic import MeanFieldVMMIC
from vbmodels.bags.simulate import simulate
from vbmodels.core.fit import NotConverged, fit

# Methods: each takes training bags and returns what predicts new ones.


def variational(model: Any, max_iter: int) -> Callable[[Bags], Fitted]:
    """Fit one of our forms; ``max_iter`` bounds those that creep."""

    def method(data: Bags) -> Fitted:
        posterior = model.posterior(fit(model, [data], tol=1e-6, max_iter=max_iter).q)
        return lambda new: predict(posterior.draws(), posterior.scaling, new)

    return method


COLLAPSED = variational(CollapsedVMMIC(), 4000)
OURS = {
    "collapsed": COLLAPSED,
    "mean field, 200 sweeps": variational(MeanFieldVMMIC(), 200),
    "as printed, 200 sweeps": variational(PrintedVMMIC(), 200),
}
# The study of the text's section 2.3.


def study(replicates: int, only: str, method: str) -> None:
    """Vary one factor at a time from n = 500, m = 20, r = 4, shares .35 and .35."""
    head("setting", "method", "replicates", "bag AUROC (se)", "primary AUROC (se)", "log loss",
         "fit, CPU s", "slowest")  # fmt: skip
    few = {"collapsed": COLLAPSED} | RIVALS
    half = max(replicates // 2, 3)
    rows: list[tuple[str, Methods, int, dict[str, Any]]] = [
        ("n=500", OURS | RIVALS, replicates, {}),
        ("n=500", ATTENTION, half, {}),
        *((f"n={n}", ATTENTION, 3, {"n_bags": n}) for n in (250, 1000, 4000)),
        *((f"n={n}", few, half, {"n_bags": n}) for n in (250, 1000, 4000)),
        ("n=16000", {"collapsed": COLLAPSED}, replicates, {"n_bags": 16_000}),
        ("n=16000", RIVALS, 2, {"n_bags": 16_000}),
        *((f"m={m}", few, half, {"bag_size": m}) for m in (10, 30, 40)),
        *((f"r={r}", few, half, {"ratio": float(r)}) for r in (1, 2, 3)),
        *((f"share={p}", few, half, {"primary": (0.35, p)}) for p in (0.1, 0.6, 0.85)),
    ]
    for setting, methods, count, factors in rows:
        chosen = {name: run for name, run in methods.items() if name.startswith(method)}
        if setting.startswith(only) and chosen:
            row(setting, chosen, count, **factors)


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


def real(folder: Path, sets: Sequence[str], method: str) -> None:
    """Five folds of the sets with bag labels; scales are chosen within the training bags."""
    head("set", "method", "AUROC (sd over folds)", "log loss", "fit, CPU s")
    methods: Methods = {"collapsed": COLLAPSED} | RIVALS
    methods |= {"mean-pooled logistic, penalty by folds": pooled_by_folds} | ATTENTION
    for name in sets:
        data = read(folder / f"{name}.parquet")
        found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        for train, test in folds.split(np.zeros(data.n_bags), data.label):
            new = data.take(test)
            for method_name, run in methods.items():
                if not method_name.startswith(method):
                    continue
                begin = time.process_time()
                fitted = run(data.take(train))
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


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=("speed", "study", "real"))
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--sets", nargs="+", default=["musk1", "musk2", "tiger", "fox"])
    parser.add_argument("--only", default="", help="of the study, the rows whose setting begins so")
    parser.add_argument("--method", default="", help="the methods whose name begins so")
    options = parser.parse_args()
    for ignored in (ConvergenceWarning, FewBags, NotConverged):
        warnings.simplefilter("ignore", ignored)
    COLLAPSED(simulate(np.random.default_rng(0), 60)[0])
    if MISSING and options.part != "speed":
        sys.stderr.write(MISSING + "\n")
    if options.part == "speed":
        speed()
    elif options.part == "study":
        study(options.replicates, options.only, options.method)
    elif options.data is None:
        parser.error("real needs --data FOLDER")
    else:
        real(options.data, options.sets, options.method)


if __name__ == "__main__":
    main()
