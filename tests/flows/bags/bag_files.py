"""Tables of bags for tests, and how a user runs the pipeline over them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows import storage
from flows.records.runs import open_run
from tests.flows.commands import answer

PLAIN = ("--json",)


def fitted(capsys, path, target, *options):
    """Fit bags with settings NAME=VALUE or options --NAME; return what --json prints."""
    parts = [str(option) for option in options]
    sets = [x for p in parts for x in (("--set", p) if "=" in p else (p,))]
    return answer(capsys, "bags", path, target, *sets)


def table_of(target, name):
    place, record = open_run(str(target))
    parts = [storage.read_table(place.table(name, i)) for i in range(record.partitions)]
    return pa.concat_tables(parts)


def instances(n=40, seed=0, **columns):
    """Rows of bags of three instances with two features, of one modality."""
    rng = np.random.default_rng(seed)
    bag = np.repeat(np.arange(n), 3)
    label = (np.arange(n) % 2).astype(np.int8)
    features = rng.normal(size=(3 * n, 2)) + label[bag][:, None]
    table = {
        "bag_id": [f"b{i}" for i in bag],
        "instance_id": [str(i) for i in np.tile(np.arange(3), n)],
        "label": pa.array(label[bag]),
        "features": features.tolist(),
    }
    return pa.table({**table, **columns})


def written(tmp_path, table, name="in.parquet"):
    path = tmp_path / name
    pq.write_table(table, path)
    return path
