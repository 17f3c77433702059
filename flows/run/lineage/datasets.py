"""Files and tables as OpenLineage names them: schema, rows, bytes and versions as facets.

Names follow https://openlineage.io/docs/spec/naming: ``file`` and a path, or ``s3://bucket`` and a
key. An input's version is its fingerprint. A table keeps its name from run to run, and its version
is the run that wrote it; where that lies is said by a symlink.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pyarrow as pa
from openlineage.client.event_v2 import InputDataset, OutputDataset
from openlineage.client.facet_v2 import (
    data_quality_metrics_input_dataset as quality,
)
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    input_statistics_input_dataset,
    output_statistics_output_dataset,
    schema_dataset,
    symlinks_dataset,
)

from flows.data import storage
from flows.data.runs import InputRecord, RunPaths
from flows.data.storage import InputFile, StorageError
from flows.run.tables import tables_of

T = TypeVar("T")
R = TypeVar("R")
MOST_INPUTS = 100  # files that are datasets of their own; of more, the source is one
_MOST_FOOTERS = 256  # of a table, that are read to count its rows
_AT_ONCE = 8


def name_of(url: str) -> tuple[str, str]:
    """Return namespace and name of what a URL points to.

    >>> name_of("/data/in.parquet"), name_of("s3://bucket/in/a.parquet")
    (('file', '/data/in.parquet'), ('s3://bucket', 'in/a.parquet'))
    """
    url = storage.shown(url)
    if storage.is_local(url):
        return "file", url.removeprefix("file://")
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}", parts.path.strip("/") or "/"


def of_source(source: str) -> list[InputDataset]:
    """Return the input as it was asked for, before it was looked at."""
    namespace, name = name_of(storage.absolute(source))
    return [InputDataset(namespace=namespace, name=name)]


def of_fitted(root: str, producer: str) -> InputDataset:
    """Return the posterior of a finished run as what another one reads."""
    run_id = root.rstrip("/").rpartition("/")[2]
    namespace, name = name_of(storage.join(root, "posterior"))
    return InputDataset(
        namespace=namespace, name=name, facets={"version": _version(run_id, producer)}
    )


def of_inputs(source: str, inputs: Sequence[InputRecord], producer: str) -> list[InputDataset]:
    """Return the files that a run reads; of very many, their source as one."""
    if len(inputs) <= MOST_INPUTS:
        schemas = _at_once(lambda one: _schema(one.url, producer), inputs)
        return [
            _input(one.url, [one], one.fingerprint, schema, producer)
            for one, schema in zip(inputs, schemas, strict=True)
        ]
    marks = "\n".join(sorted(f"{one.url} {one.fingerprint}" for one in inputs))
    digest = hashlib.sha256(marks.encode()).hexdigest()[:16]
    schema = _schema(inputs[0].url, producer)
    return [_input(storage.absolute(source), inputs, digest, schema, producer)]


def of_outputs(paths: RunPaths, producer: str) -> list[OutputDataset]:
    """Return the tables that a run has published."""
    return [_output(paths, table, producer) for table in (*tables_of(paths), "posterior")]


def _input(
    url: str, files: Sequence[InputRecord], version: str, schema: Any, producer: str
) -> InputDataset:
    namespace, name = name_of(url)
    rows, size = sum(one.rows for one in files), sum(one.size for one in files)
    facets = {"version": _version(version, producer)} | ({"schema": schema} if schema else {})
    return InputDataset(
        namespace=namespace,
        name=name,
        facets=facets,
        inputFacets={
            "dataQualityMetrics": quality.DataQualityMetricsInputDatasetFacet(
                columnMetrics={},
                rowCount=rows,
                bytes=size,
                fileCount=len(files),
                producer=producer,
            ),
            "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
                rowCount=rows, size=size, fileCount=len(files), producer=producer
            ),
        },
    )


def _output(paths: RunPaths, table: str, producer: str) -> OutputDataset:
    files = storage.expand(paths.table(table), (".parquet",))
    schema = _schema(files[0].url, producer) if files else None
    here = symlinks_dataset.Identifier(*name_of(paths.table(table)), type="TABLE")
    facets = {
        "version": _version(paths.run_id, producer),
        "symlinks": symlinks_dataset.SymlinksDatasetFacet(identifiers=[here], producer=producer),
    } | ({"schema": schema} if schema else {})
    namespace, name = name_of(storage.join(paths.target, table))
    return OutputDataset(
        namespace=namespace,
        name=name,
        facets=facets,
        outputFacets={
            "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                rowCount=_rows(files),
                size=sum(file.size for file in files),
                fileCount=len(files),
                producer=producer,
            )
        },
    )


def _rows(files: Sequence[InputFile]) -> int | None:
    """Count the rows of a table by the footers of its files, unless these are very many."""
    if len(files) > _MOST_FOOTERS:
        return None
    return sum(_at_once(lambda file: storage.row_count(file.url), files))


def _version(version: str, producer: str) -> dataset_version_dataset.DatasetVersionDatasetFacet:
    return dataset_version_dataset.DatasetVersionDatasetFacet(
        datasetVersion=version, producer=producer
    )


def _schema(url: str, producer: str) -> schema_dataset.SchemaDatasetFacet | None:
    """Return the columns of a file; None where it is no table, or cannot be read any more."""
    try:
        schema = storage.parquet_file(url).schema_arrow
    except (StorageError, OSError, pa.ArrowException):
        return None
    fields = [
        schema_dataset.SchemaDatasetFacetFields(
            name=field.name,
            type=str(field.type),
            description=(field.metadata or {}).get(b"meaning", b"").decode() or None,
            ordinal_position=number,
        )
        for number, field in enumerate(schema, 1)
    ]
    return schema_dataset.SchemaDatasetFacet(fields=fields, producer=producer)


def _at_once(function: Callable[[T], R], items: Sequence[T]) -> list[R]:
    many = min(_AT_ONCE, max(len(items), 1))
    with ThreadPoolExecutor(many, thread_name_prefix="OpenLineage") as pool:
        return list(pool.map(function, items))
