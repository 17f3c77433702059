"""vMMIC, figures 2.2 to 2.4: three views of the simulation of section 2.3.

One factor is varied at a time; every form and rival is fitted to the same bags and tested on 300
new ones. Figure 2.2 has the AUROC of bags, 2.3 the seconds, 2.4 the AUROC of primary instances.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from reproduce.page import NOT_SAID, Page, canvas, mean_se, table
from reproduce.vmmic_as_printed import PrintedVMMIC
from vbmodels.bags.bags import Bags, Instances, bags
from vbmodels.bags.simulate import simulate
from vbmodels.bags.vmmic.gibbs import GibbsVMMIC
from vbmodels.bags.vmmic.mean_field import MeanFieldVMMIC
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import Prediction, predict
from vbmodels.core.fit import fit

# The forms and their rivals: each takes training bags and returns what predicts new ones.

Fitted = Callable[[Bags], Prediction]


def variational(model: Any, max_iter: int) -> Callable[[Bags], Fitted]:
    """Fit one of our forms; ``max_iter`` bounds those that creep."""

    def method(data: Bags) -> Fitted:
        posterior = model.posterior(fit(model, [data], tol=1e-6, max_iter=max_iter).q)
        return lambda new: predict(posterior.draws(), posterior.scaling, new)

    return method


def blocks(data: Bags) -> tuple[np.ndarray, np.ndarray]:
    """Return all instances in one matrix, modalities in blocks, zeros elsewhere, and their bags."""
    widths = [m.n_features for m in data.modalities]
    starts = np.cumsum([0, *widths])
    x = np.zeros((data.n_instances, starts[-1]))
    first = 0
    for k, m in enumerate(data.modalities):
        x[first : first + len(m.features), starts[k] : starts[k + 1]] = m.features
        first += len(m.features)
    return x, np.concatenate([m.bag for m in data.modalities])


def by_modality(data: Bags, values: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the values of instances in blocks, an array for each modality."""
    return tuple(np.split(values, np.cumsum([len(m.features) for m in data.modalities])[:-1]))


def regression() -> Any:
    """Return logistic regression on z-scores."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))


def pooled(data: Bags) -> Fitted:
    """Logistic regression on each bag's mean features (scikit-learn, its defaults)."""

    def means(some: Bags) -> np.ndarray:
        columns = []
        for m in some.modalities:
            sums = [np.bincount(m.bag, x, some.n_bags) for x in m.features.T]
            columns.append(np.array(sums).T / np.maximum(m.sizes, 1)[:, None])
        return np.hstack(columns)

    model = regression().fit(means(data), data.label)
    return lambda new: Prediction(model.predict_proba(means(new))[:, 1], (), ())


def single(data: Bags) -> Fitted:
    """Logistic regression on instances that carry their bag's label; a bag is their mean."""
    x, bag = blocks(data)
    model = regression().fit(x, data.label[bag])

    def predicted(new: Bags) -> Prediction:
        x, bag = blocks(new)
        p = model.predict_proba(x)[:, 1]
        size = np.maximum(np.bincount(bag, minlength=new.n_bags), 1)
        return Prediction(np.bincount(bag, p, new.n_bags) / size, by_modality(new, p), ())

    return predicted


def micprob(data: Bags) -> Fitted:
    """Sample MICProB: vMMIC of one modality, both put in one matrix with zeros, as the text."""

    def one_modality(some: Bags) -> tuple[Bags, np.ndarray]:
        x, bag = blocks(some)
        return bags([Instances.from_rows(bag, x, some.n_bags)], some.label), bag

    model = GibbsVMMIC(chains=2, warmup=200, draws=100)
    chains = fit(model, [one_modality(data)[0]], max_iter=10_000).q

    def predicted(new: Bags) -> Prediction:
        one, bag = one_modality(new)
        found = predict(chains.draws(64), chains.scaling, one)
        scores = np.empty(bag.size)
        scores[np.argsort(bag, kind="stable")] = found.instances[0]
        return Prediction(found.bag, by_modality(new, scores), ())

    return predicted


METHODS: dict[str, Callable[[Bags], Fitted]] = {
    "ours collapsed": variational(CollapsedVMMIC(), 4000),
    "ours mean field": variational(MeanFieldVMMIC(), 200),
    "ours as printed": variational(PrintedVMMIC(), 200),
    "rival pooled logistic": pooled,
    "rival instance logistic": single,
    "rival MICProB (Gibbs)": micprob,
}

# The simulation.

BASE = {"n": 500, "m": 20, "r": 4, "PPI1": 0.35}
VARIED: dict[str, tuple[float, ...]] = {
    "n": (250, 500, 1000, 2000, 4000, 16_000),
    "m": (10, 20, 30, 40),
    "r": (1, 2, 3, 4),
    "PPI1": (0.1, 0.35, 0.6, 0.85),
}
QUICK = {"n": (60,), "m": (10,)}
REPLICATES = {250: 4, 500: 4, 16_000: 1}
SAMPLED = 1  # replicates of MICProB, at n = 250 and 500 of the first panel only


@cache
def study(quick: bool) -> pd.DataFrame:
    """Run all methods over the settings, on the same data; once for all three figures."""
    METHODS["ours collapsed"](simulate(np.random.default_rng(0), 60)[0])  # compiles the loops
    rows = []
    for factor, values in (QUICK if quick else VARIED).items():
        for value in values:
            at = BASE | {"n": 60 if quick else BASE["n"]} | {factor: value}
            for seed in range(1 if quick else REPLICATES.get(int(value), 2)):
                chosen = [name for name in METHODS if runs(name, factor, value, seed)]
                setting = {"factor": factor, "value": value, "seed": seed}
                rows += [setting | figures for figures in replicate(at, seed, chosen)]
    return pd.DataFrame(rows)


def runs(name: str, factor: str, value: float, seed: int) -> bool:
    """Say whether a method takes part: forms that need many sweeps only in small settings."""
    if "MICProB" in name:
        return factor == "n" and value <= 500 and seed < SAMPLED
    creeps = name in ("ours mean field", "ours as printed")
    return (factor == "n" and value <= 1000) or not creeps


def replicate(
    at: Mapping[str, float], seed: int, names: Sequence[str]
) -> Iterator[dict[str, object]]:
    """Draw one replicate, fit each method and test it on new bags."""
    drawn: dict[str, Any] = {
        "bag_size": int(at["m"]), "ratio": float(at["r"]), "primary": (0.35, at["PPI1"]),
    }  # fmt: skip
    data, _ = simulate(np.random.default_rng([seed, 0]), n_bags=int(at["n"]), **drawn)
    new, truth = simulate(np.random.default_rng([seed, 1]), n_bags=300, **drawn)
    primary = np.concatenate(truth.primary)
    for name in names:
        begin = time.process_time()
        fitted = METHODS[name](data)
        seconds = time.process_time() - begin
        found = fitted(new)
        figures = {"method": name, "seconds": seconds, "bag": roc_auc_score(new.label, found.bag)}
        if found.instances:
            figures["primary"] = roc_auc_score(primary, np.concatenate(found.instances))
        yield figures


# The figures.


def measure_table(
    measure: str, found: pd.DataFrame, heading: str, published: Mapping[Any, str], digits: int = 3
) -> str:
    """Return a table of one measure: a row a setting, the published words, and our columns."""
    names = [name for name in METHODS if found.loc[found["method"] == name, measure].notna().any()]
    rows = []
    for (factor, value), cells in found.groupby(["factor", "value"], sort=False):
        mine = [mean_se(cells.loc[cells["method"] == name, measure], digits) for name in names]
        words = published.get((factor, value), NOT_SAID)
        rows.append((f"{factor} = {value:g}", str(cells["seed"].nunique()), words, *mine))
    return table(("setting", "replicates", heading, *names), rows)


def picture(measure: str, found: pd.DataFrame, label: str, log: bool = False) -> Figure:
    """Draw one measure over the settings, one panel a factor."""
    factors = found["factor"].unique()
    figure = canvas(len(factors), 1, 2.9, 3.2)
    shown = found.dropna(subset=measure)
    names = [name for name in METHODS if name in set(shown["method"])]
    for axes, factor in zip(figure.axes, factors, strict=True):
        for place, name in enumerate(names):
            own = shown[(shown["factor"] == factor) & (shown["method"] == name)]
            points = own.groupby("value")[measure].mean()
            if points.empty:
                continue
            style = "-" if name.startswith("ours") else ":"
            axes.plot(
                points.index, points, style, marker="o", ms=4, color=f"C{place}", label=name
            )  # fmt: skip
        axes.set_xlabel(factor)
        if factor == "n":
            axes.set_xscale("log")
        if log:
            axes.set_yscale("log")
    figure.axes[0].set_ylabel(label)
    figure.axes[0].legend(fontsize=7)
    return figure


def page_of(found: pd.DataFrame, name: str, drawn: Figure, **values: object) -> Page:
    """Return a page of the study; its seconds are those of all fits."""
    common = {"last_seed": found["seed"].max(), "sampled": SAMPLED}
    return Page(values | common, {f"{name}.png": drawn}, found["seconds"].sum())


def figure_2_2(data: Path, quick: bool) -> Page:
    """Show the AUROC of bags; the data are simulated."""
    found = study(quick)
    base = found[(found["factor"] == "n") & (found["value"] == (60 if quick else 500))]
    means = base.groupby("method", sort=False)["bag"].mean()
    collapsed = found[found["method"] == "ours collapsed"]
    by_value = collapsed.groupby(["factor", "value"])["bag"].mean()
    words = {
        ("n", 250): "rises with n",
        ("m", 10): "rises with m",
        ("r", 1): "hardly changes",
        ("PPI1", 0.1): "hardly changes",
    }
    return page_of(
        found, "vmmic-figure-2.2", picture("bag", found, "AUROC of bags"), means=means,
        n=by_value["n"].tolist(), m=by_value["m"].tolist(),
        settings=measure_table("bag", found, "published (words only)", words),
    )  # fmt: skip


def figure_2_3(data: Path, quick: bool) -> Page:
    """Show the seconds of the fits; the data are simulated."""
    found = study(quick)
    largest = found.loc[found["factor"] == "n", "value"].max()
    at = (found["method"] == "ours collapsed") & (found["value"] == largest)
    words = {("n", 16_000): "about 720", ("n", 500): "83 times below MICProB"}
    return page_of(
        found, "vmmic-figure-2.3", picture("seconds", found, "CPU seconds", True),
        largest=f"{largest:g}", seconds=found.loc[at, "seconds"],
        settings=measure_table("seconds", found, "published seconds (words only)", words, 2),
    )  # fmt: skip


def figure_2_4(data: Path, quick: bool) -> Page:
    """Show the AUROC of primary instances by the forms that score them; the data are simulated."""
    found = study(quick)
    means = found.groupby(["method", "factor", "value"])["primary"].mean()
    words = dict.fromkeys(found.set_index(["factor", "value"]).index, "above .8")
    return page_of(
        found, "vmmic-figure-2.4", picture("primary", found, "AUROC of instances"),
        collapsed=means["ours collapsed"], printed=means["ours as printed"],
        settings=measure_table("primary", found, "published vMMIC (words only)", words),
    )  # fmt: skip
