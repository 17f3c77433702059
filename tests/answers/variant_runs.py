"""Small real runs of variants, one for each kind of answer."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from flows.variants.input.counts import to_table
from tests.cases.reads import write_pairs, write_two
from tests.flows.commands import setting_args
from tests.flows.variants.case_files import write_cases
from tests.flows.variants.scenario_files import write_scenario
from tests.flows.variants.slipped_bams import ReadScenario, write_reads
from tests.sentences.reads import alone, of_three


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


QUICK = setting_args("max_iter=8")
SOURCES = {
    "two": write_two, "none": write_none, "one": alone, "three": of_three, "slipped": write_slipped,
    "cases": write_cases, "oxidised": of_scenario("af.01_oxo5"), "many": of_scenario("simpanel"),
    "replicates": write_disagreeing, "few": of_scenario("af.01_4000", 60),
}  # fmt: skip
"""What writes the files of each folder."""
RUNS = {
    "called": ("variants", "in/two/samples.csv", *QUICK),
    "called_score": ("score", "called", "in/two/samples.csv"),
    "none": ("variants", "in/none/samples.csv", *QUICK),
    "alone": ("variants", "in/one/samples.csv", *QUICK),
    "thin": ("variants", "in/three/samples.csv", *setting_args("min_depth=0"), *QUICK),
    "region": ("variants", "in/two/samples.csv",
               *setting_args("region=amp:101-200", "indels=false"), *QUICK),
    "indels": ("variants", "in/slipped/samples.csv", *setting_args("tol=1e-4")),
    "cases": ("variants", "in/cases/sheet.csv", *setting_args("fasta=in/cases/ref.fa"), *QUICK),
    "batch": ("variants", "in/oxidised/counts.parquet"),
    "panel": ("variants", "in/many/counts.parquet", *setting_args(
        "panel=normal1,normal2,normal3,normal4,normal5,normal6", "control=")),
    "disagreeing": ("variants", "in/replicates/counts.parquet"),
    "difference": ("variants", "in/few/counts.parquet", *setting_args("test=posterior_difference")),
}  # fmt: skip
"""The command of each kind of answer: a pipeline with its input, or a score of a run's fit."""


def write_sources(folder: Path, names=tuple(SOURCES)) -> None:
    for name in names:
        folder.joinpath("in", name).mkdir(parents=True)
        SOURCES[name](folder / "in" / name)
