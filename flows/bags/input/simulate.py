"""Bags drawn from vMMIC (the study of `vbmodels.bags.simulate`), with ground truth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flows import storage
from flows.bags.schema import INSTANCES_IN
from vbmodels.bags.simulate import simulate

MODALITIES = ("first", "second")


def write_bags(target: str, rows: int, seed: int) -> list[str]:
    """Draw bags of 20 instances of two modalities and write them.

    Whether an instance is primary is in the column ``primary``, which no model sees.

    Parameters
    ----------
    target
        Folder for ``bags.parquet``.
    rows
        Number of bags.
    seed
        Seed of the draws.
    """
    data, truth = simulate(np.random.default_rng(seed), n_bags=rows)
    bag = np.concatenate([m.bag for m in data.modalities])
    kind = np.repeat(np.arange(2), [len(m.features) for m in data.modalities])
    position = np.concatenate([np.arange(len(m.features)) for m in data.modalities])
    order = np.lexsort([position, kind, bag])
    features = np.concatenate([m.features for m in data.modalities])[order]
    lists = pa.FixedSizeListArray.from_arrays(pa.array(features.ravel()), features.shape[1])
    names = np.array([f"bag-{i:06d}" for i in range(rows)], object)
    first = np.searchsorted(bag[order], bag[order], side="left")
    columns = {
        "bag_id": pa.array(names[bag[order]], pa.string()),
        "instance_id": pa.array(np.arange(bag.size) - first + 1).cast(pa.string()),
        "label": pa.array(data.label[bag[order]], pa.int8()),
        "modality": pa.array(np.array(MODALITIES, object)[kind[order]], pa.string()),
        "features": lists.cast(pa.list_(pa.float64())),
        "primary": pa.array(np.concatenate(truth.primary)[order]),
    }
    schema = pa.schema([INSTANCES_IN.arrow.field(name) for name in columns])
    folder = storage.absolute(target)
    url = storage.join(folder, "bags.parquet")
    storage.write_table(url, pa.table(list(columns.values()), schema=schema))
    return [url]
