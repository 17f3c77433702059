"""Whether what users act on holds: expected and realised rates, slope and calibration error.

    python -m benchmarks.calibration [--seconds 540] [--data FOLDER] [FORM ...]
    python -m benchmarks.calibration --samplers [NAME ...]

By simulation, where the truth is known: item 8 of the contract (`vbmodels.testing.calibration`)
for every form that has forecasts, calls where samples differ in ways that no model draws, features
and their rows' shares, and intervals of areas under the ROC curve. On data at hand, where labels
are: selected keyphrases, bags, rows and cells that the fit did not see. Each form runs until its
part of the CPU seconds is used, so one command prints the table in so many seconds. *slope* is of
what came true on the logit of what was expected (below 1: over-confident), *ECE* the expected
calibration error in ten bins, *z* the difference in standard errors over runs.

With ``--samplers`` item 6 of the contract runs for every model that has a sampler: the least,
median and largest ratio of the sd under q to that of the draws, and the largest difference of the
means in posterior sd. It stops where a model fails its contract.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from scipy.special import expit, ndtr
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

sys.path.append("tests/outside/vbflows_counts")  # a package of the contract's table

from benchmarks import bag_stack, experts, ibp, keywords, variants
from benchmarks.harness import DATA, calibration_error, head, row
from flows.catalogue import pipeline_named
from flows.evaluate.estimate import auroc, auroc_interval
from flows.run import run
from flows.settings import ComputeSettings
from tests.contract.cases import cases
from vbmodels.estimators import MixtureOfExperts
from vbmodels.features.table import feature_batch
from vbmodels.keywords.corpus.selection import Histogram, select_above
from vbmodels.testing import truth
from vbmodels.testing.calibration import forecast_figures, inside
from vbmodels.testing.case import Bounds, Calibration, Forecast, Readings
from vbmodels.text.words import TextOptions
from vbmodels.variants.calls import called

COLUMNS = ("form", "runs", "what is read", "things", "expected", "realised", "z", "slope", "ECE")
WIDTHS = ("form", "least", "median", "largest", "largest difference of means, sd", "CPU s")
SHIFTED = ("af.01_oxo5", "af.01_caseerr2", "af.002_4000", "af.003_oxo5")
BAGS = ("musk1", "fox", "tiger")
Runs = Callable[[], Iterator[Readings]]


def contract(item: Calibration) -> Iterator[Readings]:
    """Yield runs of an item of the contract, each with a generator of its own."""
    for i in range(1000):
        yield item.run(np.random.default_rng([0, i]))


def shifted(name: str) -> Iterator[Readings]:
    """Yield the calls at the default level of scenarios whose samples differ as libraries do."""
    for i in range(400):
        counts, _, true, _ = variants.drawn(SHIFTED[i % len(SHIFTED)], 100 + i)
        lfdr = variants.fitted(variants.BATCH[name], counts).lfdr
        calls = called(lfdr, variants.LEVEL)
        yield {
            "alleles": Forecast(1.0 - lfdr, true),
            "calls": Forecast(1.0 - lfdr[calls], true[calls]),
        }


def features() -> Iterator[Readings]:
    """Yield rows' features of tables whose features are known.

    A found feature counts as the true one with which more than nine rows of ten agree.
    """
    for seed in range(500, 700):
        codes, z = ibp.drawn(seed, 200, 4)
        nu = ibp.published(feature_batch(codes, ibp.LEVELS), seed).features
        true, found, agree = ibp.matched(nu > 0.5, z > 0.5)
        kept = np.maximum(agree, 1.0 - agree) > ibp.MATCHED
        p = np.where(agree > 0.5, nu[:, found], 1.0 - nu[:, found])[:, kept]
        yield {"rows' features": Forecast(p.ravel(), z[:, true[kept]].ravel())}


def effects(columns: int, features: int, rows: int = 300) -> Iterator[Readings]:
    """Yield 95 % intervals of what each feature does to columns, of fits that find them all.

    The difference of two shares, in the order of the table's features that it is most like.
    """
    family = pipeline_named("features")
    for seed in range(1000):
        rng = np.random.default_rng([seed, columns])
        base, weight = rng.normal(0.0, 0.7, columns), rng.normal(0.0, 2.0, (features, columns))
        weight *= (rng.random(weight.shape) < 0.6) | (features == 1)
        z, other = (rng.random((n, features)) < 0.3 for n in (rows, 20_000))
        codes = (rng.random((rows, columns)) < expit(base + z @ weight)).astype(int)
        psi = [base + (other @ weight) - np.outer(other[:, k], weight[k]) for k in range(features)]
        true = np.array(
            [(expit(p + w) - expit(p)).mean(0) for p, w in zip(psi, weight, strict=True)]
        )
        with tempfile.TemporaryDirectory() as folder:
            names = [f"q{d}" for d in range(columns)]
            pd.DataFrame(codes, columns=names).to_csv(f"{folder}/in.csv", index=False)
            settings = family.settings(n_features=features, categories=names)
            out = run("features", f"{folder}/in.csv", f"{folder}/out", settings, ComputeSettings())
        meant = out["results"]["features"]
        if len(meant) != features:
            continue
        found = np.full((2, features, columns), np.nan)  # a report has twelve columns at most
        for k, c in [(k, c) for k, one in enumerate(meant) for c in one["changes"]]:
            sign = 1.0 if c["category"] == "1" else -1.0
            found[:, k, int(c["column"][1:])] = sign * (c["with_it"] - c["without_it"]), c["sd"]
        which = linear_sum_assignment(-abs(true @ found[0].T))[1]
        mean, sd = found[:, which]
        mean = (mean * np.sign((mean * true).sum(1, keepdims=True))).ravel()
        low, high = mean - 1.96 * sd.ravel(), mean + 1.96 * sd.ravel()
        yield {"95 % interval of an effect": inside(low, high, true.ravel())}


def areas() -> Iterator[Readings]:
    """Yield intervals of AUROC of normal scores, 10 to 60 of each label, of unequal spread."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        intervals, truth = [], []
        for _ in range(20):
            n, away = rng.integers(10, 61, 2), rng.uniform(0.2, 2.5)
            spread = np.exp(0.3 * rng.standard_normal())
            score = np.concatenate([rng.normal(0, 1, n[0]), rng.normal(away, spread, n[1])])
            area = auroc(np.repeat([0, 1], n), ndtr(score))
            intervals.append(auroc_interval(area, int(n[1]), int(n[0])))
            truth.append(ndtr(away / np.hypot(1.0, spread)))
        yield {"95 % interval of AUROC": inside(*np.array(intervals).T, np.array(truth))}


def keyphrases(folder: Path) -> Iterator[Readings]:
    """Yield hidden phrases, and those selected, of five corpora with 28 % of the phrases known."""
    for name, language in keywords.LANGUAGES.items():
        corpus = keywords.load("phrases", name, folder, 150, TextOptions(language=language))
        task = keywords.draw(corpus, "share", 0)
        r = np.clip(keywords.fitted(task, True)[0][:, -1], 0.0, 1.0 - 1e-12)
        least = Histogram.of(r, ~task.scored, task.offsets).least_by_f()
        taken = select_above(r, ~task.scored, task.offsets, least) & task.scored
        yield {
            "phrases not known": Forecast(r[task.scored], task.truth[task.scored]),
            "selected by count": Forecast(r[taken], task.truth[taken]),
        }


def bags_at_hand(folder: Path) -> Iterator[Readings]:
    """Yield held-out bags: one fold of five of each set in turn."""
    sets = [bag_stack.read(folder / f"{name}.parquet")[0] for name in BAGS]
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    parts = [list(folds.split(data.label, data.label)) for data in sets]
    for turn in zip(*parts, strict=True):
        for data, (seen, new) in zip(sets, turn, strict=True):
            held = data.take(new)
            p = bag_stack.stack(data.take(seen), held, 0)[0]["auto"]
            yield {"bags held out": Forecast(p, held.label)}


def rows_at_hand(folder: Path) -> Iterator[Readings]:
    """Yield held-out rows of pima, german and breast cancer, by the default."""
    for seed in range(6):
        for name in ("pima", "german", "breast_cancer")[: 3 if seed == 0 else 2]:
            x, y, new, truth = experts.split(folder, name, seed)
            p = MixtureOfExperts(random_state=0).fit(x, y).predict_proba(new)[:, 1]
            yield {"rows held out": Forecast(p, truth)}


def cells_at_hand(folder: Path) -> Iterator[Readings]:
    """Yield every category of hidden cells, a tenth of a table of votes and of one of answers."""
    tables = [ibp.table(folder / "vote.parquet"), ibp.table(folder / "youthdep26.parquet", 500)]
    for seed in range(6):
        codes, levels = tables[seed % 2]
        batch, true, column = ibp.hidden(codes, levels, seed)
        cells = ibp.ibp_searched(batch, seed)
        which = np.arange(cells.shape[1])
        scored = (which < levels[column][:, None]) & (true >= 0)[:, None] & (which > 0)
        right = true[:, None] == which
        yield {"categories of hidden cells": Forecast(cells[scored], right[scored])}


def forms(data: Path) -> dict[str, Runs]:
    """Return what is run, by name: simulated, then on data at hand where there are any."""
    found: dict[str, Runs] = {}
    for case in cases():
        for item in () if isinstance(case.calibration, str) else case.calibration:
            if item.bounds:
                found[item.form] = partial(contract, item)
    found |= {
        "variants, batches shifted": partial(shifted, "batch"),
        "variants, contexts shifted": partial(shifted, "contexts"),
        "features, search": features,
        "features, effects of one": partial(effects, 5, 1),
        "features, effects of three": partial(effects, 12, 3, 1_000),
        "any, AUROC": areas,
    }
    if data.is_dir():
        found |= {
            "keywords, five corpora": partial(keyphrases, data / "keywords"),
            f"bags, {', '.join(BAGS)}": partial(bags_at_hand, data / "bags"),
            "experts, pima, german, breast cancer": partial(rows_at_hand, data / "experts"),
            "features, vote, YouthDep": partial(cells_at_hand, data / "features"),
        }
    return found


def line(form: str, name: str, parts: list[Forecast]) -> str:
    """Return a line of the table: one reading over all runs."""
    expected = np.concatenate([p.expected for p in parts])
    realised = np.concatenate([p.realised for p in parts]).astype(float)
    bounds = Bounds() if np.ptp(expected) > 0.3 else Bounds(slope=None, bins=None)
    own = {f.name: f for f in forecast_figures(name, parts, bounds)}
    large = own["in the large"]
    z = f"{large.value / large.error:.1f}" if len(parts) > 1 else ""
    at = own.get("slope")
    fewest = min(realised.sum(), (1.0 - realised).sum())
    slope = f"{at.value:.2f} ({at.error:.2f})" if at is not None and fewest >= 10 else ""
    return row([
        form, len(parts), name, f"{expected.size:,}", f"{expected.mean():.4f}",
        f"{realised.mean():.4f}", z, slope, f"{calibration_error(expected, realised):.3f}",
    ])  # fmt: skip


def samplers(names: list[str]) -> None:
    """Print how overconfident each variational form is."""
    print(head(WIDTHS))
    with threadpool_limits(1):
        for case in cases():
            if isinstance(case.sampler, str) or (names and case.name not in names):
                continue
            began = time.process_time()
            found = truth.check_sampler(case, case.sampler)
            figures = [found[f"{which} sd ratio"] for which in ("smallest", "median", "largest")]
            figures.append(found["largest mean difference in sd"])
            said = [f"{figure:.2f}" for figure in figures]
            print(row([case.name, *said, f"{time.process_time() - began:.1f}"]), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=540.0, help="CPU seconds of all forms")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data at hand")
    parser.add_argument("forms", nargs="*", help="forms of the table; empty: all")
    parser.add_argument("--samplers", action="store_true", help="compare q with the samplers")
    given = parser.parse_args()
    if given.samplers:
        samplers(given.forms)
        return
    found = {n: r for n, r in forms(given.data).items() if not given.forms or n in given.forms}
    print(head(COLUMNS), flush=True)
    left = given.seconds
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fits that stop early say so
        for i, (form, runs) in enumerate(found.items()):
            began, done = time.process_time(), []
            for readings in runs():
                done.append(readings)
                used = time.process_time() - began
                if used > left / (len(found) - i):
                    break
            left -= used
            for name in done[0]:
                parts = [p for r in done if isinstance(p := r[name], Forecast) and p.expected.size]
                if parts:
                    print(line(form, name, parts), flush=True)


if __name__ == "__main__":
    main()
