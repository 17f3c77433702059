"""Small runs of experts, one of each kind of answer."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.flows.commands import setting_args

OF = ("--column", "id=patient", "--column", "label=diagnosis")
QUICK = setting_args("n_experts=1", "gaussian_process=false")
WORDS = np.array(["benign", "malignant"])


def patients(n=240, seed=0, first=0):
    """Return patients with a marker, an age and a site, and what their diagnoses depend on."""
    rng = np.random.default_rng(seed)
    marker, age = rng.normal(size=n).round(3), rng.normal(50.0, 9.0, n).round(1)
    site = rng.choice(["breast", "lung", "skin"], n)
    odds = 2.5 * marker + 0.06 * (age - 50.0) + 1.0 * (site == "skin") - 0.5
    columns = {"patient": [f"P{first + i:03d}" for i in range(n)], "marker": marker, "age": age}
    return columns | {"site": site}, odds, rng


def sources():
    """Return the tables of the runs, by name."""
    columns, odds, rng = patients()
    diagnosis = WORDS[(odds + rng.logistic(size=240) > 0.0).astype(int)]
    new, new_odds, of_new = patients(40, 1, 500)
    new["age"][3] = 120.0
    known = WORDS[(new_odds + of_new.logistic(size=40) > 0.0).astype(int)]
    person, strength = [f"H{i // 4}" for i in range(240)], np.repeat(rng.normal(size=60), 4)
    relapse = np.where(odds + 2.0 * strength > 0.0, "yes", "no")
    grade = np.array(["low", "medium", "high"])[np.digitize(odds + rng.normal(size=240), [-1, 1])]
    site = columns["site"]
    kind = np.where(odds > 1.5, "solid", np.where(site == "lung", "fluid", "mixed"))
    kinds = np.where(rng.random(240) < 0.1, "mixed", kind)
    return {
        "label": columns | {"diagnosis": diagnosis},
        "new": new,
        "new_labels": new | {"diagnosis": known},
        "groups": columns | {"relapse": relapse, "home": person, "wt": rng.integers(1, 4, 240)},
        "classes": columns | {"tissue": kinds},
        "levels": columns | {"grade": grade},
        "number": columns | {"size": (20.0 + 3.0 * odds + 2.0 * rng.normal(size=240)).round(2)},
        "count": columns | {"visits": rng.poisson(np.exp(0.4 * odds + 1.5))},
        "noise": columns | {"diagnosis": WORDS[rng.integers(0, 2, 240)]},
    }


RUNS = {
    "label": ("experts", "label.parquet", *OF),
    "held_out": ("experts", "label.parquet", *OF, *QUICK, *setting_args("test_share=0.4")),
    "groups": ("experts", "groups.parquet", "--column", "id=patient", "--column", "label=relapse",
               "--column", "group=home", "--column", "weight=wt", *QUICK),
    "classes": ("experts", "classes.parquet", "--column", "id=patient", "--column", "label=tissue",
                *QUICK),
    "levels": ("experts", "levels.parquet", "--column", "id=patient", "--column", "label=grade",
               *setting_args("target=ordered"), *QUICK),
    "number": ("experts", "number.parquet", "--column", "id=patient", "--column", "label=size"),
    "count": ("experts", "count.parquet", "--column", "id=patient", "--column", "label=visits"),
    "noise": ("experts", "noise.parquet", *OF, *QUICK),
    "sampled": ("experts", "label.parquet", *OF,
                *setting_args("inference=mh", "n_experts=2", "warmup=60", "draws=30", "chains=2")),
    "not_tested": ("experts", "label.parquet", *OF, *QUICK, *setting_args("test_share=0")),
    "score": ("score", "held_out", "new.parquet"),
    "score_labels": ("score", "held_out", "new_labels.parquet"),
    "score_seen": ("score", "held_out", "label.parquet"),
    "score_number": ("score", "number", "new.parquet"),
    "score_classes": ("score", "classes", "new.parquet"),
}  # fmt: skip
"""The command of each kind of answer: a pipeline with its input, or a score of a run's fit."""


def write_sources(folder: Path) -> None:
    for name, table in sources().items():
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
