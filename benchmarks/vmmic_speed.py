"""vMMIC's evaluation and sweep beside the BLAS calls that cannot be avoided on the same arrays."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from vbmodels.bags.batch import Bags, Instances, bags
from vbmodels.bags.collapsed import CollapsedVMMIC
from vbmodels.bags.layout import Observed
from vbmodels.bags.likelihood import Likelihood
from vbmodels.bags.simulate import simulate
from vbmodels.core.fit import fit


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
    """Time an evaluation and a whole fit."""
    head("bags", "what", "ours, ms", "BLAS floor, ms", "ratio")
    sets = {
        "16,000 x 20": simulate(np.random.default_rng(0), 16_000)[0],
        "37,150 (Yelp's size)": yelp_size(np.random.default_rng(0)),
    }
    whole = []
    for name, data in sets.items():
        scaling = Observed.of(data).scaling(standardise=True)
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
        begin = time.process_time()
        done = fit(CollapsedVMMIC(), [data], max_iter=4000)
        whole.append((name, done.iterations, time.process_time() - begin))
    head("bags", "whole collapsed fit: evaluations", "CPU s")
    for line in whole:
        say(line[0], line[1], f"{line[2]:.1f}")


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
