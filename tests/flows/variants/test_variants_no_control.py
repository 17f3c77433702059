"""Locations where the control has no reads, cases without a control, and what is a warning."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pysam
import pytest

from flows.records.runs import open_run
from flows.variants.case_answer import differences_of
from flows.variants.input.counts import to_table
from tests.cases.reads import reference_bases, write_reference, write_sheet
from tests.flows.commands import succeed
from tests.flows.variants.variant_files import header_of, make_read, save_reads
from vbmodels.variants.counts import Counts
from vbmodels.variants.two_groups.batch_null import BatchNull, ShiftErrors
from vbmodels.variants.two_groups.model import MIXTURE

WITHOUT = range(40, 60)  # locations, from 0, where the control has no reads
SHARES = {5: 0.05, 42: 0.04, 45: 0.3, 50: 0.999}


def write_counts(path, samples=("case", "control"), depth=2000):
    rng = np.random.default_rng(2)
    ref = rng.integers(0, 4, 80).astype(np.int8)
    counts = np.zeros((80, len(samples), 4), int)
    for j in range(80):
        for s, sample in enumerate(samples):
            p = np.full(4, 3e-4)
            if sample == "case":
                p[(ref[j] + 1) % 4] += SHARES.get(j, 0.0)
            p[ref[j]] = 1.0 - (p.sum() - p[ref[j]])
            counts[j, s] = rng.multinomial(depth, p / p.sum())
            if sample == "control" and j in WITHOUT:
                counts[j, s] = 0
    pq.write_table(to_table(counts, ref, "chr1", 0, [(s, "1") for s in samples]), path)
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("no-control")
    succeed("variants", write_counts(folder / "counts.parquet"), folder / "out",
            "--set", "max_iter=30")  # fmt: skip
    return open_run(str(folder / "out"))[0]


def records(place):
    with pysam.VariantFile(place.file("variants.vcf.gz")) as vcf:
        return {r.pos - 1: (list(r.filter), r.qual) for r in vcf}


def test_every_allele_that_the_case_alone_shows_is_in_the_vcf(place):
    found = records(place)
    assert found.keys() >= SHARES.keys()
    assert found[5][0] == ["PASS"]
    assert all(found[j][0] == ["no_control"] for j in SHARES if j in WITHOUT)
    assert found[42][1] < found[45][1] < found[50][1]


def test_a_replicate_that_shows_the_allele_has_the_genotype_of_its_sample(place):
    with pysam.VariantFile(place.file("variants.vcf.gz")) as vcf:
        (call,) = (r for r in vcf if r.pos == 6)
    assert call.samples["case:1"]["AD"] == call.samples["case"]["AD"]
    assert call.samples["case:1"]["GT"] == call.samples["case"]["GT"] == (0, 1)
    assert call.samples["control:1"]["GT"] == (0, 0)


def test_a_location_without_control_is_not_callable(place):
    with open(place.file("callable.bed")) as file:
        spans = [line.split()[1:] for line in file]
    callable_at = {j for low, high in spans for j in range(int(low), int(high))}
    assert callable_at
    assert not callable_at & set(WITHOUT)


def test_a_case_alone_has_the_more_evidence_the_larger_its_share(tmp_path):
    source = write_counts(tmp_path / "counts.parquet", samples=("case",))
    succeed("variants", source, tmp_path / "out", "--set", "control=", "--set", "max_iter=30")
    place, _ = open_run(str(tmp_path / "out"))
    found = records(place)
    assert found[42][1] < found[45][1] < found[50][1]


def _fit(shift, se):
    q = BatchNull("gain", MIXTURE)
    of = Counts(np.ones((2, 2, 4), np.int32), np.zeros(2, np.int8), np.array([True, False]))
    q = q.init(q.observe(of), np.random.default_rng(0))
    return replace(
        q, shift=np.full(12, shift), errors=ShiftErrors(np.full(12, se), se / np.sqrt(12.0))
    )


def test_a_mean_difference_of_few_errors_is_no_warning():
    """Of 5 against 13 errors of each type the log of the ratio has a standard error of .5."""
    few, many = (differences_of(_fit(-0.45, error)) for error in (0.5, 0.12))
    assert few.overall is None
    assert many.overall == pytest.approx(np.exp(-0.45), rel=0.02)
    assert few.marked == many.marked == ()


def test_a_deletion_that_the_case_alone_shows_is_in_the_vcf(tmp_path):
    """The control has reads at the first positions only."""
    text, rng = reference_bases(), np.random.default_rng(1)
    write_reference(tmp_path / "ref.fa")
    header = header_of(["amp"], len(text))
    for name, most in (("t", 175), ("n", 20)):
        made = []
        for i, start in enumerate(np.sort(rng.integers(0, most, 500)).tolist()):
            before = 120 - start
            shown, cigar = text[start : start + 60], None
            if name == "t" and 8 < before < 52 and i % 2:
                shown = text[start:120] + text[123 : start + 63]
                cigar = [(0, before), (2, 3), (0, 60 - before)]
            made.append(make_read(header, f"r{i}", start, shown, cigar, 16 * (i % 3 == 0)))
        save_reads(tmp_path / f"{name}.bam", header, made)
    sheet = write_sheet(tmp_path, "case,1,t.bam", "control,1,n.bam")
    succeed("variants", sheet, tmp_path / "out", "--set", "max_iter=8")
    place, _ = open_run(str(tmp_path / "out"))
    with pysam.VariantFile(place.file("variants.vcf.gz")) as vcf:
        found = [(len(r.ref), len(r.alts[0]), list(r.filter)) for r in vcf]
    assert (4, 1, ["no_control"]) in found
