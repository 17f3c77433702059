"""Raw records of a BAM: the counts of htslib's pileup to the read, and sums as by hand."""

import struct
from collections import Counter

import numpy as np
import pysam
import pytest
from numpy.testing import assert_array_equal

from flows.variants.reads import bam_kernels, bam_walk
from flows.variants.reads.regions import Region
from flows.variants.schema import READ_SUMS
from flows.variants.settings import VariantSettings
from tests.flows.variants import hostile_bam
from tests.flows.variants.hostile_bam import D, H, I, M, P, S
from tests.flows.variants.pileup import count_region, pileup_region
from tests.flows.variants.variant_files import header_of, make_read, save_reads

WHOLE = Region("amp", 0, 1500)
HOW = (
    {"min_base_quality": 20},
    {"min_base_quality": 0, "orphans": True, "min_mapping_quality": 0},
)


@pytest.fixture(scope="module")
def fasta(tmp_path_factory):
    return hostile_bam.write_fasta(tmp_path_factory.mktemp("hostile") / "ref.fa")


@pytest.fixture(scope="module")
def odd(fasta):
    """Reads of every odd kind, spread over a contig and all at one place."""
    folder = fasta.parent
    return [
        hostile_bam.write(folder / f"{seed}.bam", seed, kind=kind, depth_at=at, htslib=True)
        for seed, kind, at in ((0, "odd", None), (1, "odd", 300), (2, "plain", None))
    ]


def _at_most_two_of_a_name(bam):
    """Copy a BAM without the third read of a template, which htslib leaves as it is."""
    copy = bam.with_suffix(".two.bam")
    times = Counter()
    with (
        pysam.AlignmentFile(str(bam)) as file,
        pysam.AlignmentFile(str(copy), "wb", template=file) as written,
    ):
        for read in file:
            times[read.query_name] += 1
            if times[read.query_name] <= 2:
                written.write(read)
    pysam.index(str(copy))
    return copy


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("chunk", [900, 2**16])
def test_counts_are_those_of_htslib_s_pileup(odd, fasta, monkeypatch, chunk, how):
    monkeypatch.setattr(bam_walk, "_LEAST_CHUNK", chunk)
    monkeypatch.setattr(bam_walk, "_MOST_CHUNK", chunk)
    settings = VariantSettings(fasta=str(fasta), **how)
    for bam in odd:
        if settings.orphans:
            bam = _at_most_two_of_a_name(bam)
        for region in (WHOLE, Region("amp", 313, 401), Region("last", 0, 400)):
            expected = pileup_region(str(bam), region, settings)
            assert_array_equal(count_region(str(bam), region, settings).counts, expected)
        assert expected.sum() > 0


def test_counts_of_real_reads_are_those_of_htslib_s_pileup(shared_data):
    folder = shared_data / "variants" / "bam"
    region = Region("17", 7_572_000, 7_591_000)
    reading = bam_walk.Reading(20, 20)

    def unknown(low, high):
        return np.full(high - low, -1, np.int8)

    for name in ("NA06986", "NA12878"):
        settings = VariantSettings()
        path = str(folder / f"{name}.bam")
        expected = pileup_region(path, region, settings)
        with pysam.AlignmentFile(path) as file:
            found = bam_walk.tally(file, "17", region.start, region.stop, reading, unknown)
        assert expected.sum() > 50_000
        assert_array_equal(found.counts, expected)


def _by_hand(path, region, fasta, least):
    """Sum over the reads that show an allele, read by read; mates that overlap count twice."""
    counts = np.zeros((region.length, 2, 4), int)
    sums = np.zeros((region.length, 4, len(READ_SUMS)), int)
    with pysam.AlignmentFile(str(path)) as file, pysam.FastaFile(str(fasta)) as reference:
        bases = reference.fetch(region.contig)
        for read in file.fetch(region.contig):
            if read.flag & 0x704 or read.mapping_quality < 20:
                continue
            shown, quality = read.query_sequence, read.query_qualities
            quality = list(quality) if quality else [255] * len(shown)
            pairs = _aligned(read)
            wrong = {
                q for q, p in pairs
                if p < len(bases) and quality[q] >= least and shown[q] != bases[p]
            }  # fmt: skip
            operations = [(o, n) for o, n in read.cigartuples]
            clips = [[], []]
            for side, of in enumerate((operations, operations[::-1])):
                for o, n in of:
                    if o not in (S, H):
                        break
                    clips[side].append((o, n))
            lead, trail = (sum(n for o, n in clip if o == S) for clip in clips)
            close = set()
            at = 0
            for k, (o, n) in enumerate(operations):
                if o in (I, D):
                    stop = at + (n if o == I else 0)
                    left = range(at - 5, at)
                    right = range(stop, stop + 5)
                    # Up to what interrupts the aligned bases.
                    close |= set(_uninterrupted(operations, k, -1, left))
                    close |= set(_uninterrupted(operations, k, 1, right))
                at += n if o in (M, I, S, 7, 8) else 0
            for q, p in pairs:
                if not region.start <= p < region.stop or quality[q] < least:
                    continue
                b = "ACGT".find(shown[q])
                if b < 0:
                    continue
                end = min(q - lead, len(shown) - trail - 1 - q)
                others = wrong - {q}
                counts[p - region.start, int(read.is_reverse), b] += 1
                given = quality[q] < 255
                sums[p - region.start, b] += [
                    quality[q] * given, quality[q] ** 2 * given,
                    read.mapping_quality, read.mapping_quality**2,
                    end, end**2, q in close, any(clips), len(others),
                    sum(abs(o - q) <= 10 for o in others) > 2, not given,
                ]  # fmt: skip
    return counts, sums


def _aligned(read):
    """Return (base, position) of aligned bases; pysam's own are wrong behind a padding."""
    base, position, found = 0, read.reference_start, []
    for o, n in read.cigartuples:
        if o in (M, 7, 8):
            found += [(base + i, position + i) for i in range(n)]
        base += n if o in (M, I, S, 7, 8) else 0
        position += n if o in (M, D, 3, 7, 8) else 0
    return found


def _uninterrupted(operations, k, step, places):
    """Return the places that only aligned bases part from operation ``k``, on one side."""
    reach, j = 0, k + step
    while 0 <= j < len(operations) and operations[j][0] in (M, P, 7, 8):
        reach += operations[j][1] if operations[j][0] != P else 0
        j += step
    places = list(places)
    return places[:reach] if step > 0 else places[max(0, len(places) - reach) :]


def test_sums_are_those_by_hand(odd, fasta):
    settings = VariantSettings(fasta=str(fasta))
    for bam in odd:
        found = count_region(str(hostile_bam.without_pairs(bam)), WHOLE, settings)
        counts, sums = _by_hand(bam, WHOLE, fasta, 20)
        assert_array_equal(found.counts, counts)
        for i, name in enumerate(READ_SUMS):
            assert_array_equal(found.sums[:, :, i], sums[:, :, i], name)
            assert sums[:, :, i].any() or bam == odd[2]  # which has no indels


def test_cram_and_an_index_of_another_kind_give_the_same(odd, fasta, tmp_path):
    settings = VariantSettings(fasta=str(fasta))
    bam, cram = tmp_path / "a.bam", tmp_path / "a.cram"
    bam.write_bytes(odd[2].read_bytes())
    pysam.index("-c", str(bam))
    expected = count_region(str(odd[2]), WHOLE, settings)
    assert_array_equal(count_region(str(bam), WHOLE, settings).sums, expected.sums)
    pysam.view("-C", "-T", str(fasta), "-o", str(cram), str(bam), catch_stdout=False)
    pysam.index(str(cram))
    found = count_region(str(cram), WHOLE, settings)
    assert_array_equal(found.counts, expected.counts)


def test_a_cut_file_is_refused(odd, fasta, tmp_path):
    cut = tmp_path / "cut.bam"
    data = odd[0].read_bytes()
    cut.write_bytes(data[: len(data) // 2])
    (tmp_path / "cut.bam.bai").write_bytes((odd[0].parent / f"{odd[0].name}.bai").read_bytes())
    with pytest.raises(OSError):
        count_region(str(cut), WHOLE, VariantSettings(fasta=str(fasta)))


@pytest.mark.parametrize("size", [31, -5, 2**28 + 1, 2**31 - 10])
def test_a_record_of_a_size_that_none_has_is_not_waited_for(size):
    data = np.frombuffer(struct.pack("<i", size) + bytes(64), np.uint8)
    reads = np.empty((4, bam_kernels.COLUMNS), np.int64)
    account = np.zeros(bam_kernels.ACCOUNT, np.int64)
    found = bam_kernels.find_reads(
        data, 0, len(data), 0, 0, 100, 0, (0, 0x704, False), reads, 0, account
    )
    assert found == (0, 0, 3)


def test_a_long_cigar_is_read_from_its_tag(fasta, tmp_path):
    """More than 65,535 operations do not fit a record: they stand in the tag CG."""
    reference = "".join(np.random.default_rng(0).choice(list("ACGT"), 200_000))
    (tmp_path / "r.fa").write_text(f">amp\n{reference}\n")
    header, cigar = header_of(["amp"], 200_000), [(M, 2), (I, 1)] * 35_000 + [(M, 1)]
    read = make_read(header, "long", 10, "ACG" * 35_000 + "A", cigar)
    save_reads(tmp_path / "a.bam", header, [read])
    settings = VariantSettings(fasta=str(tmp_path / "r.fa"))
    region = Region("amp", 0, 16_000)
    found = count_region(str(tmp_path / "a.bam"), region, settings)
    assert_array_equal(found.counts, pileup_region(str(tmp_path / "a.bam"), region, settings))
    assert found.counts.sum() == 16_000 - 10
    assert found.sums[10:, :, list(READ_SUMS).index("near_indel")].sum() == 16_000 - 10
