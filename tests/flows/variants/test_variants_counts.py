"""Counts that variants are called from: other references, order, rows that are left out."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.records.runs import open_run
from flows.tables import reading
from flows.tables.checks import Checker
from flows.variants.input.sorted_counts import sort_rows
from flows.variants.reads.regions import Region, regions
from flows.variants.schema import COUNTS
from flows.variants.settings import VariantSettings
from tests.flows.commands import refused, succeed
from tests.flows.variants.variant_files import (
    QUICK,
    check,
    loci,
    options,
    sequence,
    write_counts,
    write_fasta,
)


@pytest.fixture
def fasta(tmp_path):
    return write_fasta(tmp_path / "ref.fa")


@pytest.mark.timeout(60)  # what goes with the square takes minutes
def test_thousands_of_contigs_and_intervals():
    contigs = {f"scaffold{i}": 1000 for i in range(30_000)}
    assert len(regions(VariantSettings(fasta="any.fa"), contigs)) == 30_000
    rows = 50_000
    data = {
        "chrom": [f"scaffold{i % 1000}" for i in range(rows)], "pos": np.arange(rows) // 1000 + 1,
        "ref": ["A"] * rows, "sample": ["case"] * rows, "replicate": ["1"] * rows,
        **{b: np.ones(rows, np.int64) for b in "ACGT"},
    }  # fmt: skip
    wanted = [Region(name, s, s + 2) for name in contigs for s in (10, 20)]
    counts = Checker(COUNTS, "counts").read(pa.table(data))
    table, about = sort_rows(reading.add_absent_columns(COUNTS, counts), ["case"], wanted, None)
    assert len(table) == 4000
    assert about.outside == rows - 4000
    assert set(table["pos"].to_pylist()) == {11, 12, 21, 22}


@pytest.mark.thorough
def test_counts_take_the_names_and_the_order_of_the_fasta(capsys, tmp_path):
    names = {"1": "chr1", "2": "chr2", "10": "chr10"}
    fasta = tmp_path / "plain.fa"
    fasta.write_text("".join(f">{a}\n{sequence(b)}\n" for a, b in names.items()))
    source = write_counts(tmp_path / "counts.parquet")
    code, out, _ = check(capsys, source, fasta=fasta)
    assert code == 0
    assert "taken for those of the reference: chr1 for 1, chr10 for 10, chr2 for 2" in out
    how = options(fasta=fasta, region="chr10:1-20")
    succeed("variants", source, tmp_path / "one", *QUICK, *how)
    assert set(loci(tmp_path / "one")["chrom"].to_pylist()) == {"10"}
    for partitions in (1, 5):
        how = ("--partitions", partitions, *options(fasta=fasta))
        succeed("variants", source, tmp_path / "all", *QUICK, *how)
        found = loci(tmp_path / "all")
        assert found["chrom"].to_pylist() == [name for name in names for _ in range(40)]
        assert found["pos"].to_pylist() == 3 * list(range(1, 41))


def test_contigs_and_samples_that_are_numbers_are_names(tmp_path):
    """As pandas reads them from CSV, by which a sheet of counts is to be made Parquet."""
    source = write_counts(tmp_path / "counts.parquet", ("7",), ("1", "2"))
    numbers = {"chrom": pa.int64(), "sample": pa.int64(), "replicate": pa.int64()}
    table = pq.read_table(source)
    for name, kind in numbers.items():
        cells = table[name].cast(kind)
        table = table.set_column(table.column_names.index(name), name, cells)
    pq.write_table(table, source)
    succeed("variants", source, tmp_path / "out", *QUICK, *options(case=1, control=2))
    assert set(loci(tmp_path / "out")["chrom"].to_pylist()) == {"7"}
    assert set(loci(tmp_path / "out")["sample"].to_pylist()) == {"1"}


@pytest.mark.thorough
def test_rows_that_are_left_out_are_counted_with_a_reason(capsys, tmp_path):
    def change(contig, reads, ref):
        if contig == "chr1":
            ref[3] = -1
            reads[7] = 0
            reads[8, :2] = 0  # only another sample's reads
            reads[9, 0] = 0  # the control has some

    source = write_counts(
        tmp_path / "counts.parquet", samples=("case", "control", "x", "y"), change=change
    )
    how = options(region="chr1:1-20")
    for partitions in (1, 4):
        succeed("variants", source, tmp_path / "out", *QUICK, *how,
                           "--partitions", partitions)  # fmt: skip
        _, record = open_run(str(tmp_path / "out"))
        assert {d.reason: d.count for d in record.dropped} == {
            "row of a sample that is neither case nor control": 2 * 3 * 40,
            "row outside of the region and the BED's intervals": 2 * 20 + 2 * 2 * 40,
            "row of a position without a read in any replicate": 2 * 2,
            "row of a location whose reference is not A, C, G or T": 2,
        }
        assert record.rows_read == 4 * 3 * 40
        assert record.rows_kept == 2 * 17
        assert record.rows_kept + sum(d.count for d in record.dropped) == record.rows_read
    err = refused(capsys, "variants", source, tmp_path / "no", *QUICK, *options(region="chr7"))
    assert "no row of these samples and regions" in err
