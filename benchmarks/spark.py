"""Spark MLlib as a rival: a session on this machine's cores, its data, and the CPU that it takes.

It needs pyspark and a Java runtime. Data is read and cached before the clock runs, as it is in
memory for all; the session's start is not counted, but what the virtual machine compiles is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import psutil
from sklearn.datasets import dump_svmlight_file


@contextmanager
def session(folder: str) -> Iterator[Any]:
    """Yield a session that keeps what it writes in a folder."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("rival")
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.local.dir": folder,
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    for name, value in options.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        yield spark
    finally:
        spark.stop()


def cached(spark: Any, folder: str, name: str, x: Any, label: np.ndarray | None = None) -> Any:
    """Return rows as a cached data frame of label and features."""
    path = os.path.join(folder, f"{name}.libsvm")
    labels = np.zeros(x.shape[0]) if label is None else label
    dump_svmlight_file(x, labels, path, zero_based=False)
    reader = spark.read.format("libsvm").option("numFeatures", str(x.shape[1]))
    rows = reader.load(path).repartition(2).cache()
    rows.count()
    return rows


def cpu() -> float:
    """Return the seconds of CPU that this process's children have taken so far."""
    total = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total
