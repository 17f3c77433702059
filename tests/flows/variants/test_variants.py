"""The variants pipeline as a user has it: real BAMs to a VCF that bcftools reads, bad input."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest
from numpy.testing import assert_array_equal

from flows.cli import main
from flows.data import storage
from flows.data.runs import open_run
from flows.run import count as count_pipeline
from flows.run.events import Events, Listener, PartDone, Published
from flows.run.pipeline import run_pipeline
from flows.settings import ComputeSettings
from flows.variants import fitted_on
from flows.variants.counts import Loci
from flows.variants.family import FAMILY
from flows.variants.fitted_on import even
from flows.variants.loci import _filters, judge_reads
from flows.variants.reads import count_region, reference
from flows.variants.regions import Region, locate, regions
from flows.variants.settings import VariantSettings
from flows.variants.vcf import genotype
from vbmodels.variants.batch import Counts, units

FAST = ("--set", "tol=1e-4")


def run(capsys, *arguments):
    """Return (exit code, stdout, stderr) of a command."""
    with pytest.raises(SystemExit) as stopped:
        main([str(a) for a in arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return stopped.value.code, captured.out, captured.err


def sheet(folder, rows, name="sheet.csv"):
    path = folder / name
    path.write_text("sample,replicate,path\n" + "".join(f"{s},{r},{p}\n" for s, r, p in rows))
    return path


@pytest.fixture(scope="session")
def simbam(shared_data):
    return shared_data / "variants" / "simbam"


def lines_of(simbam, depth=400, vaf="0.01"):
    cases = [("case", i, simbam / f"case_{depth}_{vaf}_{i}.bam") for i in range(3)]
    return cases + [("control", i, simbam / f"ctrl_{depth}_{i}.bam") for i in range(3)]


@pytest.fixture(scope="session")
def published(simbam, tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    source = sheet(folder, lines_of(simbam))
    with pytest.raises(SystemExit) as stopped:
        main(["variants", str(source), str(folder / "out"), "--partitions", "2",
              "--set", f"fasta={simbam / 'ref400.fa'}"])  # fmt: skip
    assert stopped.value.code == 0
    return open_run(str(folder / "out"))


def truth(simbam):
    rows = [line.split("\t") for line in (simbam / "truth.tsv").read_text().split("\n") if line]
    return {(int(pos), ref, alt) for _, pos, ref, alt in rows}


def test_reads_of_one_percent_at_400_give_their_variants(published, simbam):
    place, record = published
    with pysam.VariantFile(place.file("variants.vcf.gz")) as file:
        found = {(r.pos, r.ref, r.alts[0]) for r in file if list(r.filter) == ["PASS"]}
    assert found <= truth(simbam)
    assert len(found) >= 13
    assert record.results["passed"] == len(found)
    assert record.rows_kept == 400
    loci = pq.read_table(place.table("loci"))
    assert len(loci) == 400
    called = loci.filter(loci["called"]).to_pylist()
    assert {(r["pos"], r["ref"], r["alt"]) for r in called} >= found
    assert all(r["case_q05"] < r["case_mean"] < r["case_q95"] for r in called)
    report = (place.file("report.html"), "Rates of the called alleles", "Hyperparameters")
    with open(report[0], encoding="utf-8") as file:
        page = file.read()
    assert all(words in page for words in report[1:])


def test_bcftools_reads_queries_and_normalises_without_a_warning(published, simbam):
    if shutil.which("bcftools") is None:
        pytest.skip("bcftools (Debian: apt-get install bcftools) is not installed")
    vcf = published[0].file("variants.vcf.gz")

    def bcftools(*arguments):
        done = subprocess.run(["bcftools", *arguments], capture_output=True, text=True, check=True)
        assert "warn" not in done.stderr.lower()
        return done

    everything = bcftools("view", "-H", vcf).stdout.splitlines()
    assert len(everything) >= 13
    some = bcftools("view", "-H", vcf, "amp:100-200").stdout.splitlines()
    assert 0 < len(some) < len(everything)
    strands = bcftools("query", "-f", "%INFO/LFDR [%ADF %ADR %SB %AD ]\n", vcf).stdout.split("\n")
    for lfdr, adf, adr, sb, ad, *_ in (line.split() for line in strands if line):
        (rf, af), (rr, ar) = ([int(n) for n in of.split(",")] for of in (adf, adr))
        assert sb == f"{rf},{rr},{af},{ar}"
        assert ad == f"{rf + rr},{af + ar}"
        assert 0.0 <= float(lfdr) <= 0.5
    assert "number of SNPs" in bcftools("stats", vcf).stdout
    fields = bcftools("query", "-f", "%POS %QUAL %FILTER %INFO/P %INFO/MUCI [%GT %DP %AD %AF ]\n",
                      vcf).stdout  # fmt: skip
    assert len(fields.splitlines()) == len(everything)
    normal = bcftools("norm", "-f", str(simbam / "ref400.fa"), "-c", "e", vcf)
    body = [line for line in normal.stdout.splitlines() if not line.startswith("#")]
    assert body == everything
    assert "##contig=<ID=amp,length=400>" in bcftools("view", "-h", vcf).stdout


def counted(path, region, settings):
    return count_region(path, region, settings).counts


def test_counting_equals_a_count_by_hand(simbam):
    path = str(simbam / "case_400_0.01_0.bam")
    settings = VariantSettings(fasta=str(simbam / "ref400.fa"), min_base_quality=25)
    found = counted(path, Region("amp", 50, 120), settings)
    expected = np.zeros((70, 2, 4), int)
    with pysam.AlignmentFile(path) as file:
        for read in file.fetch("amp"):
            if read.is_unmapped or read.is_secondary or read.is_duplicate or read.is_qcfail:
                continue
            if read.mapping_quality < 20:
                continue
            for q, p in read.get_aligned_pairs(matches_only=True):
                if 50 <= p < 120 and read.query_qualities[q] >= 25:
                    b = "ACGT".find(read.query_sequence[q])
                    expected[p - 50, int(read.is_reverse), b] += 1
    assert expected.sum() > 10_000
    assert_array_equal(found, expected)
    one = counted(path, Region("amp", 50, 120), settings.model_copy(
        update={"strand": "forward"}))  # fmt: skip
    assert_array_equal(one[:, 0], expected[:, 0])
    assert not one[:, 1].any()


@pytest.fixture
def paired(tmp_path):
    """A pair whose mates overlap, an orphan, and a read of low quality, at 10,000 depth."""
    head = {"HD": {"VN": "1.6", "SO": "coordinate"}, "SQ": [{"SN": "c", "LN": 100}]}
    path = str(tmp_path / "p.bam")

    def read(name, start, flag, mate):
        r = pysam.AlignedSegment(pysam.AlignmentHeader.from_dict(head))
        r.query_name, r.flag, r.reference_id, r.reference_start = name, flag, 0, start
        r.mapping_quality, r.cigarstring, r.query_sequence = 60, "20M", "A" * 20
        r.query_qualities = pysam.qualitystring_to_array("I" * 20)
        r.next_reference_id, r.next_reference_start = 0, mate
        r.template_length = (mate - start) + 20 if start < mate else (start - mate) * -1 - 20
        return r

    reads = []
    for i in range(10_000):
        reads.append(read(f"p{i}", 10, 99, 20))
        reads.append(read(f"p{i}", 20, 147, 10))
    reads.append(read("orphan", 10, 73, 10))
    with pysam.AlignmentFile(path, "wb", header=head) as out:
        for r in sorted(reads, key=lambda r: r.reference_start):
            out.write(r)
    pysam.index(path)
    fasta = tmp_path / "c.fa"
    fasta.write_text(">c\n" + "A" * 100 + "\n")
    return path, str(fasta)


def test_overlaps_orphans_and_the_depth_cap(paired):
    path, fasta = paired

    def depth(**settings):
        found = counted(path, Region("c", 0, 100), VariantSettings(fasta=fasta, **settings))
        return found.sum(axis=(1, 2))

    plain = depth()
    assert plain[12] == plain[25] == plain[35] == 10_000
    assert depth(overlaps="both")[25] == 20_000
    assert depth(orphans=True)[12] == 10_001
    assert depth(max_depth=50)[12] == 50


def test_regions_from_beds_are_merged_and_located(tmp_path):
    bed = tmp_path / "r.bed"
    bed.write_text("#x\nchr2 5 20\nchr1\t0\t10\nchr1\t8\t15\n")
    contigs = {"chr1": 100, "chr2": 50}
    found = regions(VariantSettings(bed=str(bed)), contigs)
    assert found == [Region("chr1", 0, 15), Region("chr2", 5, 20)]
    assert locate(found, 12, 18) == [Region("chr1", 12, 15), Region("chr2", 5, 8)]
    assert regions(VariantSettings(region="chr2:11-20"), contigs) == [Region("chr2", 10, 20)]
    assert regions(VariantSettings(region="1", chr_names="map"), contigs)[0].contig == "chr1"


@pytest.mark.parametrize(("on_forward", "filters"), [(20, []), (40, ["strand_bias"])])
def test_an_allele_on_one_strand_gets_a_filter(on_forward, filters):
    reads = np.array([[[500, 40, 0, 0], [1000, 0, 0, 0]]], np.int32)
    forward = np.array([[[250, on_forward, 0, 0], [500, 0, 0, 0]]], np.int32)
    batch = Counts(reads, np.zeros(1, np.int8), np.array([True, False]))
    loci = Loci(np.array(["c"]), np.array([7]), forward)
    of = units(batch).take([0])
    judged = judge_reads(of, np.zeros(1, int), batch, loci, 1e-3, both_strands=True)
    assert _filters(of, batch, np.array([True]), judged, VariantSettings()) == [filters]
    left_out = VariantSettings(skip_filters="strand_bias")
    assert _filters(of, batch, np.array([True]), judged, left_out) == [[]]
    unknown = Loci(loci.chrom, loci.pos, None)
    assert not judge_reads(of, np.zeros(1, int), batch, unknown, 1e-3, both_strands=True).taken


def test_genotypes():
    assert genotype(0.95, 10, True) == (1, 1)
    assert genotype(0.01, 400, True) == (0, 1)
    assert genotype(0.01, 400, False) == (0, 0)
    assert genotype(0.0, 0, False) == (None, None)


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    FAMILY.simulate(str(folder), 120, 3)
    return folder / "counts.parquet"


def answers(target):
    return pq.read_table(open_run(str(target))[0].table("loci")).sort_by("pos")


def test_counts_in_any_order_and_cut_give_the_same_loci(capsys, counts, tmp_path):
    table = pq.read_table(counts)
    order = np.random.default_rng(0).permutation(len(table))
    folder = tmp_path / "mixed"
    folder.mkdir()
    for i, rows in enumerate(np.array_split(order, 3)):
        pq.write_table(table.take(rows), folder / f"{i}.parquet")
    assert run(capsys, "variants", counts, tmp_path / "a", *FAST, "--partitions", 1)[0] == 0
    assert run(capsys, "variants", folder, tmp_path / "b", *FAST, "--partitions", 5)[0] == 0
    one, other = answers(tmp_path / "a"), answers(tmp_path / "b")
    for name in one.column_names:
        a, b = one[name].to_numpy(), other[name].to_numpy()
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-9, err_msg=name)
        else:
            assert_array_equal(a, b, name)


def test_count_once_then_fit_equals_fitting_the_reads(capsys, published, simbam, tmp_path):
    source = sheet(tmp_path, lines_of(simbam))
    fasta = f"fasta={simbam / 'ref400.fa'}"
    code, out, _ = run(capsys, "count", source, tmp_path / "counts", "--set", fasta, "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 2400
    code, _, _ = run(capsys, "variants", tmp_path / "counts", tmp_path / "out", *FAST,
                     "--set", fasta, "--partitions", "2")  # fmt: skip
    assert code == 0
    direct = pq.read_table(published[0].table("loci")).sort_by("pos")
    again = answers(tmp_path / "out")
    assert_array_equal(direct["case_reads"].to_numpy(), again["case_reads"].to_numpy())
    assert_array_equal(direct["called"].to_pylist(), again["called"].to_pylist())


def test_all_samples_are_counted_once_and_any_two_compared(capsys, published, simbam, tmp_path):
    cases = [("weak", i, simbam / f"case_400_0.01_{i}.bam") for i in range(3)]
    cases += [("strong", i, simbam / f"case_400_0.1_{i}.bam") for i in range(3)]
    source = sheet(tmp_path, [*cases, *lines_of(simbam)[3:]])
    fasta = f"fasta={simbam / 'ref400.fa'}"
    code, out, err = run(capsys, "count", source, tmp_path / "all", "--set", fasta, "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == 3600
    for name, least in (("weak", 13), ("strong", 14)):
        code, out, _ = run(capsys, "variants", tmp_path / "all", tmp_path / name, *FAST, "--json",
                           "--set", fasta, "--set", f"case={name}")  # fmt: skip
        assert code == 0
        assert least <= json.loads(out)["results"]["calls"] <= 14
    direct = pq.read_table(published[0].table("loci")).sort_by("pos")
    weak = answers(tmp_path / "weak")
    for column in ("case_depth", "control_depth", "called"):
        assert weak[column].to_pylist() == direct[column].to_pylist()
    called = direct["called"].combine_chunks()
    for column in ("alt", "case_reads", "control_reads"):
        assert weak[column].filter(called).to_pylist() == direct[column].filter(called).to_pylist()


def test_a_count_takes_no_folder_with_counts_and_leaves_none_when_it_fails(
    capsys, monkeypatch, simbam, tmp_path
):
    source = sheet(tmp_path, lines_of(simbam))
    options = ("--set", f"fasta={simbam / 'ref400.fa'}", "--partitions", "3")
    written = count_pipeline.write_part_counts

    def fails(part, settings, target, names):
        if part.index == 2:
            raise storage.StorageError("the store went away")
        return written(part, settings, target, names)

    (tmp_path / "counts").mkdir()
    (tmp_path / "counts" / "notes.txt").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(count_pipeline, "write_part_counts", fails)
        code, _, err = run(capsys, "count", source, tmp_path / "counts", *options)
    assert code == 1
    assert "the store went away" in err
    assert not list((tmp_path / "counts").glob("*.parquet"))
    assert run(capsys, "count", source, tmp_path / "counts", *options)[0] == 0
    assert (tmp_path / "counts" / "notes.txt").read_text() == "mine"
    before = [path.stat().st_mtime_ns for path in sorted((tmp_path / "counts").glob("*"))]
    code, _, err = run(capsys, "count", source, tmp_path / "counts", *options)
    assert code == 2
    assert "expected a folder without counts, found counts-" in " ".join(err.split())
    assert before == [p.stat().st_mtime_ns for p in sorted((tmp_path / "counts").glob("*"))]
    code, _, err = run(capsys, "count", tmp_path / "counts", tmp_path / "other", *options)
    assert code == 2
    assert ".csv" in err
    sorted((tmp_path / "counts").glob("*.parquet"))[1].unlink()
    code, _, err = run(capsys, "check", "variants", tmp_path / "counts")
    assert code == 2
    assert "expected all 3 files of this count, found 2; file 1 is missing" in " ".join(err.split())


# With one location each, about twenty partitions have none in the sample.
@pytest.mark.parametrize("partitions", [3, 120])
def test_a_sample_of_the_units_is_enough(capsys, monkeypatch, counts, tmp_path, partitions):
    monkeypatch.setattr(fitted_on, "FIT_UNITS", 300)
    code, _, _ = run(capsys, "variants", counts, tmp_path / "a", *FAST,
                     "--partitions", partitions)  # fmt: skip
    assert code == 0
    known = pq.read_table(counts.parent / "_truth" / "variants.parquet")["pos"].to_pylist()
    found = answers(tmp_path / "a")
    called = found.filter(found["called"])["pos"].to_pylist()
    assert len(set(called) & set(known)) >= len(known) - 1
    assert len(set(called) - set(known)) <= 1


def test_the_draw_of_locations_does_not_depend_on_how_they_are_cut():
    chrom = np.repeat(np.array(["1", "2", "X"]), 20_000)
    loci = Loci(chrom, np.tile(np.arange(1, 20_001), 3), None)
    number = even(loci, 0)
    cuts = [slice(0, 777), slice(777, 31_000), slice(31_000, 60_000)]
    parts = [even(Loci(loci.chrom[c], loci.pos[c], None), 0) for c in cuts]
    assert_array_equal(np.concatenate(parts), number)
    assert number.min() >= 0.0
    assert number.max() < 1.0
    # 60,000 draws: sd of the share .0012; seeds and contigs are independent.
    whole = number < 0.1
    for share in (whole.mean(), *whole.reshape(3, -1).mean(axis=1)):
        assert abs(share - 0.1) < 0.01
    assert abs(((even(loci, 1) < 0.1) & whole).mean() - 0.01) < 0.003
    assert abs((whole[:20_000] & whole[20_000:40_000]).mean() - 0.01) < 0.003
    assert abs((whole[1:] & whole[:-1]).mean() - 0.01) < 0.003
    assert abs((even(loci, 2**64 + 5) < 0.1).mean() - 0.1) < 0.01


def test_partitions_do_not_matter_to_a_sample_either(capsys, monkeypatch, counts, tmp_path):
    monkeypatch.setattr(fitted_on, "FIT_UNITS", 300)
    found = []
    for partitions in (1, 7):
        out = tmp_path / str(partitions)
        code, *_ = run(capsys, "variants", counts, out,
                       "--partitions", partitions)  # fmt: skip
        assert code == 0
        found.append(answers(out)["prob"].to_numpy())
    np.testing.assert_allclose(*found, atol=1e-6)


@pytest.mark.slow
def test_the_papers_test_germline_two_sided_and_strict(capsys, counts, tmp_path):
    for i, extra in enumerate(
        (["test=posterior_difference", "tau=0.0005"], ["control="], ["two_sided=true"],
         ["strict=true"])
    ):  # fmt: skip
        options = [x for e in extra for x in ("--set", e)]
        code, out, _ = run(capsys, "variants", counts, tmp_path / str(i), *FAST, *options, "--json")
        assert code == 0, extra
        result = json.loads(out)
        assert result["results"]["locations"] == 120
        place, _ = open_run(str(tmp_path / str(i)))
        with pysam.VariantFile(place.file("variants.vcf.gz")) as file:
            assert list(file.header.samples) == (["case"] if i == 1 else ["case", "control"])


class Told(Listener):
    """Keeps how far each stage is, and stops the run at one of them."""

    def __init__(self, last=None):
        self.last, self.told = last, []

    def hear(self, event):
        self.told.append(event)
        if self.last and event == self.last:
            raise InterruptedError


@pytest.mark.parametrize("workers", [None, pytest.param(2, marks=pytest.mark.slow)])
def test_long_stages_tell_how_far_they_are_and_can_be_stopped(counts, tmp_path, workers):
    settings = VariantSettings(tol=1e-4, partitions=3)
    compute = ComputeSettings(workers=workers)
    told = Told()
    run_pipeline(FAMILY, Events(told), str(counts), str(tmp_path / "out"), settings, compute, None)
    for stage in ("partition", "score", "publish"):
        parts = [e for e in told.told if isinstance(e, PartDone) and e.stage == stage]
        assert list(dict.fromkeys(parts)) == [PartDone(stage, i, 3) for i in (1, 2, 3)]
    assert isinstance(told.told[-1], Published)
    before = (tmp_path / "out" / "latest.json").read_bytes()
    for last in (PartDone("score", 1, 3), PartDone("publish", 2, 3)):
        with pytest.raises(InterruptedError):
            run_pipeline(
                FAMILY, Events(Told(last)), str(counts), str(tmp_path / "out"), settings, compute,
                None,
            )  # fmt: skip
    assert (tmp_path / "out" / "latest.json").read_bytes() == before


PAPERS = ("--set", "test=posterior_difference", "--set", "tau=0.0005")


def test_the_sampler_tells_what_the_mean_field_does(capsys, counts, tmp_path):
    drawn = ("--set", "test=sampled_difference", "--set", "tau=0.0005")
    code, out, _ = run(capsys, "variants", counts, tmp_path / "drawn", *FAST, *drawn, "--json")
    assert code == 0
    results = json.loads(out)["results"]
    assert 1.0 < results["largest_r_hat"] < 1.1
    assert run(capsys, "variants", counts, tmp_path / "field", *FAST, *PAPERS)[0] == 0
    drawn, field = answers(tmp_path / "drawn"), answers(tmp_path / "field")
    for name in ("case_mean", "control_mean"):
        a, b = drawn[name].to_numpy(), field[name].to_numpy()
        sd = drawn[name.replace("mean", "sd")].to_numpy()
        assert np.median(np.abs(a - b) / sd) < 0.5
    assert drawn["prob"].to_numpy().max() <= 4000 / 4001
    page = open_run(str(tmp_path / "drawn"))[0].file("report.html")
    assert "Slice sampling: 4 chains of 1,000 kept draws" in Path(page).read_text()


def test_one_replicate_is_allowed_and_warned_of(capsys, counts, tmp_path):
    table = pq.read_table(counts)
    one = table.filter(pa.compute.equal(table["replicate"], "1"))
    pq.write_table(one, tmp_path / "one.parquet")
    code, out, _ = run(capsys, "variants", tmp_path / "one.parquet", tmp_path / "o", *FAST)
    assert code == 0
    assert "Sample case has one replicate" in out
    assert "Sample control has one replicate" in out


def spoiled(counts, tmp_path, **columns):
    table = pq.read_table(counts)
    for name, change in columns.items():
        values = change(table[name].to_pylist())
        index = table.column_names.index(name)
        table = table.set_column(index, name, pa.array(values, table.schema.field(name).type))
    pq.write_table(table, tmp_path / "bad.parquet")
    return tmp_path / "bad.parquet"


BAD_COUNTS = [
    ({"A": lambda v: [-1, *v[1:]]}, ["column A, row 1", "0 or more", "-1"]),
    ({"ref": lambda v: [*v[:3], "AC", *v[4:]]}, ["column ref, row 4", "'AC'"]),
    ({"pos": lambda v: [0, *v[1:]]}, ["column pos, row 1", "from 1"]),
    ({"pos": lambda v: [2**29, *v[1:]]}, ["column pos, row 1", "below 2^29"]),
    ({"chrom": lambda v: [*v[:2], "=cmd", *v[3:]]}, ["column chrom, row 3", "VCF", "'=cmd'"]),
    ({"chrom": lambda v: ["a,b <i>", *v[1:]]}, ["column chrom, row 1", "VCF"]),
    ({"pos": lambda v: [v[6], *v[1:]]}, ["case 1 twice"]),
    ({"ref": lambda v: ["N" if x != "N" else "A" for x in v[:1]] + v[1:]}, ["two reference bases"]),
    ({"sample": lambda v: ["x"] * len(v)}, ["a sample named 'case'", "only x"]),
    ({"sample": lambda v: ["case"] * len(v), "replicate": lambda v: [str(i % 6) for i in
      range(len(v))]}, ["a sample named 'control'", "germline"]),
    ({b: lambda v: [0] * len(v) for b in "ACGT"}, ["zero depth everywhere"]),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "words"), BAD_COUNTS)
def test_bad_counts_are_one_sentence_and_exit_2(capsys, counts, tmp_path, columns, words):
    bad = spoiled(counts, tmp_path, **columns)
    code, _, err = run(capsys, "variants", bad, tmp_path / "out", *FAST)
    assert code == 2, err
    told = " ".join(err.split())
    assert all(word in told for word in words), told


def test_a_sample_is_not_its_own_control(capsys, counts, tmp_path):
    code, _, err = run(capsys, "variants", counts, tmp_path / "out", "--set", "control=case")
    assert code == 2
    assert "both 'case'" in " ".join(err.split())


def test_counts_beyond_the_depth_and_missing_columns(capsys, counts, tmp_path):
    table = pq.read_table(counts)
    pq.write_table(table.append_column("depth", pa.array([5] * len(table))), tmp_path / "d.parquet")
    code, _, err = run(capsys, "check", "variants", tmp_path / "d.parquet")
    assert code == 2
    assert "column depth, row 1" in err
    pq.write_table(table.drop_columns(["G"]), tmp_path / "g.parquet")
    code, _, err = run(capsys, "check", "variants", tmp_path / "g.parquet")
    assert code == 2
    assert "column G" in err


def test_an_unknown_reference_base_is_left_out_and_counted(capsys, counts, tmp_path):
    table = pq.read_table(counts)
    first = table["pos"][0].as_py()
    change = [("N" if p == first else r) for p, r in
              zip(table["pos"].to_pylist(), table["ref"].to_pylist(), strict=True)]  # fmt: skip
    bad = spoiled(counts, tmp_path, ref=lambda v: change)
    code, _, err = run(capsys, "variants", bad, tmp_path / "out", *FAST)
    assert code == 0, err
    assert len(answers(tmp_path / "out")) == 119


def check(capsys, source, *settings):
    options = [x for s in settings for x in ("--set", s)]
    return run(capsys, "check", "variants", source, *options)


def test_bad_sheets_and_files(capsys, simbam, tmp_path):
    fasta = f"fasta={simbam / 'ref400.fa'}"
    good = lines_of(simbam)
    bam = str(good[0][2])

    def told(rows, *settings, header=None):
        source = sheet(tmp_path, rows)
        if header:
            source.write_text(header)
        code, out, err = check(capsys, source, *settings)
        return code, " ".join((out + err).split())

    assert told(good, fasta)[0] == 0
    assert "the reference FASTA" in told(good)[1]
    assert "column path: expected this column" in told([], fasta, header="sample,replicate\n")[1]
    assert "expected at least one line" in told([], fasta)[1]
    assert "case 0 again" in told([good[0], *good], fasta)[1]
    code, text = told([*good, ("control", 9, bam)], fasta)
    assert code == 2
    assert "a file of its own for each replicate" in text
    assert "no file" in told([("case", 9, tmp_path / "no.bam"), *good], fasta)[1]
    assert "amp:1-400" in told(good, fasta, "region=amp:300-900")[1]
    code, text = told(good, fasta, "region=chrX:1-10")
    assert code == 2
    assert "'chrX'" in text
    assert "amp" in text
    cut = tmp_path / "cut.bam"
    cut.write_bytes(good[0][2].read_bytes()[:20_000])
    shutil.copy(bam + ".bai", str(cut) + ".bai")
    code, text = told([("case", 9, cut), *good], fasta)
    assert code == 2
    assert "truncated" in text or "cannot be read" in text
    other = tmp_path / "other.fa"
    other.write_text(">chr9\nACGTACGT\n")
    code, text = told(good, f"fasta={other}")
    assert code == 2
    assert "'chr9'" in text
    assert "amp" in text


def as_cram(bam, fasta, target):
    """Write a BAM's reads as an indexed CRAM."""
    with (
        pysam.AlignmentFile(str(bam)) as source,
        pysam.AlignmentFile(
            str(target), "wc", template=source, reference_filename=str(fasta)
        ) as out,
    ):
        for read in source:
            out.write(read)
    pysam.index(str(target))
    return target


def test_a_cram_is_counted_as_its_bam(capsys, simbam, tmp_path):
    fasta, bam = simbam / "ref400.fa", lines_of(simbam)[0][2]
    cram = as_cram(bam, fasta, tmp_path / "a.cram")
    settings = VariantSettings(fasta=str(fasta))
    region = Region("amp", 0, 400)
    expected = counted(str(bam), region, settings)
    assert expected.sum() > 100_000
    assert_array_equal(counted(str(cram), region, settings), expected)
    option = f"fasta={fasta}"
    source = sheet(tmp_path, [("case", 1, cram)])
    code, _, err = check(capsys, source, option, "control=")
    assert code == 0, err
    index = (tmp_path / "a.cram.crai").read_bytes()
    (tmp_path / "a.cram.crai").unlink()
    assert check(capsys, source, option, "control=")[0] == 0
    assert not (tmp_path / "a.cram.crai").exists()
    cut = tmp_path / "cut.cram"
    cut.write_bytes(cram.read_bytes()[:-5_000])
    (tmp_path / "cut.cram.crai").write_bytes(index)
    code, _, err = check(capsys, sheet(tmp_path, [("case", 1, cut)]), option, "control=")
    assert code == 2
    assert "truncated" in err


def test_a_fasta_without_an_index_and_n_in_it(capsys, simbam, tmp_path):
    text = (simbam / "ref400.fa").read_text()
    fasta = tmp_path / "plain.fa"
    fasta.write_text(text.replace("\n", "\nA\n", 1))  # lines of other lengths have no index
    source = sheet(tmp_path, lines_of(simbam))
    code, _, err = check(capsys, source, f"fasta={fasta}")
    assert code == 2
    assert "samtools faidx" in err
    head, bases = text.split("\n", 1)
    masked = tmp_path / "masked.fa"
    masked.write_text(f"{head}\nNN{bases[2:]}")
    codes = reference(str(masked), Region("amp", 0, 10))
    assert_array_equal(codes < 0, np.arange(10) < 2)


def test_a_bed_of_other_contigs_names_both(capsys, simbam, tmp_path):
    bed = tmp_path / "other.bed"
    bed.write_text("amp\t0\t50\nchr7\t10\t20\namp\t390\t500\n")
    source = sheet(tmp_path, lines_of(simbam))
    code, _, err = check(capsys, source, f"fasta={simbam / 'ref400.fa'}", f"bed={bed}")
    told = " ".join(err.split())
    assert code == 2
    assert "row 2" in told
    assert "'chr7'" in told
    assert "(amp)" in told
    assert "row 3" in told
    assert "amp:1-400" in told


def test_an_index_is_made_or_asked_for(capsys, simbam, tmp_path):
    fasta = tmp_path / "ref.fa"
    shutil.copy(simbam / "ref400.fa", fasta)
    bam = tmp_path / "a.bam"
    shutil.copy(lines_of(simbam)[0][2], bam)
    source = sheet(tmp_path, [("case", 1, "a.bam")])
    code, _, err = check(capsys, source, f"fasta={fasta}", "control=")
    assert code == 0, err
    # A BAM whose contig is longer than a .bai can hold has no such index.
    with pysam.AlignmentFile(str(bam)) as file:
        lines = [read.to_string() for read in file]
    header = {"HD": {"VN": "1.6"}, "SQ": [{"SN": "amp", "LN": 2**30}]}
    with pysam.AlignmentFile(str(bam), "wb", header=header) as file:
        for line in lines:
            read = pysam.AlignedSegment.fromstring(line, file.header)
            read.reference_start += 2**29
            file.write(read)
    code, _, err = check(capsys, source, f"fasta={fasta}", "control=")
    assert code == 2
    assert "samtools index" in err


def test_a_fasta_of_another_length_and_chr_names(capsys, simbam, tmp_path):
    text = (simbam / "ref400.fa").read_text().split("\n", 1)[1]
    longer = tmp_path / "long.fa"
    longer.write_text(">amp\n" + text.strip() + "ACGT\n")
    source = sheet(tmp_path, lines_of(simbam))
    code, _, err = check(capsys, source, f"fasta={longer}")
    assert code == 2
    assert "404" in err
    renamed = tmp_path / "chr.fa"
    renamed.write_text(">chramp\n" + text)
    assert check(capsys, source, f"fasta={renamed}")[0] == 2
    assert check(capsys, source, f"fasta={renamed}", "chr_names=map")[0] == 0


@pytest.mark.slow
def test_tp53_reads_end_to_end(capsys, shared_data, tmp_path):
    """Four people's reads, two against two: contig 17 starts far from 1."""
    folder = shared_data / "variants" / "bam"
    text = (folder / "17_7572000-7591000.fasta").read_text().split("\n", 1)[1].replace("\n", "")
    fasta = tmp_path / "17.fa"
    fasta.write_text(">17\n" + "N" * 7_571_999 + text + "N" * (81_195_210 - 7_571_999 - len(text)))
    names = ("NA06986", "NA11918", "NA12842", "NA12878")
    rows = [(("case", "control")[i % 2], i, folder / f"{n}.bam") for i, n in enumerate(names)]
    options = ("--set", f"fasta={fasta}", "--set", "region=17:7572000-7590999", "--json")
    source = sheet(tmp_path, rows)
    code, out, err = run(capsys, "variants", source, tmp_path / "out", *options)
    assert code == 0, err
    assert json.loads(out)["results"]["locations"] > 5000
