"""From evidence to calls: the decision over all partitions, and what the VCF says of it."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pysam
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from flows.faults import ComputeError
from flows.records.runs import open_run
from flows.variants.calls import calls as variant_calls
from flows.variants.calls.calls import Evidence, decide, summarise
from flows.variants.calls.part_calls import Chains
from flows.variants.family import FAMILY
from flows.variants.input import training_sites
from flows.variants.settings import VariantSettings
from tests.flows.commands import answer, succeed
from tests.flows.variants.variant_files import loci, options
from vbmodels.core.state import State, from_bytes, to_bytes
from vbmodels.variants.calls import local_fdr, q_values

FAST = ("--set", "tol=1e-4")


def scores(size=300_000, variants=3000):
    rng = np.random.default_rng(0)
    score = rng.normal(-3.0, 1.6, size)
    score[:variants] = rng.normal(9.0, 4.0, variants)
    return score


def test_a_thinned_decision_calls_the_same_and_never_understates_a_q_value(monkeypatch):
    parts = [summarise(Evidence(part)) for part in np.array_split(scores(), 7)]
    whole = decide(parts, 0.01, VariantSettings(), refit=True)
    monkeypatch.setattr(variant_calls, "MOST_SCORES", 100)
    thin = decide(parts, 0.01, VariantSettings(), refit=True)
    assert len(thin.score) < 0.8 * len(whole.score)
    assert (thin.least, thin.calls, thin.pi) == (whole.least, whole.calls, whole.pi)
    at = np.concatenate([np.linspace(-35.0, 30.0, 5001), scores(3000)])
    ratio = thin.q_of(at) / whole.q_of(at)
    assert ratio.min() >= 1.0
    assert ratio.max() < 1.0002
    again = from_bytes(to_bytes(thin), variant_calls.Decision, "there")
    assert_array_equal(again.q_of(at), thin.q_of(at))


def test_strict_reading_does_not_choose_the_calls():
    parts = [summarise(Evidence(scores()))]
    plain, strict, e_bh = (
        decide(parts, 0.01, VariantSettings(**one), refit=True)
        for one in ({}, {"strict": True}, {"e_bh": True})
    )
    assert strict.calls == plain.calls > e_bh.calls


@pytest.mark.parametrize("pi", [0.001, 0.9])
def test_calls_of_the_decision_are_those_of_all_scores_at_once(pi):
    """Also where P(H1) is above 1/2, so that scores below 0 are called."""
    score = scores() if pi < 0.5 else np.random.default_rng(1).uniform(-8.0, 8.0, 3000)
    parts = [summarise(Evidence(part)) for part in np.array_split(score, 3)]
    found = decide(parts, pi, VariantSettings(), refit=False)
    lfdr = local_fdr(score, pi)
    exact = (q_values(lfdr) <= 0.05) & (lfdr <= 0.5)
    called = score >= found.least
    assert called.sum() == found.calls
    assert abs(called.sum() - exact.sum()) <= 0.01 * exact.sum() + 1
    assert np.all(found.q_of(score[called]) <= 0.05)


def test_evidence_that_is_no_number_ends_the_run():
    with pytest.raises(ComputeError, match="the evidence of 1 of 3 alleles"):
        summarise(Evidence(np.array([0.0, np.nan, 2.0])))
    assert summarise(Evidence(np.array([-np.inf]))).low.sum() == 1


def test_chains_that_never_moved_or_stand_apart_are_reported():
    """R-hat has no value where nothing varies, and none that is finite where chains stand apart."""
    assert Chains.of(np.array([np.nan, 1.01])) == Chains(0, 1.01)
    assert Chains.of(np.array([np.nan])) == Chains(0, 1.0)
    apart = [Chains.of(np.array(r_hat)) for r_hat in ([np.inf, 1.2], [1.3])]
    assert Chains.merge(apart) == Chains(3, None)
    assert Chains.merge(apart[1:]) == Chains(1, 1.3)


def two_alleles(folder, uneven=0):
    """Counts of 60 locations; at position 8 the control has 700 of 1000 T, the case none.

    Every fourth location has so many errors more in both samples.
    """
    rng = np.random.default_rng(0)
    rows = []
    for pos in range(1, 61):
        for sample in ("case", "control"):
            for replicate in ("1", "2"):
                c, g, t = rng.binomial(1000, 3e-4, 3)
                c += uneven * (pos % 4 == 0)
                t = 700 if (pos, sample) == (8, "control") else t
                c, g, t = (0, 0, 0) if (pos, sample) == (8, "case") else (c, g, t)
                rows.append(("chr1", pos, "A", sample, replicate, 1000 - c - g - t, c, g, t))
    names = ("chrom", "pos", "ref", "sample", "replicate", "A", "C", "G", "T")
    pq.write_table(pa.table(dict(zip(names, zip(*rows, strict=True), strict=True))),
                   folder / "counts.parquet")  # fmt: skip
    return folder / "counts.parquet"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("test", "uneven"),
    [("two_groups", 0), pytest.param("posterior_difference", 20, marks=pytest.mark.slow)],
    ids=["two_groups", "posterior_difference"],
)
def test_a_loss_names_the_lost_allele_and_no_genotype_that_nobody_has(tmp_path, test, uneven):
    source = two_alleles(tmp_path, uneven)
    sets = ("--set", f"test={test}", "--set", "two_sided=true", "--set", "tau=0.01")
    succeed("variants", source, tmp_path / "out", *FAST, *sets)
    vcf = open_run(str(tmp_path / "out"))[0].file("variants.vcf.gz")
    with pysam.VariantFile(vcf) as file:
        (call,) = (r for r in file if r.pos == 8)
        assert (call.ref, call.alts) == ("A", ("T",))
        assert call.samples["case"]["GT"] == (0, 0)
        assert call.samples["case"]["AD"] == (2000, 0)
        assert call.samples["control"]["GT"] == (0, 1)
    succeed("variants", source, tmp_path / "gain", *FAST)
    assert not any(loci(tmp_path / "gain")["called"].to_pylist())


def test_a_loss_that_the_papers_fit_takes_for_errors_is_warned_of(tmp_path, capsys):
    """Where errors are even, M0 runs to its limit and hides the location in a small M_j."""
    how = options(test="posterior_difference", two_sided=True, tau=0.01)
    found = answer(capsys, "variants", two_alleles(tmp_path), tmp_path / "out", *FAST, *how)
    assert not found["results"]["calls"]
    assert found["results"]["cases"][0]["all_alike"]


@pytest.mark.thorough
def test_a_scored_run_takes_the_share_of_variants_of_all_units(monkeypatch, tmp_path):
    """Not that of the sample which the other hyperparameters were fitted on."""
    monkeypatch.setattr(training_sites, "FIT_UNITS", 300)
    FAMILY.simulate(str(tmp_path), 240, 3)
    source = tmp_path / "counts.parquet"
    succeed("variants", source, tmp_path / "fit", *FAST)
    succeed("score", tmp_path / "fit", source, tmp_path / "new")
    one, other = (loci(tmp_path / name).sort_by("pos") for name in ("fit", "new"))
    assert_allclose(one["prob"].to_numpy(), other["prob"].to_numpy(), rtol=1e-9, atol=1e-300)
    place = open_run(str(tmp_path / "fit"))[0]
    with open(place.file("posterior/q.npz"), "rb") as file:
        q = from_bytes(file.read(), State, "q.npz")
    expected = one["prob"].to_numpy().sum() / (3 * len(one))
    assert q.pi == pytest.approx(expected, rel=0.2)
