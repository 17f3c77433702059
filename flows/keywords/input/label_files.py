"""Known keyphrases of a folder of texts, in a table of the same folder.

A table called ``keywords`` (``keywords.csv``, ``keywords.parquet``, ...) without texts of its own
names documents by their file, with its ending or without, and lists their keyphrases.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa

from flows import storage
from flows.faults import Fault, InputError
from flows.keywords.input.reading import UnusedLabels
from flows.keywords.schema import DOCUMENTS, LABELS
from flows.keywords.settings import KeywordSettings
from flows.storage import InputFile
from flows.tables import partition
from flows.tables.partition import Part, Slice
from vbmodels.text.reading import Named

NAME = "keywords"


def has_label_name(url: str) -> bool:
    """Return whether a file is called as one that lists keywords of others' documents."""
    name = url.rpartition("/")[2].lower()
    return name.partition(".")[0] == NAME and not name.endswith(storage.DOCUMENTS)


def is_label_file(url: str, settings: KeywordSettings) -> bool:
    """Return whether a file lists keywords of other files' documents."""
    if not has_label_name(url):
        return False
    columns = storage.parquet_file(url).schema_arrow.names
    return not any(settings.columns.get(own, own) in columns for own in ("text", "tokens"))


def check_labels(file: InputFile, settings: KeywordSettings) -> tuple[tuple[Fault, ...], int]:
    """Return what is wrong with a file of labels, and how many documents it names."""
    try:
        labels = labels_of(_whole(file), settings)
    except InputError as error:
        return error.faults, 0
    return (), len(labels.rows)


def _whole(file: InputFile) -> Slice:
    rows = storage.parquet_file(file.url).metadata.num_rows
    return Slice(file.url, 0, rows, file.fingerprint, file.size)


def with_labels(
    parts: Sequence[Part], files: Sequence[InputFile], settings: KeywordSettings
) -> list[Part]:
    """Return partitions that also have the files of labels: none of their rows."""
    labels = tuple(
        Slice(f.url, 0, 0, f.fingerprint, f.size) for f in files if is_label_file(f.url, settings)
    )
    return [replace(part, slices=(*part.slices, *labels)) for part in parts]


def split_part(part: Part) -> tuple[Part, list[Slice]]:
    """Return a partition's documents, and its files of labels."""
    rows = tuple(s for s in part.slices if s.stop > s.start)
    return replace(part, slices=rows), [s for s in part.slices if s.stop == s.start]


@dataclass(frozen=True)
class LabelRows:
    """What a file of labels says: rows of `LABELS` by the name of their document."""

    rows: Mapping[str, Mapping[str, object]]

    def of(self, url: str) -> tuple[str, Mapping[str, object]] | None:
        """Return the name and the row of a document by its file's name; the longest that fits."""
        pieces = url.split("/")
        for count in range(min(len(pieces), 5), 0, -1):
            name = "/".join(pieces[-count:])
            for one in (name, name.rpartition(".")[0]):
                if one in self.rows:
                    return one, self.rows[one]
        return (url, self.rows[url]) if url in self.rows else None


@lru_cache(maxsize=4)
def _read(whole: Slice, settings: KeywordSettings) -> LabelRows:
    table = LABELS.of(settings)
    rows: dict[str, Mapping[str, object]] = {}
    for _, _, read in partition.checked(Part(0, (whole,)), table):
        rows |= {row["doc_id"]: row for row in read.to_pylist()}
    return LabelRows(rows)


def labels_of(file: Slice, settings: KeywordSettings) -> LabelRows:
    """Return what a file of labels says.

    Raises `InputError` if something is wrong with it.
    """
    rows = storage.parquet_file(file.url).metadata.num_rows
    return _read(replace(file, start=0, stop=rows), settings)


def unused_labels(
    files: Sequence[Slice], used: Container[str], settings: KeywordSettings
) -> tuple[UnusedLabels, ...]:
    """Return the rows of each file of labels that name no document."""
    found = []
    for file in files:
        unused = [name for name in labels_of(file, settings).rows if name not in used]
        if unused:
            found.append(UnusedLabels(file.url.rpartition("/")[2], Named.of(unused)))
    return tuple(found)


def labelled(documents: pa.Table, labels: Sequence[LabelRows]) -> tuple[pa.Table, list[str]]:
    """Return documents with what files of labels say of them, and the names that were used.

    A document that has keywords of its own keeps them.
    """
    if not labels:
        return documents, []
    names = documents["doc_id"].to_pylist()
    found = [next(filter(None, (one.of(name) for one in labels)), None) for name in names]
    for column in ("keywords", "complete", "gold"):
        own = [None] * len(names)
        if column in documents.column_names:
            own = documents[column].to_pylist()
        values = [
            given if given is not None or row is None else row[1].get(column)
            for given, row in zip(own, found, strict=True)
        ]
        field = DOCUMENTS.arrow.field(column)
        array = pa.array(values, field.type)
        if column in documents.column_names:
            documents = documents.set_column(documents.column_names.index(column), field, array)
        else:
            documents = documents.append_column(field, array)
    return documents, [row[0] for row in found if row is not None]
