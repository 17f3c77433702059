"""Called bases on the same reads as one record of the VCF, from BAM files."""

import numpy as np
import pyarrow.parquet as pq
import pysam
import pytest

from flows.records.runs import open_run, read_record
from flows.variants.reads.reads import ReadCounter
from flows.variants.reads.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.commands import succeed
from tests.flows.variants.pileup import count_region
from tests.flows.variants.variant_files import (
    header_of,
    make_read,
    options,
    save_reads,
    sequence,
    write_sheet,
)

LENGTH, READ, READS = 320, 80, 1200
SHARE = 0.15
REFERENCE = sequence("mnv", LENGTH)
SAME, APART, THREE, CODON, BY_INDEL = (60, 61), (100, 101), (140, 141, 142), (180, 182), 220
FAR = (260, 264)
HOW = options(max_iter=8, skip_filters="many_mismatches")


def other(base):
    return "CATG"["ACGT".index(base)]


def _bases(rng, start, case):
    """A stretch of the reference with what the case carries on one haplotype each."""
    bases, cigar = list(REFERENCE[start : start + READ + 3]), None

    def put(*positions):
        for p in positions:
            if start <= p < start + READ:
                bases[p - start] = other(REFERENCE[p])

    if case:
        for positions in (SAME, THREE, CODON, FAR):
            if rng.random() < SHARE:
                put(*positions)
        which = rng.random()
        if which < SHARE:
            put(APART[0])
        elif which < 2 * SHARE:
            put(APART[1])
        kept = BY_INDEL + 1 - start
        if rng.random() < SHARE and 10 < kept < READ - 10:
            put(BY_INDEL)
            bases = bases[:kept] + bases[kept + 3 :]
            cigar = [(0, kept), (2, 3), (0, READ - kept)]
    for i in np.flatnonzero(rng.random(len(bases)) < 0.0005):
        bases[i] = other(bases[i])
    return "".join(bases[:READ]), cigar


def _single(rng, header, case):
    for i, start in enumerate(np.sort(rng.integers(0, LENGTH - READ - 3, READS)).tolist()):
        bases, cigar = _bases(rng, start, case)
        flag = 16 * int(rng.integers(2))
        yield make_read(header, f"r{i}", start, bases, cigar, flag, quality=37)


def _pairs(rng, header, case):
    """Mates of one haplotype that overlap, and of which the second ends where the first does."""
    for i, start in enumerate(np.sort(rng.integers(0, LENGTH - READ - 3, READS)).tolist()):
        bases, cigar = _bases(rng, start, case)
        skip = 0 if cigar else int(rng.integers(0, 40))
        for flag, first, own in ((99, 0, cigar), (147, skip, cigar)):
            read = make_read(header, f"p{i}", start + first, bases[first:], own, flag, quality=37)
            read.next_reference_id = 0
            read.next_reference_start = start if flag == 147 else start + skip
            read.template_length = READ if flag == 99 else -READ
            yield read


@pytest.fixture(scope="module")
def sheet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mnv")
    (folder / "ref.fa").write_text(f">amp\n{REFERENCE}\n")
    pysam.faidx(str(folder / "ref.fa"))
    header, rows = header_of(["amp"], LENGTH), []
    for seed, (sample, replicate, draw) in enumerate(
        (("case", 1, _single), ("case", 2, _pairs), ("control", 1, _single), ("control", 2, _pairs))
    ):
        rng, name = np.random.default_rng(seed), f"{sample}{replicate}.bam"
        save_reads(folder / name, header, list(draw(rng, header, sample == "case")))
        rows.append((sample, replicate, name))
    return write_sheet(folder, rows)


def called(sheet, target, **settings):
    succeed("variants", sheet, target, *HOW, *options(fasta=sheet.parent / "ref.fa", **settings))
    return open_run(str(target))[0]


@pytest.fixture(scope="module")
def place(sheet):
    return called(sheet, sheet.parent / "calls")


def records(place):
    with pysam.VariantFile(place.file("variants.vcf.gz")) as file:
        return {(r.pos - 1, len(r.ref), len(r.alts[0])): r.copy() for r in file}


def test_bases_on_the_same_reads_are_one_record(place):
    found = records(place)
    joined = {key for key in found if key[1] == key[2] > 1}
    assert joined == {(SAME[0], 2, 2), (THREE[0], 3, 3), (CODON[0], 3, 3)}
    for p, n, _ in joined:
        ref = REFERENCE[p : p + n]
        changed = [other(b) for b in ref]
        if p == CODON[0]:
            changed[1] = ref[1]
        assert (found[p, n, n].ref, found[p, n, n].alts) == (ref, ("".join(changed),))
        assert list(found[p, n, n].filter) == ["PASS"]


def test_bases_on_different_reads_or_by_an_indel_or_further_apart_stay_records(place):
    single = {p for p, n, m in records(place) if n == m == 1}
    assert single == {*APART, BY_INDEL, *FAR}
    assert any(p in (BY_INDEL - 1, BY_INDEL) for p, n, m in records(place) if (n, m) == (4, 1))


def test_joint_reads_are_those_of_templates_with_all_bases(place, sheet):
    """Of mates that overlap each base counts once, as in the counts of single positions."""
    record = records(place)[SAME[0], 2, 2]
    for sample in ("case", "control"):
        sums = np.zeros(2, int)
        for r in (1, 2):
            entry = record.samples[f"{sample}:{r}"]
            shown = {}
            with pysam.AlignmentFile(sheet.parent / f"{sample}{r}.bam") as file:
                for read in file.fetch("amp", SAME[0], SAME[1] + 1):
                    at = {p: q for q, p in read.get_aligned_pairs(matches_only=True)}
                    if SAME[0] in at and SAME[1] in at:
                        shown[read.query_name] = read.query_sequence[at[SAME[0]] :][:2]
            pairs = list(shown.values())
            expected = (pairs.count(record.ref), pairs.count(record.alts[0]))
            assert entry["AD"] == expected
            assert np.add(entry["ADF"], entry["ADR"]).tolist() == list(expected)
            sums += expected
            assert entry["GT"] == ((0, 1) if sample == "case" else (0, 0))
        assert record.samples[sample]["AD"] == tuple(sums)
    assert record.samples["case"]["AF"][0] == pytest.approx(SHARE, abs=0.03)


def test_the_tables_keep_each_base_and_the_report_counts_the_records(place):
    rows = pq.read_table(place.table("loci")).to_pylist()
    assert {row["pos"] - 1 for row in rows if row["called"]} >= {*SAME, *THREE, *CODON}
    calls = read_record(place).results["calls"]
    assert sum(len(one["ref"]) == len(one["alt"]) > 1 for one in calls) == 3


def test_templates_show_what_is_counted(sheet):
    """At a single position the templates' bases are the counts, of single reads and of mates."""
    settings = VariantSettings(fasta=str(sheet.parent / "ref.fa"))
    for name in ("case1.bam", "case2.bam"):
        path = str(sheet.parent / name)
        with ReadCounter(settings) as reads:
            for p in (SAME[0], THREE[2], BY_INDEL):
                shown, _ = reads.templates(path, "amp", np.array([p]))
                counts = count_region(path, Region("amp", p, p + 1), settings).counts[0]
                own = np.bincount(shown[shown[:, 0] >= 0, 0], minlength=4)
                assert own.tolist() == counts.sum(axis=0).tolist()


def test_each_position_has_the_strand_of_the_reads_that_show_it(sheet):
    """Positions so far apart that most reads show one of them alone."""
    settings, places = VariantSettings(fasta=str(sheet.parent / "ref.fa")), (SAME[0], BY_INDEL)
    path = str(sheet.parent / "case1.bam")  # of single reads
    with ReadCounter(settings) as reads:
        shown, reverse = reads.templates(path, "amp", np.array(places))
        for k, p in enumerate(places):
            counts = count_region(path, Region("amp", p, p + 1), settings).counts[0]
            own = [
                np.bincount(shown[(shown[:, k] >= 0) & (reverse[:, k] == way), k], minlength=4)
                for way in (False, True)
            ]
            assert np.array(own).tolist() == counts.tolist()
