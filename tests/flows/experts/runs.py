"""What tests of pipelines over tables share: the command, and what a run leaves."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def written(folder, columns, name="in.parquet"):
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def latest(target):
    """Return the folder of the latest run below a target, and its record."""
    run_id = json.loads((Path(target) / "latest.json").read_text())["run_id"]
    folder = Path(target) / "runs" / run_id
    return folder, json.loads((folder / "run.json").read_text())


def rows_of(folder, name="rows"):
    """Return a table of a run, of all partitions."""
    return pa.concat_tables(pq.read_table(p) for p in sorted((folder / name).glob("*.parquet")))


def probabilities_of(folder):
    """Return the probability of the positive label in every row of a run."""
    rows = rows_of(folder)
    (name,) = (one for one in rows.column_names if one.startswith("probability_"))
    return rows[name].to_numpy()


def rivals_of(record):
    """Return the models that a run is compared with, by name."""
    return {one["name"]: one for one in record["results"]["test"]["rivals"]}
