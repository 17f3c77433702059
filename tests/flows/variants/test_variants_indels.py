"""Insertions and deletions: alleles by hand, calls, records that bcftools leaves as they are."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pysam
import pytest

from flows.data.runs import open_run
from flows.data.states import read_state
from flows.variants import indel_calls, indel_events
from flows.variants.indel_clusters import clusters
from flows.variants.reads import count_region
from flows.variants.regions import Region
from flows.variants.settings import VariantSettings
from tests.flows.variants import hostile_bam
from tests.flows.variants.slipped_bams import ReadScenario, write_reads
from tests.flows.variants.test_variants_walk import _aligned as aligned_pairs
from tests.flows.variants.variant_files import options, run
from vbmodels.core.state import State, same_bits
from vbmodels.variants.batch import Counts
from vbmodels.variants.indels import UNSEEN, Indels, indel_units

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
    from flows.cli import main

    target = folder / name
    how = options(fasta=folder / "reference.fa", tol=1e-4)
    with pytest.raises(SystemExit) as stopped:
        main(["variants", str(folder / sheet), str(target), *how, *more])
    assert stopped.value.code == 0
    return open_run(str(target))[0]


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
                beside = inside and {operations[k - 1][0], operations[k + 1][0]} <= {0, 7, 8}
                if o in (1, 2) and beside and n <= 50:
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
        (a, n, indel_events.inserted(n, first, second) if n > 0 else ""): sums
        for a, n, first, second, *sums in events.tolist()
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_alleles_are_those_by_hand(tmp_path, seed):
    fasta = hostile_bam.write_fasta(tmp_path / "ref.fa")
    bam = hostile_bam.write(tmp_path / "odd.bam", seed, kind="odd", depth_at=None)
    settings = VariantSettings(fasta=str(fasta), overlaps="both", orphans=True)
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
    fasta = folder / "ref.fa"
    fasta.write_text(f">c\n{bases}\n")
    header = pysam.AlignmentHeader.from_dict(
        {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": "c", "LN": len(bases)}]}
    )
    path = folder / "pair.bam"
    with pysam.AlignmentFile(str(path), "wb", header=header) as file:
        for flag, cigar in zip((99, 147), cigars, strict=True):
            read = pysam.AlignedSegment(header)
            read.query_name, read.flag, read.mapping_quality = "p", flag, 60
            shown, p = "", 2
            for o, n in cigar:
                shown += bases[p : p + n] if o == 0 else "T" * n if o == 1 else ""
                p += n if o != 1 else 0
            read.query_sequence, read.cigartuples = shown, cigar
            read.reference_id = read.next_reference_id = 0
            read.reference_start = read.next_reference_start = 2
            read.template_length = 30 if flag == 99 else -30
            read.query_qualities = pysam.qualitystring_to_array("I" * len(shown))
            file.write(read)
    pysam.index(str(path))
    settings = VariantSettings(fasta=str(fasta))
    return _named(count_region(str(path), Region("c", 0, len(bases)), settings).indels)


def test_a_lost_base_of_a_run_is_one_allele_wherever_it_stands_and_mates_count_once(tmp_path):
    cigars = [[(0, 11), (2, 1), (0, 12)], [(0, 16), (2, 1), (0, 7)]]
    found = _pair(tmp_path, cigars)
    assert list(found) == [(12, -1, "")]
    assert sum(found[12, -1, ""][:2]) == 1


def test_a_gained_base_moves_to_the_left_of_its_run(tmp_path):
    found = _pair(tmp_path, [[(0, 14), (1, 2), (0, 8)], [(0, 17), (1, 2), (0, 5)]])
    assert list(found) == [(12, 2, "TT")]
    assert sum(found[12, 2, "TT"][:2]) == 1


def test_every_anchor_gives_an_unseen_slip_of_both_kinds():
    run, base = np.array([3, 0, 0, 1]), np.array([1, -1, -1, 2])
    reads = np.array([[5, 0], [2, 1]])
    of = Indels(np.array([0, 0]), np.array([-1, 4]), np.array(["C", "ACGT"]), reads, reads, run,
                base)  # fmt: skip
    units = indel_units(of, np.full((4, 2), 9), np.array([True, False]))
    kinds = sorted(zip(units.location.tolist(), units.alt.tolist(), units.kind.tolist(),
                       strict=True))  # fmt: skip
    assert kinds == [(0, UNSEEN, 6 + 2), (0, 0, 2), (0, 1, 6), (3, UNSEEN, 0), (3, UNSEEN, 6)]
    assert units.depth.min() == 9
    assert units.alt_reads.sum() == reads.sum()


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


def test_bcftools_norm_leaves_the_records_as_they_are(simulated, called):
    tool = shutil.which("bcftools")
    if tool is None:
        pytest.skip("bcftools is not installed")
    vcf = called.file("variants.vcf.gz")

    def lines(*arguments):
        done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=True)
        return [line for line in done.stdout.splitlines() if line[:1] != "#"]

    fasta = str(simulated / "reference.fa")
    ours = lines("view", vcf)
    assert len(ours) >= 3
    assert lines("norm", "-c", "e", "-f", fasta, vcf) == ours
    (counted,) = [x for x in lines("stats", vcf) if "number of indels:" in x]
    assert counted.endswith(f"\t{len(ours)}")
    kinds = {x.split()[0] for x in lines("query", "-f", "%TYPE\n", vcf)}
    assert kinds == {"INDEL"}


def test_the_same_bits_of_any_partitions_and_of_a_run_since(simulated, called):
    expected = _records(called)
    q = read_state(f"{called.root}/posterior/indels.npz", State)
    first = _called(simulated, "cut", "--set", "rows_per_partition=700", "--since", "latest")
    again = _called(simulated, "cut", "--set", "rows_per_partition=700", "--since", "latest")
    for paths in (first, again):
        assert _records(paths) == expected
        assert same_bits(read_state(f"{paths.root}/posterior/indels.npz", State), q)


def test_a_cram_gives_the_same_and_so_do_workers(simulated, called):
    for name in ("case1", "case2", "control1", "control2"):
        out, bam = str(simulated / f"{name}.cram"), str(simulated / f"{name}.bam")
        pysam.view("-C", "-T", str(simulated / "reference.fa"), "-o", out, bam, catch_stdout=False)
        pysam.index(out)
    sheet = (simulated / "samples.csv").read_text().replace(".bam", ".cram")
    (simulated / "crams.csv").write_text(sheet)
    found = _called(simulated, "cram", "--workers", "2", sheet="crams.csv")
    assert _records(found) == _records(called)
    q = read_state(f"{called.root}/posterior/indels.npz", State)
    assert same_bits(read_state(f"{found.root}/posterior/indels.npz", State), q)


def test_without_indels_in_the_counts_one_sentence_says_so(capsys, simulated, tmp_path):
    counts = tmp_path / "counts"
    code, _, err = run(capsys, "simulate", "variants", tmp_path, "--rows", "60")
    assert code == 0
    code, out, err = run(capsys, "variants", tmp_path / "counts.parquet", counts)
    assert code == 0
    told = "Indels were not called: these counts do not hold them or come without a reference"
    assert told in " ".join((out + err).split())
    with pysam.VariantFile(open_run(str(counts))[0].file("variants.vcf.gz")) as file:
        assert "##vbflows_indels=Indels were not called" in str(file.header)


def test_a_cluster_of_uncalled_alleles_is_told_with_its_reads():
    run, base = np.zeros(40, np.int64), np.full(40, -1)
    at = np.array([5, 9, 14, 30])
    reads = np.array([[4, 0], [5, 1], [4, 0], [3, 3]])
    of = Indels(at, np.full(4, -2), np.array(["AC"] * 4), reads, reads, run, base)
    case = np.array([True, False])
    units = indel_units(of, np.full((40, 2), 500), case)
    counts = Counts(np.zeros((40, 2, 4), np.int32), np.zeros(40, np.int8), case)

    class Places:
        chrom = np.array(["c"] * 40)
        pos = np.arange(1, 41)

    (one,) = clusters(units, np.zeros(4, bool), counts, Places())
    assert (one.start, one.stop, one.alleles, one.case, one.control) == (6, 15, 3, (13, 500),
                                                                        (1, 500))  # fmt: skip
    assert one.p < 1e-3
    assert clusters(units, np.array([False, True, False, False]), counts, Places()) == ()


def test_a_run_that_was_stopped_over_its_indels_has_the_same_bits(
    capsys, monkeypatch, simulated, called
):
    how = options(fasta=simulated / "reference.fa", tol=1e-4)
    target = simulated / "stopped"

    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(indel_calls, "_conclude", stopped)
        assert run(capsys, "variants", simulated / "samples.csv", target, *how)[0] != 0
    (run_id,) = (path.name for path in (target / "runs").iterdir())
    asked = ("variants", simulated / "samples.csv", target, *how, "--resume", run_id)
    assert run(capsys, *asked)[0] == 0
    assert _records(open_run(str(target))[0]) == _records(called)


def test_a_finished_run_scores_new_reads_by_its_own_indels_fit(capsys, simulated, called):
    target = simulated / "scored"
    code, _, err = run(capsys, "score", called.root, simulated / "samples.csv", target)  # fmt: skip
    assert code == 0, err
    scored = {record[:3] for record in _records(open_run(str(target))[0])}
    assert scored == {record[:3] for record in _records(called)}


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
            read = pysam.AlignedSegment(header)
            read.query_name, read.flag, read.mapping_quality = (
                f"more{i}",
                16 * (i // 2 % 2),
                quality,
            )
            read.reference_id, read.reference_start = 0, start - before
            read.query_sequence = bases[start - before : start] + bases[start + 3 :][: 100 - before]
            read.cigartuples = [(0, before), (2, 3), (0, 100 - before)]
            read.query_qualities = pysam.qualitystring_to_array("I" * 100)
            reads.append(read)
        with pysam.AlignmentFile(str(path), "wb", header=header) as file:
            for read in sorted(reads, key=lambda read: read.reference_start):
                file.write(read)
        pysam.index(str(path))
    with pysam.VariantFile(_called(folder, "again").file("variants.vcf.gz")) as file:
        found = {r.pos: (tuple(r.filter), r.info.get("RPZ")) for r in file}
    assert found[ends][0] == ("read_end",)
    assert found[ends][1] < -3.0
    assert found[mapped][0] == ("low_mapq",)
    for pos in truth:
        assert found[pos][0] == ("PASS",)
        assert found[pos][1] > -3.0
