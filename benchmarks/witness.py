"""The parts of the witness one at a time, and its posterior beside a sampler of its own.

    python -m benchmarks.witness FOLDER [--sets elephant msrcv2_0] [--sampler elephant msrcv2_0]

Sets and folds are those of `benchmarks.bag_stack`. The first table has bags' (and, where they are
known, instances') log loss of each form. The second compares means and standard deviations of f
at the instances of the first fold, and bags' probabilities, with elliptical slice sampling
(Murray, Adams and MacKay 2010) of the same posterior, whose likelihood is written anew here.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from scipy.special import log_ndtr
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedKFold

from benchmarks.bag_stack import read
from vbmodels.bags.batch import Bags
from vbmodels.bags.gp_direct import DirectGP
from vbmodels.bags.gp_features import LEAK
from vbmodels.bags.gp_kernel import KernelOptions
from vbmodels.bags.gp_predict import predict
from vbmodels.bags.gp_probit import Posterior
from vbmodels.core.fit import fit
from vbmodels.core.linalg import solve_lower

WITHOUT = KernelOptions(leak=False)
FORMS: dict[str, DirectGP] = {
    "mode, no leak (before)": DirectGP(WITHOUT, posterior_form="laplace"),
    "nearest Gaussian, no leak": DirectGP(WITHOUT),
    "nearest Gaussian, leak (default)": DirectGP(),
    "the same, label noise .01": DirectGP(KernelOptions(label_noise=0.01)),
}
CHAINS, DRAWS, THIN, WARMUP = 4, 1000, 20, 1000


def folds(path: Path, data: Bags) -> list[tuple[np.ndarray, np.ndarray]]:
    y = data.label.astype(int)
    count = 2 if path.stem.startswith("newsgroups") else 5
    return list(StratifiedKFold(count, shuffle=True, random_state=0).split(y, y))


def labels_of_instances(path: Path, data: Bags) -> np.ndarray | None:
    """Return the instances' labels where all are known."""
    table = pq.read_table(path)
    if "instance_label" not in table.column_names:
        return None
    names = np.array(table["bag_id"].to_pylist())
    told = table["instance_label"].to_numpy(zero_copy_only=False).astype(float)
    told = told[np.argsort(np.unique(names, return_inverse=True)[1], kind="stable")]
    return None if np.isnan(told).any() else told.astype(int)


def compared(path: Path) -> str:
    """Return one row of the first table."""
    data = read(path)[0]
    truth = labels_of_instances(path, data)
    cells = []
    for model in FORMS.values():
        bag, inside = np.zeros(data.n_bags), np.zeros(data.n_instances)
        clock = time.process_time()
        for train, test in folds(path, data):
            q = fit(model, [data.take(train)], seed=0, max_iter=3000).q
            (found,) = predict(model.posterior(q), data.take(test))
            bag[test] = found.bag_probability
            inside[np.isin(data.modalities[0].bag, test)] = found.probability
        cell = f"{loss(data.label, bag):.3f}"
        if truth is not None:
            cell += f" [{loss(truth, inside):.4f}]"
        cells.append(f"{cell} ({time.process_time() - clock:.1f})")
    return f"| {path.stem} | " + " | ".join(cells) + " |"


def loss(y: np.ndarray, p: np.ndarray) -> float:
    return float(log_loss(y, np.clip(p, 1e-15, 1 - 1e-15), labels=[0, 1]))


def phi_of(post: Posterior, data: Bags) -> tuple[np.ndarray, np.ndarray]:
    """Return phi and s of the instances."""
    f, k = post.features, int(post.kernel[0])
    columns, residual = f.base(data.modalities[0].features)
    return columns[f.which[k]] * f.weights[k], np.sqrt(1.0 + f.amplitude[k] * residual[f.which[k]])


def none_positive(post: Posterior, data: Bags) -> Callable[[np.ndarray], np.ndarray]:
    """Return w [S, P] -> the chance that no instance and no leak is positive, its log, [S, B]."""
    f = post.features
    phi, s = phi_of(post, data)
    scaled, mean = phi / s[:, None], f.offset / s
    starts = data.modalities[0].offsets[:-1]

    def told(w: np.ndarray) -> np.ndarray:
        total = np.add.reduceat(log_ndtr(-(mean + w @ scaled.T)), starts, axis=1)
        if f.leak:
            total = total + log_ndtr(-(LEAK[0] + LEAK[1] * w[:, [f.leak_column]]))
        return total

    return told


def slices(post: Posterior, data: Bags, rng: np.random.Generator) -> np.ndarray:
    """Return draws of w by elliptical slice sampling from its N(0, I) prior, [S, P]."""
    none, positive = none_positive(post, data), data.label == 1

    def likelihood(w: np.ndarray) -> float:
        told = none(w[None])[0]
        return float(np.where(positive, np.log(-np.expm1(np.minimum(told, -1e-300))), told).sum())

    w = 0.1 * rng.standard_normal(post.mean.shape[1])
    now, kept = likelihood(w), []
    for i in range(WARMUP + DRAWS * THIN):
        other, least = rng.standard_normal(w.size), now + np.log(rng.random())
        angle = rng.uniform(0.0, 2.0 * np.pi)
        low, high = angle - 2.0 * np.pi, angle
        while True:
            trial = w * np.cos(angle) + other * np.sin(angle)
            value = likelihood(trial)
            if value > least:
                break
            low, high = (angle, high) if angle < 0.0 else (low, angle)
            angle = rng.uniform(low, high)
        w, now = trial, value
        if i >= WARMUP and (i - WARMUP) % THIN == 0:
            kept.append(w)
    return np.array(kept)


def beside_a_sampler(path: Path) -> list[str]:
    """Return the rows of the second table for one set."""
    data = read(path)[0]
    train, test = (data.take(part) for part in folds(path, data)[0])
    rows = []
    for name, model in FORMS.items():
        if model.options.label_noise:
            continue
        post = model.posterior(fit(model, [train], seed=0, max_iter=3000).q)
        chains = [slices(post, train, np.random.default_rng(j)) for j in range(CHAINS)]
        phi, _ = phi_of(post, test)
        f = post.features.offset + np.array(chains) @ phi.T
        within = f.var(axis=1, ddof=1).mean(axis=0)
        r_hat = np.sqrt(1.0 + f.mean(axis=1).var(axis=0, ddof=1) / within).max()
        mean, sd = f.mean(axis=(0, 1)), f.reshape(-1, len(phi)).std(axis=0)
        bag = -np.expm1(none_positive(post, test)(np.concatenate(chains))).mean(axis=0)
        (found,) = predict(post, test)
        own = np.sqrt((solve_lower(post.factor[0], phi.T) ** 2).sum(axis=0))
        rows.append(
            f"| {path.stem} | {name} | {np.median(own / sd):.3f} | "
            f"{np.mean(np.abs(found.score - mean) / sd):.3f} | "
            f"{np.abs(found.bag_probability - bag).mean():.4f} | "
            f"{loss(test.label, found.bag_probability):.3f} | {loss(test.label, bag):.3f} | "
            f"{r_hat:.3f} |"
        )
    return rows


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("--sets", nargs="*", default=())
    asked.add_argument("--sampler", nargs="*", default=())
    given = asked.parse_args()
    warnings.simplefilter("ignore")
    if given.sets:
        print("| set | " + " | ".join(FORMS) + " |" + "\n" + "|---" * (1 + len(FORMS)) + "|")
    for name in given.sets:
        print(compared(given.folder / f"{name}.parquet"), flush=True)
    if given.sampler:
        print(
            "\n| set | form | sd ratio | shift in sd | mean difference of P | log loss | "
            "sampler's | R-hat |\n" + "|---" * 8 + "|"
        )
    for name in given.sampler:
        print("\n".join(beside_a_sampler(given.folder / f"{name}.parquet")), flush=True)


if __name__ == "__main__":
    main()
