"""The variants pipeline as a user has it: real BAMs to a VCF that bcftools reads, bad input."""

import shutil
import subprocess

import numpy as np
import pyarrow.parquet as pq
import pysam
import pytest
from numpy.testing import assert_array_equal

from flows import count as count_pipeline
from flows import storage
from flows.records.runs import open_run
from flows.variants.calls.vcf import genotype
from flows.variants.family import FAMILY
from flows.variants.input.counts import Loci
from flows.variants.input.training_sites import even
from flows.variants.reads.reads import reference
from flows.variants.reads.regions import Region
from tests.flows.commands import answer, refused, run, succeed
from tests.flows.variants.variant_files import check, check_refused, loci, options, write_sheet

FAST = ("--set", "tol=1e-4")
PAPERS = ("--set", "test=posterior_difference", "--set", "tau=0.0005")


@pytest.fixture(scope="session")
def simbam(shared_data):
    return shared_data / "variants" / "simbam"


def lines_of(simbam, depth=400, vaf="0.01"):
    cases = [("case", i, simbam / f"case_{depth}_{vaf}_{i}.bam") for i in range(3)]
    return cases + [("control", i, simbam / f"ctrl_{depth}_{i}.bam") for i in range(3)]


@pytest.fixture(scope="session")
def published(simbam, tmp_path_factory):
    folder = tmp_path_factory.mktemp("variants")
    source = write_sheet(folder, lines_of(simbam))
    fasta = options(fasta=simbam / "ref400.fa")
    succeed("variants", source, folder / "out", "--partitions", "2", *fasta)
    return open_run(str(folder / "out"))


def truth(simbam):
    rows = [line.split("\t") for line in (simbam / "truth.tsv").read_text().split("\n") if line]
    return {(int(pos), ref, alt) for _, pos, ref, alt in rows}


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_bcftools_reads_queries_and_normalises_without_a_warning(published, simbam):
    if shutil.which("bcftools") is None:
        pytest.skip("bcftools (Debian: apt-get install bcftools) is not installed")
    vcf = published[0].file("variants.vcf.gz")

    def bcftools(*arguments):
        done = subprocess.run(["bcftools", *arguments], capture_output=True, text=True, check=True)
        assert "warn" not in done.stderr.lower()
        return done.stdout.splitlines()

    everything = bcftools("view", "-H", vcf)
    assert len(everything) >= 13
    assert 0 < len(bcftools("view", "-H", vcf, "amp:100-200")) < len(everything)
    for line in bcftools("query", "-f", "%INFO/LFDR [%ADF %ADR %SB %AD ]\n", vcf):
        lfdr, adf, adr, sb, ad, *_ = line.split()
        (rf, af), (rr, ar) = ([int(n) for n in of.split(",")] for of in (adf, adr))
        assert (sb, ad) == (f"{rf},{rr},{af},{ar}", f"{rf + rr},{af + ar}")
        assert 0.0 <= float(lfdr) <= 0.5
    fields = "%POS %QUAL %FILTER %INFO/P %INFO/MUCI [%GT %DP %AD %AF ]\n"
    assert len(bcftools("query", "-f", fields, vcf)) == len(everything)
    normal = bcftools("norm", "-f", str(simbam / "ref400.fa"), "-c", "e", vcf)
    assert [line for line in normal if not line.startswith("#")] == everything
    assert "##contig=<ID=amp,length=400>" in bcftools("view", "-h", vcf)


def test_genotypes():
    calls = {(0.95, 10, True): (1, 1), (0.01, 400, True): (0, 1), (0.01, 400, False): (0, 0)}
    assert {of: genotype(*of) for of in calls} == calls
    assert genotype(0.0, 0, False) == (None, None)


@pytest.fixture(scope="module")
def counts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("counts")
    FAMILY.simulate(str(folder), 120, 3)
    return folder / "counts.parquet"


def answers(target):
    return loci(target).sort_by("pos")


@pytest.mark.thorough
def test_counts_in_any_order_and_cut_give_the_same_loci(counts, tmp_path):
    table = pq.read_table(counts)
    order = np.random.default_rng(0).permutation(len(table))
    folder = tmp_path / "mixed"
    folder.mkdir()
    for i, rows in enumerate(np.array_split(order, 3)):
        pq.write_table(table.take(rows), folder / f"{i}.parquet")
    succeed("variants", counts, tmp_path / "a", *FAST, "--partitions", 1)
    succeed("variants", folder, tmp_path / "b", *FAST, "--partitions", 5)
    one, other = answers(tmp_path / "a"), answers(tmp_path / "b")
    for name in one.column_names:
        a, b = one[name].to_numpy(), other[name].to_numpy()
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-9, err_msg=name)
        else:
            assert_array_equal(a, b, name)


@pytest.mark.thorough
def test_all_samples_are_counted_once_and_any_two_compared(capsys, published, simbam, tmp_path):
    cases = [("weak", i, simbam / f"case_400_0.01_{i}.bam") for i in range(3)]
    cases += [("strong", i, simbam / f"case_400_0.1_{i}.bam") for i in range(3)]
    source = write_sheet(tmp_path, [*cases, *lines_of(simbam)[3:]])
    fasta = options(fasta=simbam / "ref400.fa")
    assert answer(capsys, "count", source, tmp_path / "all", *fasta)["rows"] == 3600
    for name, least in (("weak", 13), ("strong", 14)):
        how = (*FAST, *fasta, *options(case=name))
        result = answer(capsys, "variants", tmp_path / "all", tmp_path / name, *how)
        assert least <= result["results"]["passed"] + result["results"]["filtered"] <= 14
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
    source = write_sheet(tmp_path, lines_of(simbam))
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
    succeed("count", source, tmp_path / "counts", *options)
    assert (tmp_path / "counts" / "notes.txt").read_text() == "mine"
    before = [path.stat().st_mtime_ns for path in sorted((tmp_path / "counts").glob("*"))]
    err = refused(capsys, "count", source, tmp_path / "counts", *options)
    assert "expected a folder without counts, found counts-" in err
    assert before == [p.stat().st_mtime_ns for p in sorted((tmp_path / "counts").glob("*"))]
    err = refused(capsys, "count", tmp_path / "counts", tmp_path / "other", *options)
    assert ".csv" in err
    sorted((tmp_path / "counts").glob("*.parquet"))[1].unlink()
    err = refused(capsys, "check", "variants", tmp_path / "counts")
    assert "expected all 3 files of this count, found 2; file 1 is missing" in err


def test_the_draw_of_locations_does_not_depend_on_how_they_are_cut():
    chrom = np.repeat(np.array(["1", "2", "X"]), 20_000)
    loci = Loci(chrom, np.tile(np.arange(1, 20_001), 3), None)
    number = even(loci, 0)
    cuts = [slice(0, 777), slice(777, 31_000), slice(31_000, 60_000)]
    parts = [even(Loci(loci.chrom[c], loci.pos[c], None), 0) for c in cuts]
    assert_array_equal(np.concatenate(parts), number)
    # 60,000 draws: sd of the share .0012; seeds and contigs are independent.
    whole = number < 0.1
    for share in (whole.mean(), *whole.reshape(3, -1).mean(axis=1)):
        assert abs(share - 0.1) < 0.01
    for other in ((even(loci, 1) < 0.1)[:-1], whole[1:]):
        assert abs((other & whole[:-1]).mean() - 0.01) < 0.003
    assert abs((whole[:20_000] & whole[20_000:40_000]).mean() - 0.01) < 0.003


@pytest.mark.slow
@pytest.mark.parametrize("form", ["papers", "germline", "two_sided", "e_bh"])
def test_other_forms_of_the_test_run(counts, tmp_path, form):
    forms = {"papers": PAPERS, "germline": ("--set", "control=")}
    succeed("variants", counts, tmp_path, *FAST, *forms.get(form, ("--set", f"{form}=true")))
    assert len(answers(tmp_path)) == 120
    with pysam.VariantFile(open_run(str(tmp_path))[0].file("variants.vcf.gz")) as file:
        samples = ["case", "control"][: 1 if form == "germline" else 2]
        every = [f"{name}{of}" for name in samples for of in ("", ":1", ":2", ":3")]
        assert list(file.header.samples) == every


@pytest.mark.thorough
def test_a_cram_is_checked_as_its_bam(capsys, simbam, tmp_path):
    how = {"fasta": simbam / "ref400.fa", "control": ""}
    cram, index = tmp_path / "a.cram", tmp_path / "a.cram.crai"
    bam = str(lines_of(simbam)[0][2])
    pysam.view("-C", "-T", str(how["fasta"]), "-o", str(cram), bam, catch_stdout=False)
    sheet = write_sheet(tmp_path, [("case", 1, cram)])
    assert check(capsys, sheet, **how)[0] == 0
    assert not index.exists()  # it is kept where copies are
    pysam.index(str(cram))
    cram.write_bytes(cram.read_bytes()[:-5_000])
    assert "truncated" in check_refused(capsys, sheet, **how)


def test_an_unknown_base_of_the_fasta_is_no_base(tmp_path):
    (tmp_path / "masked.fa").write_text(">amp\nNNACGTACGT\n")
    codes = reference(str(tmp_path / "masked.fa"), Region("amp", 0, 10))
    assert_array_equal(codes < 0, np.arange(10) < 2)


@pytest.mark.slow
def test_tp53_reads_end_to_end(capsys, shared_data, tmp_path):
    """Four people's reads, two against two: contig 17 starts far from 1."""
    folder = shared_data / "variants" / "bam"
    text = (folder / "17_7572000-7591000.fasta").read_text().split("\n", 1)[1].replace("\n", "")
    fasta = tmp_path / "17.fa"
    fasta.write_text(">17\n" + "N" * 7_571_999 + text + "N" * (81_195_210 - 7_571_999 - len(text)))
    names = ("NA06986", "NA11918", "NA12842", "NA12878")
    rows = [(("case", "control")[i % 2], i, folder / f"{n}.bam") for i, n in enumerate(names)]
    how = options(fasta=fasta, region="17:7572000-7590999")
    result = answer(capsys, "variants", write_sheet(tmp_path, rows), tmp_path / "out", *how)
    assert result["results"]["cases"][0]["locations"] > 5000
