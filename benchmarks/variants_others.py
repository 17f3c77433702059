"""Several cases without a control: each against the other cases, and each alone.

    python -m benchmarks.variants_others run OUT.jsonl [--seeds 20] [--first 0] [--only NAME ...]
    python -m benchmarks.variants_others summary OUT.jsonl

Cases of one replicate each, 150 positions at 4000x; every sample has errors of its own by site and
substitution. Each case in turn is tested with the others as its panel ("others"), and without any
("alone"). Some scenarios carry 12 variants, each in as many of the cases as its number says. One
JSON line a run: of every method the calls by how many cases carry the allele, 0 for false ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.seeded import main
from benchmarks.variants_breaks import two_groups
from tests.vbmodels.variants.scenarios import Scenario, simulate_scenario
from vbmodels.core.state import IntArray
from vbmodels.variants.counts import Counts, units
from vbmodels.variants.panel.model import PanelNull
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups

METHODS = ("others", "alone")
N_VARIANTS, POSITIONS = 12, 150


@dataclass(frozen=True)
class Cases:
    """How many cases there are, and which variants they carry.

    Attributes
    ----------
    count
        Cases.
    share
        Of a variant among the reads of a case that carries it.
    carriers
        Numbers of cases that carry a variant, in turn; empty for no variants.
    """

    count: int
    share: float = 0.01
    carriers: tuple[int, ...] = ()


SCENARIOS = {
    "null_2": Cases(2),
    "shared_2": Cases(2, carriers=(1, 2)),
    "null_3": Cases(3),
    "shared_3": Cases(3, carriers=(1, 2, 3)),
}


def simulate(name: str, seed: int) -> tuple[Counts, IntArray]:
    """Draw counts, a replicate of every case, and which cases carry what, [U, cases]."""
    rng, cases = np.random.default_rng(seed), SCENARIOS[name]
    scenario = Scenario("", members=cases.count - 1, replicates=1, site_sd=0.3, type_sd=0.3)
    counts, _ = simulate_scenario(rng, scenario, POSITIONS)
    of, reads = units(counts), counts.counts.copy()
    carried = np.zeros((len(of), cases.count), np.int64)
    places = rng.choice(len(of), N_VARIANTS if cases.carriers else 0, replace=False)
    for number, u in enumerate(places):
        j, alt, ref = of.location[u], of.alt[u], counts.ref[of.location[u]]
        for sample in rng.choice(cases.count, cases.carriers[number % len(cases.carriers)], False):
            moved = rng.binomial(reads[j, sample, ref], cases.share)
            reads[j, sample, [ref, alt]] += np.array([-moved, moved], reads.dtype)
            carried[u, sample] = 1
    return replace(counts, counts=reads), carried


def of_one(counts: Counts, sample: int, alone: bool) -> Counts:
    """Return counts with one of the samples as the case, and the others as its panel, if any."""
    case = np.arange(len(counts.case)) == sample
    if alone:
        return Counts(counts.counts[:, case], counts.ref, case[case])
    member = np.cumsum(~case) - 1
    return replace(counts, case=case, member=np.where(case, -1, member) if len(case) > 2 else None)


def one_run(name: str, seed: int) -> dict:
    """Test every case of one draw of a scenario, by both methods."""
    counts, carried = simulate(name, seed)
    row: dict = {"scenario": name, "seed": seed, "true": dict(Counter(carried.sum(axis=1)[
        carried.any(axis=1)].tolist()))}  # fmt: skip
    for method in METHODS:
        alone = method == "alone"
        model = TwoGroups("germline", MIXTURE) if alone else PanelNull(alternatives=MIXTURE)
        found: Counter[int] = Counter()
        cpu = 0.0
        for sample in range(len(counts.case)):
            calls, about = two_groups(model, of_one(counts, sample, alone))
            found.update((carried.sum(axis=1) * carried[:, sample])[calls].tolist())
            cpu += about["cpu"]
        row[method] = {"found": dict(found), "cpu": round(cpu, 1)}
    return row


def summary(rows: list[dict]) -> list[str]:
    """Return a table: false calls and runs with any; found of true, by how many cases carry it."""
    lines = [
        "| scenario | runs | method | false calls (runs with any) | found of true, by carriers |",
        "|---|---|---|---|---|",
    ]
    for name, cases in SCENARIOS.items():
        runs = [row for row in rows if row["scenario"] == name]
        for method in METHODS if runs else ():
            false = [row[method]["found"].get("0", 0) for row in runs]
            shares = [
                f"{k}: {sum(row[method]['found'].get(str(k), 0) for row in runs)} of "
                f"{sum(k * row['true'].get(str(k), 0) for row in runs)}"
                for k in cases.carriers
            ]
            lines.append(
                f"| {name} | {len(runs)} | {method} | {sum(false)} ({sum(map(bool, false))}) | "
                f"{', '.join(shares)} |"
            )
    return lines


if __name__ == "__main__":
    main(__doc__, SCENARIOS, one_run, summary, seeds=20)
