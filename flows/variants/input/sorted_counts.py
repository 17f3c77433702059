"""Rows of base counts, in any order, as partitions of locations.

Every slice of rows is sorted by location as it is read, and stored with a sample of its locations.
These say where to cut, and then each partition is put together from the slices that reach into it.
No step holds more than one slice or partition.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows import storage
from flows.family import CheckedPiece, Each, Ingested, refuse_wrong
from flows.records import json_files
from flows.records.runs import Dropped, RunPaths
from flows.tables import partition
from flows.tables.partition import Part
from flows.variants.input.count_checks import Rules
from flows.variants.input.counts import Column, assemble
from flows.variants.input.locations import (
    Assembled,
    Gathered,
    marks_in,
    no_use,
    replicate_columns,
    write_locations,
)
from flows.variants.reads.contigs import contigs_of, in_file, renamed
from flows.variants.reads.regions import Region, named_regions
from flows.variants.schema import COUNTS
from flows.variants.settings import VariantSettings
from vbmodels.core.state import BoolArray

OTHER_SAMPLE = "row of a sample that is neither case nor control"
OUTSIDE = "row outside of the region and the BED's intervals"
EVERY = 50  # locations of a slice, of which one says where to cut
Order = Mapping[str, int]  # contigs of the FASTA, and which of them each is
Location = tuple[str | int, int]  # contig, or which of the FASTA's it is; position


class SortedSlice(json_files.Form):
    """What is known of a slice of rows that was sorted.

    Attributes
    ----------
    locations
        Every 50th location, and the last.
    columns
        Replicates of the samples that are wanted, whether or not in the regions.
    other_samples, outside
        How many rows were left out: of other samples, outside the regions.
    renamed
        Contigs that have another name in the FASTA, and that name.
    """

    locations: list[Location]
    columns: list[Column]
    other_samples: int
    outside: int
    renamed: dict[str, str]


def sort_part(part: Part, settings: VariantSettings, paths: RunPaths) -> Ingested:
    """Check and sort a slice of rows of counts; keep it, without rows that are not wanted."""
    marks = marks_in(part, settings)
    read, pieces = check_slices(part, Rules.of(settings, marks))
    refuse_wrong(pieces)
    # Of several cases any may be in a later run: what is kept for it is of every sample.
    samples = None if settings.several else [settings.case, *settings.controls]
    order = None
    if settings.fasta is not None:
        order = {name: i for i, name in enumerate(contigs_of(settings, marks))}
    table, about = sort_rows(
        partition.merge(read, COUNTS), samples, named_regions(settings, marks), order
    )
    storage.write_table(paths.part("slices", part.index), table)
    json_files.write(paths.part("slices", part.index, "json"), about)
    dropped = (
        Dropped(
            reason=OTHER_SAMPLE,
            count=about.other_samples,
            of=part.rows,
            cause="To compare these samples, name them in case or controls",
        ),
        Dropped(
            reason=OUTSIDE,
            count=about.outside,
            of=part.rows,
            cause="If these are wanted, check region and the BED",
        ),
    )
    return Ingested(part.rows, len(table), dropped, checked=tuple(pieces))


def check_slices(part: Part, rules: Rules) -> tuple[list[pa.Table], list[CheckedPiece]]:
    """Read slices of rows of counts, and check them."""
    read, pieces = [], []
    with rules.opened():
        rows = Part(part.index, tuple(s for s in part.slices if s.start < s.stop))
        for checker, table in partition.check_rows(rows, COUNTS):
            rules.check(table, checker.faults)
            read.append(table)
            faults = checker.faults
            pieces.append(CheckedPiece(faults.file, checker.rows, faults.kinds))
    return read, pieces


def sort_rows(
    table: pa.Table,
    samples: Sequence[str] | None,
    wanted: Sequence[Region] | None,
    order: Order | None,
) -> tuple[pa.Table, SortedSlice]:
    """Return the rows that are wanted, sorted by location, and what there is to know of them.

    With a column ``contig``, which is what contigs are sorted by.

    Parameters
    ----------
    table
        A slice of rows, in the columns of `COUNTS`.
    samples
        Names of the samples whose rows are kept; None for all.
    wanted
        Regions outside of which rows are left out; None for none.
    order
        Contigs of the FASTA: rows take their names and order; None: names as they are, sorted.
    """
    rows = len(table)
    table = table.drop_columns("depth")
    if samples is not None:
        table = table.filter(pc.is_in(table["sample"], pa.array(samples)))
    of_samples = len(table)
    replicates = table.select(["sample", "replicate"]).group_by(["sample", "replicate"])
    columns = sorted((r["sample"], r["replicate"]) for r in replicates.aggregate([]).to_pylist())
    other: dict[str, str] = {}
    contig = table["chrom"]
    if order is not None:
        theirs = contig.unique()
        names = [in_file(name, order) or name for name in theirs.to_pylist()]
        other = {c: name for c, name in zip(theirs.to_pylist(), names, strict=True) if c != name}
        indices = pc.index_in(contig, theirs).combine_chunks()
        table = table.set_column(0, "chrom", pa.array(names, pa.string()).take(indices))
        contig = pc.index_in(table["chrom"], pa.array(list(order)))
    table = table.append_column("contig", contig)
    if wanted is not None:
        table = table.filter(pa.array(_inside(table, wanted)))
    table = table.sort_by([("contig", "ascending"), ("pos", "ascending")])
    about = SortedSlice(
        locations=_some_locations(table),
        columns=columns,
        other_samples=rows - of_samples,
        outside=of_samples - len(table),
        renamed=other,
    )
    return table, about


def _inside(table: pa.Table, wanted: Sequence[Region]) -> BoolArray:
    """Return which rows lie in regions, which are sorted within each contig and apart."""
    band = {name: i for i, name in enumerate(dict.fromkeys(r.contig for r in wanted))}
    low = np.array([(band[r.contig] << 32) + r.start for r in wanted], np.int64)
    high = np.array([(band[r.contig] << 32) + r.stop for r in wanted], np.int64)
    names = table["chrom"].unique()
    known = [in_file(name, band) for name in names.to_pylist()]
    bands = np.array([-1 if name is None else band[name] for name in known], np.int64)
    row_band = bands[pc.index_in(table["chrom"], names).to_numpy()]
    position = (row_band << 32) + table["pos"].to_numpy() - 1
    # Of all regions only the last that does not start behind a row can hold it.
    last = np.searchsorted(low, position, side="right") - 1
    return np.asarray((row_band >= 0) & (last >= 0) & (position < high[last]))


def _some_locations(table: pa.Table) -> list[Location]:
    """Return every 50th location of sorted rows, and the last; none of no rows."""
    if not len(table):
        return []
    locations = table.select(["contig", "pos"]).group_by(["contig", "pos"], use_threads=False)
    every = locations.aggregate([])
    picked = every.take(pa.array([*range(0, len(every), EVERY), len(every) - 1]))
    return list(zip(picked["contig"].to_pylist(), picked["pos"].to_pylist(), strict=True))


class Span(NamedTuple):
    """The locations of a partition, from one to before another, and the slices that have some.

    Attributes
    ----------
    number
        Of the span.
    low, high
        The first location, and the first of the next partition; None of the last.
    slices
        Those that reach into it.
    """

    number: int
    low: Location
    high: Location | None
    slices: list[int]

    def rows_of(self, table: pa.Table) -> pa.Table:
        """Return the rows of a slice within it."""
        inside = pc.invert(_before(table, self.low))
        if self.high is not None:
            inside = pc.and_(inside, _before(table, self.high))
        return table.filter(inside)


def _before(table: pa.Table, location: Location) -> pa.ChunkedArray:
    contig, pos = location
    same = pc.and_(pc.equal(table["contig"], contig), pc.less(table["pos"], pos))
    return pc.or_(pc.less(table["contig"], contig), same)


def spans(slices: Mapping[int, Sequence[Location]]) -> list[Span]:
    """Cut the locations of all slices, of which samples are given, into partitions.

    Where the slices' locations follow one another, partitions are the slices.
    """
    known = {index: locations for index, locations in slices.items() if locations}
    starts = [locations[0] for locations in known.values()]
    follow = all(a[-1] < b[0] for a, b in itertools.pairwise(known.values()))
    if not follow or len(known) < len(slices):
        every = sorted({location for locations in known.values() for location in locations})
        starts = sorted({every[len(every) * i // len(slices)] for i in range(len(slices)) if every})
    return [
        Span(
            i,
            low,
            high,
            [
                index
                for index, locations in known.items()
                if locations[-1] >= low and (high is None or locations[0] < high)
            ],
        )
        for i, (low, high) in enumerate(zip(starts, [*starts[1:], None], strict=False))
    ]


def gather_counts(
    parts: Sequence[Part], settings: VariantSettings, paths: RunPaths, each: Each
) -> Gathered:
    """Turn sorted slices into every case's partitions of locations."""
    urls = [paths.part("slices", part.index, "json") for part in parts]
    about = [json_files.read(url, SortedSlice) for url in urls]
    other = {theirs: name for s in about for theirs, name in s.renamed.items()}
    columns = replicate_columns([c for s in about for c in s.columns], settings)
    of_parts = {part.index: s.locations for part, s in zip(parts, about, strict=True)}
    source = parts[0].slices[0].url
    assembled = each(_put_together, spans(of_parts), columns, settings, paths, source)
    return Gathered(
        [partition for of_span in assembled for partition in of_span],
        columns,
        warnings=renamed("the counts", sorted(other.items())),
    )


def _put_together(
    span: Span, columns: list[Column], settings: VariantSettings, paths: RunPaths, source: str
) -> list[Assembled]:
    """Put the locations of a span together, for every case."""
    slices = [storage.read_table(paths.part("slices", index)) for index in span.slices]
    rows = pa.concat_tables([span.rows_of(table) for table in slices])
    of_cases = []
    for case, name in enumerate(settings.tested):
        of_case = replicate_columns(columns, settings.of_case(name))
        assembled = assemble(rows, of_case, name, source)
        index = span.number * len(settings.tested) + case
        write_locations(paths, index, assembled.counts, assembled.loci)
        lost = no_use(
            assembled.without_reads, assembled.without_reference, assembled.rows, "row of a "
        )
        of_cases.append(Assembled.of(index, case, assembled.counts, lost))
    return of_cases
