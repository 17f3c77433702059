"""Simulated BAM files with artefacts: they are read, and what they hold is as their truth says."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.parquet as pq
import pysam
import pytest

from flows.variants.reads import count_region
from flows.variants.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.variants.artefact_bams import CONTIG, write_artefacts
from tests.flows.variants.read_artefacts import ARTEFACTS
from tests.flows.variants.variant_files import check

LENGTH = 1000


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    target = tmp_path_factory.mktemp("artefacts")
    what = replace(ARTEFACTS["bam_all"], depth=60, share=0.4, replicates=1)
    write_artefacts(str(target), LENGTH, 3, what)
    return target


def test_the_sheet_passes_its_check(capsys, drawn):
    code, _, err = check(capsys, drawn / "samples.csv", fasta=drawn / "reference.fa")
    assert code == 0, err


def test_reads_are_pairs_with_clips_marked_copies_and_a_paralog(drawn):
    with pysam.AlignmentFile(str(drawn / "case1.bam")) as file:
        reads = list(file)
    by_name = {}
    for read in reads:
        assert read.is_proper_pair
        assert read.query_length == len(read.query_qualities) == 100
        by_name.setdefault(read.query_name, []).append(read)
    assert all(len(of) == 2 and of[0].is_read1 != of[1].is_read1 for of in by_name.values())
    for one, two in by_name.values():
        assert one.next_reference_start == two.reference_start
        assert one.template_length == -two.template_length != 0
    assert any("S" in read.cigarstring for read in reads)
    assert any(read.is_duplicate for read in reads)
    assert {read.mapping_quality for read in reads} == {25, 60}
    with pysam.AlignmentFile(str(drawn / "control1.bam")) as file:
        assert all(r.cigarstring == "100M" and not r.is_duplicate for r in file)


def test_the_truth_is_in_the_case_and_not_in_the_control(drawn):
    known = pq.read_table(drawn / "_truth" / "variants.parquet").to_pylist()
    with pysam.FastaFile(str(drawn / "reference.fa")) as fasta:
        bases = fasta.fetch(CONTIG)
    settings = VariantSettings(fasta=str(drawn / "reference.fa"))
    region = Region(CONTIG, 0, LENGTH)
    case, control = (
        count_region(str(drawn / f"{sample}1.bam"), region, settings).counts.sum(axis=1)
        for sample in ("case", "control")
    )
    lengths = [len(row["ref"]) for row in known]
    assert lengths.count(4) == 1
    assert lengths.count(1) >= 5
    for row in known:
        at = row["pos"] - 1
        assert bases[at : at + len(row["ref"])] == row["ref"]
        if len(row["ref"]) == 1:
            alt = "ACGT".index(row["alt"])
            assert 0.15 < case[at, alt] / case[at].sum() < 0.65
            assert control[at, alt] <= 2
