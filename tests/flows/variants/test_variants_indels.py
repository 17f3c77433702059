"""Insertions and deletions: alleles by hand, calls, records that bcftools leaves as they are."""

import shutil
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pysam
import pytest

from flows.read.rows import first_table
from flows.records.runs import open_run
from flows.records.states import read_state
from flows.variants.calls.part_calls import clusters
from flows.variants.calls.samples import Reads
from flows.variants.reads import indel_alleles
from flows.variants.reads.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.commands import succeed
from tests.flows.variants import hostile_bam
from tests.flows.variants.pileup import count_region
from tests.flows.variants.slipped_bams import ReadScenario, write_reads
from tests.flows.variants.test_variants_walk import _aligned as aligned_pairs
from tests.flows.variants.variant_files import (
    CONTIGS,
    LENGTH,
    QUICK,
    header_of,
    make_read,
    options,
    save_reads,
    sequence,
    write_bam,
    write_fasta,
    write_sheet,
)
from vbmodels.core.state import State, same_bits
from vbmodels.variants.indels import Indels, indel_units

SOME = ReadScenario("", share=0.1, every=50, depth=300)


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indels")
    write_reads(str(folder), 300, 3, SOME)
    return folder


@pytest.fixture(scope="module")
def called(simulated):
    return _called(simulated, "out")


def _called(folder, name, *more, sheet="samples.csv"):
    how = options(fasta=folder / "reference.fa", tol=1e-4)
    succeed("variants", folder / sheet, folder / name, *how, *more)
    return open_run(str(folder / name))[0]


def _records(paths):
    with pysam.VariantFile(paths.file("variants.vcf.gz")) as file:
        return [(r.pos, r.ref, r.alts[0], tuple(r.filter), r.info.get("HRUN")) for r in file]


def _by_hand(path, fasta, least, mapping=20):
    """Return every allele with its reads, from pysam's own view of the records."""
    found = {}
    with pysam.AlignmentFile(str(path)) as file, pysam.FastaFile(str(fasta)) as reference:
        for read in file.fetch(until_eof=True):
            if read.flag & 0x704 or read.mapping_quality < mapping or read.reference_name != "amp":
                continue
            bases = reference.fetch("amp")
            shown, quality = read.query_sequence, read.query_qualities
            quality = list(quality) if quality else [255] * len(shown)
            place = {p: q for q, p in aligned_pairs(read)}
            operations = read.cigartuples
            q, p = 0, read.reference_start
            for k, (o, n) in enumerate(operations):
                inside = 0 < k < len(operations) - 1
                between = inside and {operations[k - 1][0], operations[k + 1][0]} <= {0, 7, 8}
                if o in (1, 2) and between and n <= 50:
                    anchor, extra = p - 1, shown[q : q + n] if o == 1 else ""
                    if o == 1:
                        while anchor >= read.reference_start and bases[anchor] == extra[-1]:
                            anchor, extra = anchor - 1, extra[-1] + extra[:-1]
                    else:
                        while anchor >= read.reference_start and bases[anchor] == bases[anchor + n]:
                            anchor -= 1
                    at = place.get(anchor)
                    counts = at is not None and quality[at] >= least and shown[at] in "ACGT"
                    if counts and set(extra) <= set("ACGT"):
                        key = (anchor, n if o == 1 else -n, extra)
                        end = min(at - read.query_alignment_start,
                                  read.query_alignment_end - 1 - at)  # fmt: skip
                        mapped = read.mapping_quality
                        own = found.setdefault(key, np.zeros(6, int))
                        own[int(read.is_reverse)] += 1
                        own[2:] += [end, end**2, mapped, mapped**2]
                q += n if o in (0, 1, 4, 7, 8) else 0
                p += n if o in (0, 2, 3, 7, 8) else 0
    return {key: own.tolist() for key, own in found.items()}


def _named(events):
    return {
        (a, n, indel_alleles.inserted(n, first, second) if n > 0 else ""): sums
        for a, n, first, second, *sums in events.tolist()
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_alleles_are_those_by_hand(tmp_path, seed):
    fasta = hostile_bam.write_fasta(tmp_path / "ref.fa")
    odd = hostile_bam.write(tmp_path / "odd.bam", seed, kind="odd", htslib=True)
    bam = hostile_bam.without_pairs(odd)
    settings = VariantSettings(fasta=str(fasta))
    whole = count_region(str(bam), Region("amp", 0, 1500), settings).indels
    expected = _by_hand(bam, fasta, 20)
    assert len(expected) > 50
    assert _named(whole) == expected
    cut = [
        count_region(str(bam), Region("amp", s, s + 125), settings).indels
        for s in range(0, 1500, 125)
    ]
    np.testing.assert_array_equal(np.concatenate(cut), whole)


def _pair(folder, cigars):
    """Write two overlapping mates over a run of six T with a CIGAR each."""
    bases = "ACGACGTCAGGCATTTTTTGCACGATCGACTAGC"
    fasta, path = folder / "ref.fa", folder / "pair.bam"
    fasta.write_text(f">c\n{bases}\n")
    header, reads = header_of(["c"], len(bases)), []
    for flag, cigar in zip((99, 147), cigars, strict=True):
        shown, p = "", 2
        for o, n in cigar:
            shown += bases[p : p + n] if o == 0 else "T" * n if o == 1 else ""
            p += n if o != 1 else 0
        reads.append(make_read(header, "p", 2, shown, cigar, flag))
        reads[-1].next_reference_id, reads[-1].next_reference_start = 0, 2
        reads[-1].template_length = 30 if flag == 99 else -30
    save_reads(path, header, reads)
    settings = VariantSettings(fasta=str(fasta))
    return _named(count_region(str(path), Region("c", 0, len(bases)), settings).indels)


@pytest.mark.parametrize(
    ("cigars", "allele"),
    [
        ([[(0, 11), (2, 1), (0, 12)], [(0, 16), (2, 1), (0, 7)]], (12, -1, "")),
        ([[(0, 14), (1, 2), (0, 8)], [(0, 17), (1, 2), (0, 5)]], (12, 2, "TT")),
    ],
)
def test_an_indel_of_a_run_is_one_allele_wherever_it_is_and_mates_count_once(
    tmp_path, cigars, allele
):
    found = _pair(tmp_path, cigars)
    assert list(found) == [allele]
    assert sum(found[allele][:2]) == 1


@pytest.mark.thorough
def test_true_indels_are_called_and_slips_are_not(simulated, called):
    truth = pq.read_table(simulated / "_truth" / "indels.parquet").to_pylist()
    assert len(truth) >= 3
    found = {(pos, ref, alt) for pos, ref, alt, taken, _ in _records(called) if taken == ("PASS",)}
    assert found == {(row["pos"], row["ref"], row["alt"]) for row in truth}
    rows = pq.read_table(called.table("indels")).to_pylist()
    assert {(r["pos"], r["ref"], r["alt"]) for r in rows if r["called"]} == found
    assert len(rows) > len(found)  # slips are in the table
    assert all(run is not None for *_, run in _records(called))
    assert read_state(f"{called.root}/posterior/indels.npz", State).pi < 0.5


@pytest.mark.thorough
def test_bcftools_norm_leaves_the_records_as_they_are(simulated, called):
    tool = shutil.which("bcftools")
    if tool is None:
        pytest.skip("bcftools is not installed")

    def lines(*arguments):
        command = [tool, *arguments, called.file("variants.vcf.gz")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line[:1] != "#"]

    ours = lines("view")
    assert len(ours) >= 3
    assert lines("norm", "-c", "e", "-f", str(simulated / "reference.fa")) == ours
    assert {x.split()[0] for x in lines("query", "-f", "%TYPE\n")} == {"INDEL"}


def _same_bits(one, other):
    q = [read_state(f"{paths.root}/posterior/indels.npz", State) for paths in (one, other)]
    return _records(one) == _records(other) and same_bits(*q)


@pytest.mark.thorough
def test_the_same_bits_of_any_partitions_and_of_a_run_since(simulated, called):
    for _ in range(2):
        cut = _called(simulated, "cut", "--set", "rows_per_partition=700", "--since", "latest")
        assert _same_bits(cut, called)


@pytest.mark.thorough
def test_a_cram_gives_the_same_bits_on_workers_and_a_score_the_same_alleles(simulated, called):
    for name in ("case1", "case2", "control1", "control2"):
        out, bam = str(simulated / f"{name}.cram"), str(simulated / f"{name}.bam")
        pysam.view("-C", "-T", str(simulated / "reference.fa"), "-o", out, bam, catch_stdout=False)
        pysam.index(out)
    sheet = (simulated / "samples.csv").read_text().replace(".bam", ".cram")
    (simulated / "crams.csv").write_text(sheet)
    assert _same_bits(_called(simulated, "cram", "--workers", "2", sheet="crams.csv"), called)
    succeed("score", called.root, simulated / "samples.csv", simulated / "scored")
    scored = {record[:3] for record in _records(open_run(str(simulated / "scored"))[0])}
    assert scored == {record[:3] for record in _records(called)}


def test_where_no_allele_has_two_reads_nothing_is_fitted(tmp_path):
    """Their hyperparameters would come from the prior alone."""
    for name in ("a", "b"):
        write_bam(tmp_path / f"{name}.bam")
    fasta = write_fasta(tmp_path / "ref.fa")
    succeed("variants", write_sheet(tmp_path), tmp_path / "out", *QUICK, *options(fasta=fasta))
    place, record = open_run(str(tmp_path / "out"))
    indels = record.results["cases"][0]["indels"]
    assert indels["called"] == indels["shown"] == 0
    assert indels["tested"] > 0
    assert pq.read_table(place.table("indels")).num_rows == 0
    assert first_table(place) == ("loci", "--selected"), "the command offers rows that there are"


def test_a_score_says_where_the_fit_has_no_rates_of_indels(tmp_path):
    """Rates fitted to the scored reads would be another fit."""
    for name in ("a", "b"):
        write_bam(tmp_path / f"{name}.bam")
    fasta = write_fasta(tmp_path / "ref.fa")
    succeed("variants", write_sheet(tmp_path), tmp_path / "out", *QUICK, *options(fasta=fasta))
    new = tmp_path / "new"
    new.mkdir()
    write_bam(new / "b.bam")
    header = header_of(CONTIGS, LENGTH)
    bases = sequence(CONTIGS[0], LENGTH)
    deleted = [(0, 25), (2, 1), (0, 25)]
    save_reads(
        new / "a.bam",
        header,
        [
            make_read(header, f"d{i}", i, bases[i : i + 25] + bases[i + 26 : i + 51], deleted)
            for i in range(12)
        ],
    )
    succeed("score", tmp_path / "out", write_sheet(new), tmp_path / "scored")
    place, record = open_run(str(tmp_path / "scored"))
    assert any("the fitted run saw none" in warning for warning in record.warnings)
    with pysam.VariantFile(place.file("variants.vcf.gz")) as file:
        assert "##vbflows_indels=Indels were not called: the fitted run" in str(file.header)


def test_a_cluster_of_uncalled_alleles_is_reported_with_its_reads():
    run, base = np.zeros(40, np.int64), np.full(40, -1)
    at = np.array([5, 9, 14, 30])
    reads = np.array([[4, 0], [5, 1], [4, 0], [3, 3]])
    of = Indels(at, np.full(4, -2), np.array(["AC"] * 4), reads, reads, run, base)
    case = np.array([True, False])
    units = indel_units(of, np.full((40, 2), 500), case)

    class Places:
        chrom = np.array(["c"] * 40)
        pos = np.arange(1, 41)

    (one,) = clusters(units, np.zeros(4, bool), Places())
    assert (one.name, one.alleles, one.case, one.control) == (
        "c:6-15", 3, Reads(13, 500), Reads(1, 500),
    )  # fmt: skip
    assert one.p < 1e-3
    assert clusters(units, np.array([False, True, False, False]), Places()) == ()


@pytest.mark.thorough
def test_indels_at_the_ends_of_reads_and_in_badly_mapped_ones_say_so(simulated, tmp_path):
    """In the case alone three bases are lost: near the ends of reads, or in reads mapped at 22."""
    folder = tmp_path / "artefacts"
    shutil.copytree(simulated, folder)
    truth = pq.read_table(folder / "_truth" / "indels.parquet")["pos"].to_pylist()
    with pysam.FastaFile(str(folder / "reference.fa")) as file:
        name = file.references[0]
        bases = file.fetch(name)
    # Where the deletion cannot move, far from the true ones.
    free = [s for s in range(100, len(bases) - 100) if bases[s - 1] != bases[s + 2]
            and min(abs(s - t) for t in truth) > 12]  # fmt: skip
    ends, mapped = free[0], free[-1]
    rng = np.random.default_rng(0)
    for path in (folder / "case1.bam", folder / "case2.bam"):
        with pysam.AlignmentFile(str(path)) as file:
            header, reads = file.header, list(file)
        for i in range(80):
            start, before, quality = (
                (ends, 96, 60) if i % 2 else (mapped, int(rng.integers(10, 90)), 22)
            )
            shown = bases[start - before : start] + bases[start + 3 :][: 100 - before]
            cigar = [(0, before), (2, 3), (0, 100 - before)]
            flag = 16 * (i // 2 % 2)
            reads.append(
                make_read(header, f"more{i}", start - before, shown, cigar, flag, 0, quality)
            )
        save_reads(path, header, reads)
    with pysam.VariantFile(_called(folder, "again").file("variants.vcf.gz")) as file:
        found = {r.pos: (tuple(r.filter), r.info.get("RPZ")) for r in file}
    assert found[ends][0] == ("read_end",)
    assert found[ends][1] < -3.0
    assert found[mapped][0] == ("low_mapq",)
    for pos in truth:
        assert found[pos][0] == ("PASS",)
        assert found[pos][1] > -3.0
