"""Tables of bags for tests, and how a user runs the pipeline over them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.cli import main
from flows.data import storage
from flows.data.runs import open_run

PLAIN = ("--json",)


def run(capsys, *arguments):
    """Return (exit code, stdout, stderr) of a command."""
    capsys.readouterr()  # of earlier commands
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return stopped.value.code, captured.out, captured.err


def refused(capsys, *arguments):
    """Return what a command that must exit with 2 says."""
    code, out, err = run(capsys, *arguments)
    assert code == 2, err
    return out + err


def fitted(capsys, path, target, *options):
    """Fit bags with settings NAME=VALUE or options --NAME; return what --json prints."""
    parts = [str(option) for option in options]
    sets = [x for p in parts for x in (("--set", p) if "=" in p else (p,))]
    code, out, err = run(capsys, "bags", path, target, *sets, *PLAIN)
    assert code == 0, err
    return json.loads(out)


def quietly(*arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    assert stopped.value.code == 0


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
