"""What is part of the depth: reads that span a deletion, each template once, bases written as =."""

import json

import numpy as np
import pysam
import pytest
from numpy.testing import assert_array_equal

from flows.records.runs import open_run
from flows.variants.reads.reads import ReadCounter
from flows.variants.reads.regions import Region
from flows.variants.settings import VariantSettings
from tests.cases.reads import reference_bases, write_reference, write_sheet
from tests.flows.commands import succeed
from tests.flows.variants import hostile_bam
from tests.flows.variants.pileup import count_region
from tests.flows.variants.variant_files import header_of, make_read, save_reads

TEXT = reference_bases()
HEADER = header_of(["amp"], len(TEXT))
WHOLE = Region("amp", 0, len(TEXT))
OTHER = "A" if TEXT[121] != "A" else "C"  # at position 122, which the deletion takes
DELETED, SHOWN = 400, 60  # of 600 reads


@pytest.fixture(scope="module")
def spanned(tmp_path_factory):
    """A case of which most reads have a deletion of 120 to 123, and a tenth another base there."""
    folder = tmp_path_factory.mktemp("spanned")
    write_reference(folder / "ref.fa")
    rng = np.random.default_rng(1)
    for name in ("t", "n"):
        made = []
        for i, start in enumerate(rng.integers(75, 110, 600).tolist()):
            shown, cigar, before = TEXT[start : start + 60], None, 120 - start
            if name == "t" and i < DELETED:
                shown = TEXT[start:120] + TEXT[124 : start + 64]
                cigar = [(0, before), (2, 4), (0, 60 - before)]
            elif name == "t" and i < DELETED + SHOWN:
                shown = shown[: before + 1] + OTHER + shown[before + 2 :]
            made.append(make_read(HEADER, f"r{i}", start, shown, cigar, 16 * (i % 2)))
        save_reads(folder / f"{name}.bam", HEADER, made)
    write_sheet(folder, "case,1,t.bam", "control,1,n.bam")
    return folder


@pytest.mark.parametrize(
    "counted", [False, pytest.param(True, marks=pytest.mark.thorough)], ids=["reads", "counts"]
)
def test_depth_counts_the_reads_that_span_a_deletion(spanned, tmp_path, counted):
    source = spanned / "samples.csv"
    options = ("--set", f"fasta={spanned / 'ref.fa'}", "--set", "max_iter=40")
    if counted:
        succeed("count", source, tmp_path / "counts", *options[:2])
        rows = json.loads((tmp_path / "counts" / "reads.json").read_text())
        assert rows["case 1"]["counted"] == rows["control 1"]["counted"] == 600
        source = tmp_path / "counts"
    succeed("variants", source, tmp_path / "out", *options)
    place, record = open_run(str(tmp_path / "out"))
    with pysam.VariantFile(place.file("variants.vcf.gz")) as vcf:
        (call,) = (r for r in vcf if r.pos == 122)
    assert call.samples["case"]["DP"] == 600
    assert call.samples["case"]["AD"] == (600 - DELETED - SHOWN, SHOWN)
    assert call.samples["case"]["AF"][0] == pytest.approx(0.1)
    assert call.samples["control"]["DP"] == 600
    assert 0.05 < call.info["AF"][0] < 0.15
    assert any("deletion" in said and "400 of 600" in said for said in record.warnings)


def test_two_alignments_of_a_read_count_once_where_they_overlap(tmp_path):
    write_reference(tmp_path / "ref.fa")
    first = make_read(HEADER, "r", 50, TEXT[50:110])
    supplementary = make_read(HEADER, "r", 90, TEXT[90:140], [(5, 10), (0, 50)], 0x800)
    other = make_read(HEADER, "other", 80, TEXT[80:120])
    save_reads(tmp_path / "a.bam", HEADER, [first, supplementary, other])
    settings = VariantSettings(fasta=str(tmp_path / "ref.fa"))
    depth = count_region(str(tmp_path / "a.bam"), WHOLE, settings).counts.sum(axis=(1, 2))
    expected = np.zeros(len(TEXT), int)
    expected[50:140] += 1
    expected[80:120] += 1
    assert_array_equal(depth, expected)


def test_what_counts_at_a_position_does_not_depend_on_the_region(tmp_path):
    fasta = hostile_bam.write_fasta(tmp_path / "ref.fa")
    bam = str(hostile_bam.write(tmp_path / "odd.bam", 5))
    settings = VariantSettings(fasta=str(fasta), orphans=True)
    whole = count_region(bam, Region("amp", 0, 1500), settings)
    cut = [count_region(bam, Region("amp", s, s + 100), settings) for s in range(0, 1500, 100)]
    assert_array_equal(np.concatenate([one.counts for one in cut]), whole.counts)
    assert_array_equal(np.concatenate([one.deleted for one in cut]), whole.deleted)
    assert whole.deleted.any()


def test_a_base_written_as_equal_is_that_of_the_reference(tmp_path):
    write_reference(tmp_path / "ref.fa")
    rng = np.random.default_rng(2)
    spelt, equal = [], []
    for i, start in enumerate(rng.integers(0, 170, 200).tolist()):
        letters = np.array(list(TEXT[start : start + 60]))
        letters[rng.random(60) < 0.05] = "G"
        cigar = [(4, 3), (0, 20), (2, 2), (0, 10), (1, 1), (0, 26)]
        place = np.concatenate([np.full(3, -1), np.arange(20), np.arange(22, 32), [-1],
                                np.arange(32, 58)])  # fmt: skip
        same = (place >= 0) & (letters == np.array(list(TEXT + "N" * 60))[start + place])
        flag = 16 * (i % 2)
        spelt.append(make_read(HEADER, f"r{i}", start, "".join(letters), cigar, flag))
        text = "".join(np.where(same, "=", letters))
        equal.append(make_read(HEADER, f"r{i}", start, text, cigar, flag))
    found = []
    settings = VariantSettings(fasta=str(tmp_path / "ref.fa"))
    for name, reads in (("a.bam", spelt), ("b.bam", equal)):
        path = str(save_reads(tmp_path / name, HEADER, reads))
        with ReadCounter(settings) as counter:
            shown, _ = counter.templates(path, "amp", np.arange(100, 104))
            found.append((counter.count(path, WHOLE), shown))
    (one, shown), (other, also) = found
    assert_array_equal(other.counts, one.counts)
    assert_array_equal(other.sums, one.sums)
    assert_array_equal(other.indels, one.indels)
    assert_array_equal(also, shown)
    assert one.counts.sum() > 10_000
