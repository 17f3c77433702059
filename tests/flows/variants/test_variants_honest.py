"""What variants refuses, what it says of filters that did not run, and what it leaves alone."""

import gzip
import os
import struct

import numpy as np
import pysam
import pytest

from flows.records.runs import open_run
from flows.variants.input import alignment_checks
from flows.variants.reads.alignments import open_alignment
from flows.variants.reads.bam_index import DamagedIndex, damage_of, first_place
from flows.variants.reads.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.commands import run, succeed
from tests.flows.variants.pileup import count_region
from tests.flows.variants.variant_files import (
    CONTIGS,
    LENGTH,
    QUICK,
    check,
    check_refused,
    header_of,
    make_read,
    options,
    save_reads,
    write_bam,
    write_counts,
    write_fasta,
    write_reads,
    write_sheet,
)


@pytest.fixture
def reads(tmp_path, monkeypatch):
    monkeypatch.setenv("VBFLOWS_STAGING", str(tmp_path / "staging"))
    folder = tmp_path / "data"
    folder.mkdir()
    return write_reads(folder)


def test_reads_with_indels_and_clips_are_compared_where_they_are_aligned(
    capsys, monkeypatch, reads, tmp_path
):
    """A shift by one base after an insertion would make three of four bases differ."""
    folder = tmp_path / "data"
    text = (folder / "ref.fa").read_text().split("\n")
    bases = dict(zip((line[1:] for line in text[::2]), text[1::2], strict=False))[CONTIGS[0]]
    shown, header = f"TT{bases[10:30]}G{bases[30:50]}{bases[55:70]}", header_of(CONTIGS, LENGTH)
    cigar = [(4, 2), (0, 20), (1, 1), (0, 20), (2, 5), (0, 15)]
    reads_of = [make_read(header, f"r{i}", 10, shown, cigar) for i in range(30)]
    save_reads(folder / "b.bam", header, reads_of)
    # Apart from the clip and the insertion every base is the FASTA's.
    monkeypatch.setattr(alignment_checks, "MOST_DIFFERENT", 0.001)
    code, _, err = check(capsys, reads, fasta=folder / "ref.fa")
    assert code == 0, err


@pytest.mark.thorough
def test_no_index_is_written_among_the_users_files(capsys, reads, tmp_path):
    folder = tmp_path / "data"
    for name in ("a.bam.bai", "b.bam.bai"):
        (folder / name).unlink()
    before = sorted(os.listdir(folder))
    succeed("variants", reads, tmp_path / "out", *QUICK, *options(fasta=folder / "ref.fa"))
    succeed("count", reads, tmp_path / "c", *options(fasta=folder / "ref.fa"))
    assert sorted(os.listdir(folder)) == before == ["a.bam", "b.bam", "ref.fa", "sheet.csv"]
    kept = sorted(p.name for p in (tmp_path / "staging").rglob("*.?ai"))
    assert kept == ["a.bam.bai", "b.bam.bai", "ref.fa.fai"]
    # Other reads under the same name get another index.
    others = [(c, 4 * i, 50, 0, -1, f"q{c}-{i}", 30) for c in range(3) for i in range(15)]
    write_bam(folder / "a.bam", others, index=False)
    (folder / "a.bam.bai").unlink(missing_ok=True)
    assert check(capsys, reads, fasta=folder / "ref.fa")[0] == 0
    assert len(list((tmp_path / "staging").rglob("a.bam.bai"))) == 2


@pytest.mark.thorough
def test_a_filter_that_did_not_run_is_named(capsys, tmp_path):
    """Counts of the old form know nothing of the reads: header, report and a warning say so."""
    sheet = write_sheet(tmp_path)
    fasta = write_fasta(tmp_path / "ref.fa")
    for name in ("a", "b"):
        write_bam(tmp_path / f"{name}.bam")
    said = (
        "strand_bias: these counts do not have the strands of reads",
        "read_end: these counts do not have the qualities of reads",
    )
    for source, named in (
        (sheet, False), (write_counts(tmp_path / "counts.parquet"), True),
    ):  # fmt: skip
        target = tmp_path / f"out-{named}"
        code, out, err = run(capsys, "variants", source, target, *QUICK, *options(fasta=fasta))
        assert code == 0, err
        assert ("PASS: strand_bias, read_end, low_mapq" in out) is named
        place, record = open_run(str(target))
        assert bool(record.results["asked"]["lacking"]) is named
        with pysam.VariantFile(place.file("variants.vcf.gz")) as vcf:
            assert all((words in str(vcf.header)) is named for words in said)


@pytest.mark.parametrize("kind", [".bai", ".csi"])
def test_a_damaged_index_is_reported_before_htslib_reads_it(capsys, reads, tmp_path, kind):
    """One odd byte of an index can end htslib or keep it busy for ever."""
    folder = tmp_path / "data"
    bam, index = folder / "a.bam", folder / f"a.bam{kind}"
    if kind == ".csi":
        (folder / "a.bam.bai").unlink()
        pysam.index("-c", str(bam))
    whole = index.read_bytes()
    assert damage_of(str(index), str(bam)) is None
    assert check(capsys, reads, fasta=folder / "ref.fa")[0] == 0
    plain = whole if kind == ".bai" else gzip.decompress(whole)
    rng = np.random.default_rng(0)
    damaged = [plain[:20], plain[:-1], b"", plain + b"x", plain.replace(plain[:4], b"ABCD")]
    for at in rng.integers(4, len(plain) - 8, 40):
        damaged.append(plain[:at] + b"\xff\xff\xff\x7f" + plain[at + 4 :])
    found = []
    for content in damaged:
        index.write_bytes(content if kind == ".bai" else gzip.compress(content))
        found.append(damage_of(str(index), str(bam)))
    assert all(found[:5])
    assert sum(f is not None for f in found) > 35
    index.write_bytes(b"BAI\x01\xff\xff\xff\x7f")
    err = check_refused(capsys, reads, fasta=folder / "ref.fa")
    assert f"a.bam{kind}: expected a whole index of" in err
    assert "samtools index" in err


def test_no_damaged_csi_index_keeps_a_run_busy_or_loses_reads(reads, tmp_path):
    """Its numbers of levels, its bins and its places: it is refused, or all reads are found."""
    folder = tmp_path / "data"
    bam, index = str(folder / "a.bam"), folder / "a.bam.csi"
    settings = VariantSettings(fasta=str(folder / "ref.fa"))
    (folder / "a.bam.bai").unlink()
    pysam.index("-c", bam)
    plain = gzip.decompress(index.read_bytes())

    def counts():
        found = [count_region(bam, Region(c, 0, LENGTH), settings).counts.sum() for c in CONTIGS]
        return int(sum(found))

    whole, refused, unread = counts(), 0, 0
    levels = [struct.pack("<2i", shift, depth) for shift in range(32) for depth in range(11)]
    changes = [(4, level) for level in levels if level != plain[4:12]]
    changes += [(at, bytes([byte])) for at in range(16, len(plain) - 8) for byte in (0, 127, 255)]
    for at, new in changes:
        index.write_bytes(gzip.compress(plain[:at] + new + plain[at + len(new) :]))
        if damage_of(str(index), bam) is not None:
            refused += 1
            continue
        try:
            assert counts() == whole, (at, new)
        except OSError:  # a place where no read begins
            unread += 1
    assert refused > len(changes) / 2
    assert unread


@pytest.mark.parametrize(
    ("kind", "content"),
    [
        (".bai", b"BAI\1" + struct.pack("<iiIii", 1, 1, 4681, 0, 0)),
        (".csi", gzip.compress(b"CSI\1" + struct.pack("<4iiIQi", 14, 5, 0, 1, 1, 4681, 0, 0))),
    ],
    ids=["bai", "csi"],  # a compressed one has the time in it
)
def test_a_last_bin_without_chunks_has_no_reads(tmp_path, kind, content):
    index = tmp_path / f"a.bam{kind}"
    index.write_bytes(content)
    assert first_place(str(index), 0, 100) is None


def test_an_index_is_looked_at_wherever_a_file_is_opened(reads, tmp_path):
    """htslib loads it with the file: a bin without its numbers of reads ends the process."""
    bam = tmp_path / "data" / "a.bam"
    whole = (tmp_path / "data" / "a.bam.bai").read_bytes()
    at = whole.index(struct.pack("<Ii", 37_450, 2))
    cut = whole[: at + 4] + struct.pack("<i", 0) + whole[at + 40 :]
    (tmp_path / "data" / "a.bam.bai").write_bytes(cut)
    with pytest.raises(DamagedIndex, match=r"a\.bam\.bai is damaged: an odd bin \(37450, 0 chunks"):
        open_alignment(str(bam), VariantSettings(), indexed=False)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (b"0\t1\t90\t26\t0\t40", None),
        (b"0\t1\t90\t26\t0", "line 1, not of six numbers"),
        (b"2147483647\t1\t90\t26\t0\t40", "line 1, of positions that no contig has"),
        (b"0\t1\t90\t26\t0\t999999", "places that the file does not have"),
    ],
)
def test_the_index_of_a_cram_has_lines_of_six_numbers(reads, tmp_path, line, found):
    index = tmp_path / "a.cram.crai"
    index.write_bytes(gzip.compress(line + b"\n"))
    assert damage_of(str(index), str(tmp_path / "data" / "a.bam")) == found


def test_a_count_takes_the_only_fasta_of_the_sheets_folder(capsys, reads, tmp_path):
    code, out, err = run(capsys, "count", reads, tmp_path / "counts")
    assert code == 0, err
    assert "The reference is ref.fa, the only FASTA in the sheet's folder" in out
    write_fasta(tmp_path / "data" / "other.fa")
    code, _, err = run(capsys, "count", reads, tmp_path / "others")
    assert code == 2
    assert "expected the reference FASTA" in err
