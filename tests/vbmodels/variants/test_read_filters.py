"""Filters of calls by their reads: what they take of true variants, and what of artefacts."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

from tests.vbmodels.variants.read_kinds import KINDS, draw_reads, summed
from vbmodels.variants.read_filters import (
    apply_filters,
    below_chance,
    more_than_chance,
    on_one_strand,
)

LEVEL = 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [4, 12, 200])
def test_a_true_variant_is_taken_no_more_often_than_the_level_says(kind, n):
    rng = np.random.default_rng(n)
    many = 2000
    own, of = (summed(draw_reads(rng, KINDS[kind], many, k)) for k in (n, 300))
    taken, z = apply_filters(own, of, LEVEL)
    assert set(taken) == {"read_end", "low_mapq", "low_baseq", "near_indel", "many_mismatches"}
    for name, which in taken.items():
        assert which.sum() <= binom.ppf(0.9999, many, LEVEL), name
    assert np.isfinite(z).all()
    assert abs(z.mean()) < 0.1
    many = 500
    strands = [rng.binomial(k, 0.5, many) for k in (300, n)]
    wrong = on_one_strand(strands[0], 300 - strands[0], strands[1], n - strands[1], LEVEL)
    assert wrong.sum() <= binom.ppf(0.9999, many, LEVEL)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("read_end", {"to_end": lambda v: v // 10}),
        ("low_mapq", {"mapping_quality": lambda v: np.full_like(v, 22)}),
        ("low_baseq", {"base_quality": lambda v: np.full_like(v, 21)}),
        ("near_indel", {"near_indel": lambda v: v * 0 + 1}),
        ("many_mismatches", {"mismatches": lambda v: v * 0 + 1}),
    ],
)
def test_an_artefact_is_taken_by_its_filter_alone(name, change):
    rng = np.random.default_rng(1)
    kind = KINDS["good"]
    reads = draw_reads(rng, kind, 20, 30)
    odd = {key: change.get(key, lambda v: v)(v) for key, v in reads.items()}
    taken, _ = apply_filters(summed(odd), summed(draw_reads(rng, kind, 20, 2000)), LEVEL)
    assert taken[name].all()
    assert not any(which.any() for other, which in taken.items() if other != name)


def test_reads_without_base_qualities_are_not_filtered_by_them():
    """Half of the reference's have none: the rest are as good as the allele's."""
    rng = np.random.default_rng(5)
    own, of = (summed(draw_reads(rng, KINDS["good"], 20, n)) for n in (30, 2000))
    assert not apply_filters(own, of, LEVEL)[0]["low_baseq"].any()
    known = summed(draw_reads(rng, KINDS["good"], 20, 15))
    half = replace(
        own, base_quality=known.base_quality, base_quality_2=known.base_quality_2,
        no_base_quality=own.n - 15,
    )  # fmt: skip
    assert not apply_filters(half, of, LEVEL)[0]["low_baseq"].any()
    as_if_given = replace(half, no_base_quality=own.n * 0)
    assert apply_filters(as_if_given, of, LEVEL)[0]["low_baseq"].all()
    low = replace(half, base_quality=known.base_quality // 2)
    assert apply_filters(low, of, LEVEL)[0]["low_baseq"].all()


def test_bennett_s_bound_holds_and_is_not_idle():
    """Qualities of which one in ten is 2: the mean of four is low far more often than z says."""
    rng = np.random.default_rng(3)
    values = np.where(rng.random((200_000, 4)) < 0.1, 2.0, 38.0)
    mean, variance = 0.1 * 2 + 0.9 * 38, 0.09 * 36.0**2
    ones = np.full(len(values), 10**9)
    bound = below_chance(ones * 0 + 4, ones, values.mean(axis=1), np.full(len(values), mean),
                         np.full(len(values), variance))  # fmt: skip
    for level in (0.2, 0.05, 0.01, 0.001):
        assert (bound < level).mean() <= level
    assert (bound < 0.05).any()


def test_more_than_chance_is_fisher_s_exact_test():
    x, n = np.array([0, 1, 3, 30]), np.array([5, 5, 40, 40])
    of_x, of = np.array([4, 0, 9, 100]), np.array([50, 9, 400, 300])
    expected = [
        fisher_exact([[a, b - a], [c, d - c]], alternative="greater").pvalue
        for a, b, c, d in zip(x, n, of_x, of, strict=True)
    ]
    assert np.allclose(more_than_chance(x, n, of_x, of), expected)
