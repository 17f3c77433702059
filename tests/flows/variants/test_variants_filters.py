"""Filters of reads from BAM to VCF: artefacts of many kinds among true variants."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest

from flows.records.runs import open_run
from tests.flows.commands import refused, succeed
from tests.flows.variants.variant_files import (
    header_of,
    make_read,
    options,
    save_reads,
    write_sheet,
)

LENGTH, READ, READS = 320, 100, 1600
TRUE, ENDS, ONE_STRAND, POOR, PARALOG, DELETION = 150, 90, 120, 180, 210, 250
REFERENCE = "".join(np.random.default_rng(5).choice(list("ACGT"), LENGTH))
HOW = options(max_iter=8, indels=False)


def other(base):
    return "CATG"["ACGT".index(base)]


def _read(rng, header, name, start, case):
    """A read of one strand, with what the case carries at its share and what goes wrong in it."""
    bases, quality = list(REFERENCE[start : start + READ + 3]), np.full(READ + 3, 37)
    flag, mapped, cigar = 16 * int(rng.random() < 0.5), 60, None
    for i in np.flatnonzero(rng.random(READ) < 0.0005):
        bases[i] = other(bases[i])

    def shows(position):
        return case and start <= position < start + READ

    if shows(TRUE) and rng.random() < 0.05:
        bases[TRUE - start] = other(REFERENCE[TRUE])
    if shows(ENDS) and min(ENDS - start, start + READ - 1 - ENDS) < 6 and rng.random() < 0.5:
        bases[ENDS - start] = other(REFERENCE[ENDS])
    if shows(ONE_STRAND) and not flag and rng.random() < 0.06:
        bases[ONE_STRAND - start] = other(REFERENCE[ONE_STRAND])
    if shows(POOR) and rng.random() < 0.05:
        bases[POOR - start], quality[POOR - start] = other(REFERENCE[POOR]), 22
    if shows(PARALOG) and rng.random() < 0.05:
        bases[PARALOG - start], mapped = other(REFERENCE[PARALOG]), 24
    if case and rng.random() < 0.3 and start < DELETION < start + READ - 1:
        kept = DELETION - start
        bases = bases[:kept] + list(REFERENCE[DELETION + 3 : start + READ + 3])
        if READ - kept > 6:  # else the aligner prefers mismatches to a gap
            cigar = [(0, kept), (2, 3), (0, READ - kept)]
    bases = "".join(bases[:READ])
    return make_read(header, name, start, bases, cigar, flag, 0, mapped, quality[:READ])


@pytest.fixture(scope="module")
def sheet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filters")
    (folder / "ref.fa").write_text(f">amp\n{REFERENCE}\n")
    header, rows = header_of(["amp"], LENGTH), []
    for seed in range(4):
        sample, replicate = ("case", "control")[seed // 2], seed % 2 + 1
        rng, name = np.random.default_rng(seed), f"{sample}{replicate}.bam"
        starts = np.sort(rng.integers(0, LENGTH - READ - 3, READS))
        save_reads(folder / name, header, [
            _read(rng, header, f"r{i}", int(start), sample == "case")
            for i, start in enumerate(starts)
        ])  # fmt: skip
        rows.append((sample, replicate, name))
    return write_sheet(folder, rows)


@pytest.fixture(scope="module")
def called(sheet):
    target = sheet.parent / "calls"
    succeed("variants", sheet, target, *HOW, *options(fasta=sheet.parent / "ref.fa"))
    return open_run(str(target))[0]


def filters(place):
    with pysam.VariantFile(place.file("variants.vcf.gz")) as file:
        return {record.pos - 1: set(record.filter) for record in file}


def joined(place):
    """Return the filters of every base that differs in a record of several."""
    with pysam.VariantFile(place.file("variants.vcf.gz")) as file:
        return {
            record.pos - 1 + i: set(record.filter)
            for record in file
            for i, (ref, alt) in enumerate(zip(record.ref, record.alts[0], strict=True))
            if len(record.ref) > 1 and ref != alt
        }


@pytest.mark.thorough
def test_artefacts_are_named_and_true_variants_pass(called):
    found = filters(called)
    assert found[TRUE] == {"PASS"}
    assert "read_end" in found[ENDS]
    assert found[ONE_STRAND] == {"strand_bias"}
    assert found[POOR] == {"low_baseq"}
    assert found[PARALOG] == {"low_mapq"}
    near = {p: f for p, f in found.items() if DELETION - 8 <= p <= DELETION + 8}
    assert near
    assert all({"read_end", "many_mismatches"} & f for f in near.values())
    assert {p for p, f in found.items() if f == {"PASS"}} == {TRUE}
    rows = pq.read_table(called.table("loci")).filter(pa.compute.field("called")).to_pylist()
    # A row is a base; a record may join bases on the same reads.
    assert {r["pos"] - 1: set(r["filter"].split(";")) for r in rows} == found | joined(called)


@pytest.mark.thorough
def test_replicates_and_shares_stand_in_the_vcf(called):
    with pysam.VariantFile(called.file("variants.vcf.gz")) as file:
        assert list(file.header.samples) == [
            "case", "case:1", "case:2", "control", "control:1", "control:2",
        ]  # fmt: skip
        for record in file:
            case, one, two = (record.samples[i] for i in range(3))
            for key in ("DP", "AD", "ADF", "ADR", "SB"):
                sums = np.add(one[key], two[key])
                assert np.array_equal(np.atleast_1d(case[key]), np.atleast_1d(sums))
            low, high = record.info["AFCI"]
            assert low < record.info["AF"][0] < high
            assert record.info["QV"] <= 0.05
            assert 0 <= record.info["LFDR"] <= 0.5
            if record.pos - 1 == ENDS:
                assert record.info["RPZ"] < -5
            if record.pos - 1 == TRUE:
                assert abs(record.info["RPZ"]) < 4
                assert "strand_bias" not in record.info.get("UNTESTED", ())


@pytest.mark.thorough
def test_a_filter_can_be_left_out(capsys, sheet, tmp_path):
    how = options(fasta=sheet.parent / "ref.fa", skip_filters="low_baseq,read_end")
    succeed("variants", sheet, tmp_path / "out", *HOW, *how)
    place = open_run(str(tmp_path / "out"))[0]
    assert filters(place)[POOR] == {"PASS"}
    with pysam.VariantFile(place.file("variants.vcf.gz")) as file:
        assert "low_baseq: skip_filters names it" in str(file.header)
    err = refused(capsys, "check", "variants", sheet, *options(skip_filters="baseq"))
    assert "skip_filters names 'baseq'" in err
