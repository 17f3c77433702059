"""What can be damaged: small valid inputs of every kind, and the command that reads each."""

import contextlib
import csv
import gzip
import io
import json
import os
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam

from flows.catalogue import pipeline_named
from flows.cli import main
from flows.events import Event, Stage, listening
from flows.run import run
from flows.settings import ComputeSettings
from tests.flows.variants.variant_files import write_bam, write_fasta, write_sheet

ROWS = {"keywords": 12, "bags": 14, "variants": 24, "features": 30, "experts": 40}
SETTINGS = {
    "keywords": {"max_iter": 60, "keyphrases": 4.0},
    "bags": {"model": "vmmic", "max_iter": 3},
    "variants": {"max_iter": 2},
    "features": {"max_iter": 61, "n_features": 2},
    "experts": {"n_experts": 2, "inference": "cavi", "max_iter": 3},
}
TABLES = {
    "keywords": "documents.parquet",
    "bags": "bags.parquet",
    "variants": "counts.parquet",
    "features": "table.parquet",
    "experts": "table.parquet",
}
MIXED = 60
CONFIG = """fdr: 0.1
keyphrases: 4
ask: 2
language: english
max_iter: 3
partitions: 2
"""
BED = "# targets\nchr1\t0\t40\tname\t0\t+\nchr2\t10\t90\n"


@dataclass(frozen=True)
class Kind:
    """One file that is damaged, among the others that a command needs."""

    name: str
    base: Path
    here: Path
    file: str
    command: tuple[str, ...]

    @property
    def seed(self) -> bytes:
        """The undamaged file."""
        return (self.base / self.file).read_bytes()


class _Stopped:
    """Stops a run when a stage begins."""

    def __init__(self, at: str) -> None:
        self.at = at

    def on_event(self, event: Event) -> None:
        if event == Stage(self.at):
            raise KeyboardInterrupt


def options(name: str) -> tuple[str, ...]:
    """Return the settings of a small run."""
    given = (("--set", f"{key}={value}") for key, value in SETTINGS[name].items())
    return tuple(word for pair in given for word in pair)


def quietly(*arguments: object) -> None:
    """Run a command that must succeed."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main([str(a) for a in arguments])
    except SystemExit as stopped:
        if stopped.code:
            raise AssertionError(f"{arguments}: {err.getvalue()}") from stopped


def prepare(folder: Path) -> list[Kind]:
    """Write valid inputs, fit, stop and count; return every kind of damaged file."""
    made = _made(folder / "here")
    (folder / "here").rename(folder / "base")
    return [replace(k, base=folder / "base" / k.here.name) for k in made]


def _made(folder: Path) -> list[Kind]:
    kinds: list[Kind] = []
    for name in ROWS:
        kinds += _family(name, folder / name)
    kinds += _mixed(folder / "mixed")
    kinds += _reads(folder / "reads")
    settings = folder / "settings"
    settings.mkdir(parents=True)
    shutil.copy(folder / "keywords" / "in.parquet", settings / "in.parquet")
    (settings / "settings.yaml").write_text(CONFIG)
    command = ("check", "keywords", "@/in.parquet", "--quick", "--config", "@/settings.yaml")
    return [*kinds, Kind("settings", settings, settings, "settings.yaml", command)]


def _family(name: str, folder: Path) -> list[Kind]:
    """A family's table; what a finished run keeps for scoring; what a stopped one keeps."""
    folder.mkdir(parents=True)
    simulated = folder / "simulated"
    pipeline_named(name).simulate(str(simulated), ROWS[name], 1)
    shutil.copy(simulated / TABLES[name], folder / "in.parquet")
    shutil.rmtree(simulated)
    run = (name, "@/in.parquet", "@/out", *options(name))
    kinds = [Kind(f"{name}-table", folder, folder, "in.parquet", run)]
    kinds += _other_formats(name, folder, pq.read_table(folder / "in.parquet"))
    quietly(name, folder / "in.parquet", folder / "fitted", *options(name))
    score = ("score", "@/fitted", "@/in.parquet", "@/out")
    kept = _files(folder / "fitted", ("posterior", "run.json", "latest.json"))
    kinds += [Kind(f"{name}-posterior", folder, folder, file, score) for file in kept]
    kinds += _stopped(name, folder)
    since = (*run[:2], "@/fitted", *run[3:], "--since", "latest")
    notes = _files(folder / "fitted", ("/kept/",))
    return kinds + [Kind(f"{name}-since", folder, folder, file, since) for file in notes]


def _mixed(folder: Path) -> list[Kind]:
    """A table of categories, gaps and dates with three labels; what a run keeps of it."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(2)
    table = pa.table(
        {
            "id": [f"r{i}" for i in range(MIXED)],
            "by": rng.choice(["car", "bus", "foot"], MIXED),
            "age": [None if i % 7 == 0 else float(i) for i in range(MIXED)],
            "day": np.datetime64("2024-01-01") + rng.integers(0, 99, MIXED),
            "zone": pa.array(rng.choice(["a", "b"], MIXED)).dictionary_encode(),
            "told": rng.random(MIXED) < 0.5,
            "label": rng.choice(["low", "mid", "high"], MIXED),
        }
    )
    pq.write_table(table, folder / "in.parquet")
    settings = ("n_experts=1", "tau=1", "max_iter=200", "baselines=false")
    more = tuple(word for one in settings for word in ("--set", one))
    run = ("experts", "@/in.parquet", "@/out", *more)
    kinds = [Kind("mixed-table", folder, folder, "in.parquet", run)]
    spelt = table.set_column(3, "day", table["day"].cast("string"))
    kinds += [replace(k, name=k.name.replace("experts", "mixed"))
              for k in _other_formats("experts", folder, spelt)]  # fmt: skip
    quietly("experts", folder / "in.parquet", folder / "fitted", *more)
    score = ("score", "@/fitted", "@/in.parquet", "@/out")
    kept = _files(folder / "fitted", ("posterior",))
    return kinds + [Kind("mixed-posterior", folder, folder, file, score) for file in kept]


def _other_formats(name: str, folder: Path, table: pa.Table) -> list[Kind]:
    """The same table as text and as Arrow, which the command turns into Parquet first."""
    if name == "variants":
        return []
    rows = table.slice(0, 40).to_pylist()
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with open(folder / "rows.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, table.column_names)
        writer.writeheader()
        writer.writerows(rows)
    (folder / "rows.tsv.gz").write_bytes(gzip.compress((folder / "rows.csv").read_bytes()))
    with pa.ipc.new_file(folder / "rows.arrow", table.schema) as arrow:
        arrow.write_table(table.slice(0, 40))
    return [
        Kind(f"{name}-{file}", folder, folder, file, ("check", name, f"@/{file}", "--quick"))
        for file in ("rows.jsonl", "rows.csv", "rows.tsv.gz", "rows.arrow")
    ]


def _stopped(name: str, folder: Path) -> list[Kind]:
    family = pipeline_named(name)
    with contextlib.suppress(KeyboardInterrupt):
        settings = family.settings(**SETTINGS[name], checkpoint_every=1)
        # Outside: a copy has another time of change, and nothing goes on with a changed input.
        source = str(
            shutil.copy(folder / "in.parquet", folder.parents[1] / f"stopped-{name}.parquet")
        )
        target = str(folder / "stopped")
        with listening(_Stopped("score")):
            run(name, source, target, settings, ComputeSettings())
    (run_id,) = os.listdir(folder / "stopped" / "runs")
    resume = (name, source, "@/stopped", *options(name), "--set", "checkpoint_every=1")
    return [
        Kind(f"{name}-stopped", folder, folder, file, (*resume, "--resume", run_id))
        for file in _files(folder / "stopped", ("",))
    ]


def _files(folder: Path, wanted: tuple[str, ...]) -> list[str]:
    found = sorted(p.relative_to(folder.parent).as_posix() for p in folder.rglob("*")
                   if p.is_file())  # fmt: skip
    return [path for path in found if any(part in path for part in wanted)]


def _reads(folder: Path) -> list[Kind]:
    folder.mkdir(parents=True)
    write_fasta(folder / "ref.fa")
    pysam.faidx(str(folder / "ref.fa"))
    reads = [(c, 20 * i, 50, 0, -1, f"r{c}-{i}", 30) for c in range(3) for i in range(4)]
    for name in ("a.bam", "b.bam"):
        write_bam(folder / name, reads)
    write_sheet(folder)
    (folder / "targets.bed").write_text(BED)
    command = (
        "variants", "@/sheet.csv", "@/out", *options("variants"), "--set", "fasta=@/ref.fa",
        "--set", "bed=@/targets.bed",
    )  # fmt: skip
    files = ("sheet.csv", "targets.bed", "ref.fa", "ref.fa.fai", "a.bam", "a.bam.bai")
    return [
        Kind(f"reads-{file.replace('.', '-')}", folder, folder, file, command) for file in files
    ]


def small_table(columns: dict[str, object]) -> bytes:
    """Return a Parquet file of some columns."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()
