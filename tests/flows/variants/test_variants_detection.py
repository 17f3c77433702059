"""The limit of detection: what it promises is kept, and where it stands."""

import warnings
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.records.runs import open_run
from flows.variants.calls import detection
from flows.variants.calls.calls import bayes_factors, decide, summarise
from flows.variants.calls.samples import Range
from flows.variants.input.counts import Loci
from flows.variants.settings import VariantSettings
from tests.flows.commands import run, succeed
from tests.flows.variants.variant_files import QUICK, options, write_counts
from tests.vbmodels.variants.scenarios import SCENARIOS, simulate_scenario
from vbmodels.core.fit import NotConverged, fit
from vbmodels.variants.counts import Counts, units
from vbmodels.variants.two_groups.batch_null import BatchNull
from vbmodels.variants.two_groups.model import TwoGroups


def fitted_to(model, counts, sweeps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return fit(model, [counts], max_iter=sweeps).q


def limits_of(model, q, counts, decision, settings):
    least = detection.threshold(decision, settings)
    limits = detection.Conditions.of(counts, q).limits(model, q, least)
    return limits.at(counts, q, settings)


@pytest.fixture(scope="module")
def fitted():
    scenario = replace(SCENARIOS["af.005_400"], n_variants=4)
    counts, _ = simulate_scenario(np.random.default_rng(0), scenario, 60)
    model = TwoGroups()
    return model, fitted_to(model, counts, 30), counts


def test_an_allele_at_the_limit_is_called_as_often_as_it_says(fitted):
    model, q, counts = fitted
    settings = VariantSettings()
    decision = decide(
        [summarise(bayes_factors(model, q, units(counts)))], q.pi, settings, refit=True
    )
    q = replace(q, pi=decision.pi)
    limit = limits_of(model, q, counts, decision, settings)
    assert ((limit > 0.002) & (limit < 0.1)).all()
    rng = np.random.default_rng(1)
    m = np.exp(q.log_m_mean)
    least = detection.threshold(decision, settings)
    for factor, low, high in ((1.0, 0.93, 1.0), (0.5, 0.0, 0.75)):
        called = []
        for _ in range(8):
            of = units(counts)
            share = factor * limit[of.location]
            for r in np.flatnonzero(counts.case):
                rate = rng.beta(m * share, m * (1 - share))
                of.alt_reads[:, r] = rng.binomial(of.depth[:, r], rate)
            log_m0, log_m1, _ = model.e_step(model.anchored(q), model.table(model.anchored(q), of))
            called.append(log_m1 - log_m0 >= least)
        assert low <= np.mean(called) <= high


def part_of(pos, limit, reads, contig="chr1"):
    """Return the limits, counts and places of a partition: a case's reads, a control's of half."""
    counts = np.zeros((len(pos), 2, 4), np.int64)
    counts[:, 0, 0], counts[:, 1, 0] = reads, np.array(reads) // 2
    batch = Counts(counts, np.zeros(len(pos), np.int64), np.array([True, False]))
    loci = Loci(np.array([contig] * len(pos)), np.array(pos), None, None, None)
    return np.array(limit), batch, loci


def test_regions_that_are_not_callable_are_named_and_joined_over_partitions():
    first = part_of([1, 2, 3, 5, 6], [0.3, 0.2, 0.01, 0.06, np.nan], [10, 20, 400, 80, 60])
    second = part_of([7, 8, 9], [0.07, 0.01, 0.08], [50, 500, 40])
    other = part_of([10], [0.5], [4], "chr2")
    parts = [detection.missed_regions(*own, 0.05, 10) for own in (first, second, other)]
    found = detection.join_missed(parts)
    assert [one.name for one in found] == ["chr1:1-2", "chr1:5-7", "chr1:9", "chr2:10"]
    assert [(one.case, one.control) for one in found] == [
        (Range(10, 20), Range(5, 10)), (Range(50, 80), Range(25, 40)),
        (Range(40, 40), Range(20, 20)), (Range(4, 4), Range(2, 2)),
    ]  # fmt: skip
    assert found[0].limit == Range(0.2, 0.3)
    assert found[1].limit == Range(0.06, None)
    assert detection.missed_regions(*first, 0.05, 1) == parts[0][:1]
    assert detection.missed_regions(*part_of([1], [0.01], [400]), 0.05, 10) == ()
    first[1].counts[1, 1, 2] = 3  # of the control, of another base
    assert detection.missed_regions(*first, 0.05, 10)[0].errors == 3


@pytest.mark.thorough
def test_a_run_leaves_a_table_and_a_bed(capsys, tmp_path):
    def carries(contig, reads, ref):
        reads[7, 0, ref[7]] -= 15
        reads[7, 0, (ref[7] + 1) % 4] += 15

    source = write_counts(tmp_path / "counts.parquet", contigs=("chr1",), change=carries)
    target = tmp_path / "out"
    succeed("variants", source, target, *QUICK, *options(callable_share=0.6))
    place, record = open_run(str(target))
    limits = pq.read_table(place.table("detection"))
    assert limits["pos"].to_pylist() == list(range(1, 41))
    callable_ = [r["limit"] is not None and r["limit"] <= 0.6 for r in limits.to_pylist()]
    with open(place.file("callable.bed")) as file:
        lines = [line.split() for line in file]
    assert sum(int(stop) - int(start) for _, start, stop in lines) == sum(callable_)
    assert record.results["cases"][0]["callable"] == sum(callable_) > 0
    run(capsys, "variants", source, tmp_path / "papers",
        *options(test="posterior_difference"))  # fmt: skip
    papers = open_run(str(tmp_path / "papers"))[0]
    assert not (tmp_path / "papers" / "runs" / papers.run_id / "callable.bed").exists()


def test_a_limit_is_that_of_the_locations_context():
    scenario = replace(SCENARIOS["af.005_400"], n_variants=1)
    counts, _ = simulate_scenario(np.random.default_rng(3), scenario, 12)
    counts = replace(counts, counts=np.repeat(counts.counts[:1], 12, axis=0),
                     ref=np.repeat(counts.ref[:1], 12), context=np.arange(12) % 3)  # fmt: skip
    model = BatchNull(types="trinucleotide")
    q = fitted_to(model, counts, 3)
    struck = np.zeros_like(q.of_context)
    struck[:, 1] = 2.5
    q = replace(q, of_context=struck)
    settings = VariantSettings()
    decision = decide(
        [summarise(bayes_factors(model, q, units(counts)))], q.pi, settings, refit=True
    )
    limit = limits_of(model, q, counts, decision, settings).reshape(4, 3)
    assert np.ptp(limit, axis=0).max() == 0.0
    assert limit[0, 0] == limit[0, 2]
    assert limit[0, 1] > 1.5 * limit[0, 0]


def test_quantiles_are_of_the_limits_themselves():
    limit = np.random.default_rng(0).choice([0.0089, 0.0126, 0.0606, np.nan], 299)
    parts = [detection.LimitCounts.of(part) for part in np.array_split(limit, 4)]
    merged = detection.LimitCounts.merge(parts)
    assert merged.locations == 299
    order = np.sort(limit)
    for level in (0.05, 0.5, 0.95):
        expected = order[int(np.ceil(level * 299)) - 1]
        assert merged.quantile(level) == (None if np.isnan(expected) else expected)
    assert detection.LimitCounts.of(np.full(3, np.nan)).quantile(0.5) is None
