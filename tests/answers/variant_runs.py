"""Small real runs of variants, one for each kind of answer.

``python -m tests.answers.variant_runs`` makes them anew and keeps each ``run.json``.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from flows.data.runs import open_run
from flows.variants.counts import to_table
from tests.cases.reads import write_pairs, write_two
from tests.cases.test_variants import alone, of_three
from tests.flows.commands import succeed
from tests.flows.variants.case_files import write_cases
from tests.flows.variants.scenario_files import write_scenario
from tests.flows.variants.slipped_bams import ReadScenario, write_reads

KEPT = Path(__file__).parent / "variants"


class Kind(NamedTuple):
    """Files of a run, the words of its command, and those of a score of it."""

    files: Callable[[Path], object]
    words: str
    score: str = ""


def write_none(folder: Path) -> None:
    write_two(folder)
    write_pairs(folder / "t.bam", seed=7)


def write_disagreeing(folder: Path) -> None:
    """Three replicates a sample; at some positions those of the case differ by far.

    At three others one of the control carries an allele that the others have not.
    """
    rng = np.random.default_rng(4)
    ref = rng.integers(0, 4, 300).astype(np.int8)
    counts = rng.multinomial(2_200, [2e-4] * 3 + [1 - 6e-4], size=(300, 6))
    counts = np.stack([np.roll(counts[j], ref[j] + 1, axis=1) for j in range(300)])
    planted = [(60, 30, 23), (90, 15, 8), (105, 8, 0), (50, 3, 0), (30, 1, 0), (20, 0, 0)]
    planted = [(*case, 1, 1, 1) for case in planted] + 3 * [(0, 0, 0, 1100, 0, 0)]
    for j, reads in zip(range(20, 300, 30), planted, strict=False):
        alt = (ref[j] + 1) % 4
        counts[j, :, ref[j]] += counts[j, :, alt] - reads
        counts[j, :, alt] = reads
    columns = [(sample, str(r)) for sample in ("case", "control") for r in (1, 2, 3)]
    pq.write_table(to_table(counts, ref, "chr1", 0, columns), folder / "counts.parquet")


def of_scenario(name: str, rows: int = 300) -> Callable[[Path], object]:
    return lambda folder: write_scenario(str(folder), rows, 2, name)


def write_slipped(folder: Path) -> None:
    write_reads(str(folder), 300, 3, ReadScenario("", share=0.1, every=50, depth=300))


QUICK = "--set max_iter=8"
KINDS = {
    "called": Kind(write_two, f"samples.csv {QUICK}", "samples.csv"),
    "none": Kind(write_none, f"samples.csv {QUICK}"),
    "alone": Kind(alone, f"samples.csv {QUICK}"),
    "thin": Kind(of_three, f"samples.csv --set min_depth=0 {QUICK}"),
    "region": Kind(write_two, f"samples.csv --set region=amp:101-200 --set indels=false {QUICK}"),
    "indels": Kind(write_slipped, "samples.csv --set tol=1e-4"),
    "cases": Kind(write_cases, f"sheet.csv --set fasta=ref.fa {QUICK}"),
    "batch": Kind(of_scenario("af.01_oxo5"), "counts.parquet"),
    "panel": Kind(
        of_scenario("simpanel"),
        "counts.parquet --set panel=normal1,normal2,normal3,normal4,normal5,normal6 --set control=",
    ),
    "disagreeing": Kind(write_disagreeing, "counts.parquet"),
    "difference": Kind(
        of_scenario("af.01_4000", 60), "counts.parquet --set test=posterior_difference"
    ),
}


def make(kind: Kind, folder: Path) -> list[tuple[str, Path]]:
    """Run a kind in a folder; return the end of its name and the folder of each run."""
    with chdir(folder):
        kind.files(folder)
        succeed("variants", *kind.words.split()[:1], "out", *kind.words.split()[1:])
        made = [("", Path(open_run("out")[0].root))]
        if kind.score:
            succeed("score", made[0][1], kind.score, "scored")
            made.append(("_score", Path(open_run("scored")[0].root)))
        return made


if __name__ == "__main__":
    for kind in sys.argv[1:] or KINDS:
        with TemporaryDirectory() as made:
            for end, root in make(KINDS[kind], Path(made)):
                shutil.copy(root / "run.json", KEPT / f"{kind}{end}.json")
