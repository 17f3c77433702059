"""Filters on calls by the reads of an allele: ends, qualities, indels, strands, other alleles.

The reads of a true variant are, but for the variant, like the reads that show the reference at the
same location. Each filter is a test whether the allele's reads differ from those, by an effect that
matters and by more than chance: it takes a true variant with a probability of at most its level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaincc, ndtri

from vbmodels.core.state import BoolArray, FloatArray, IntArray

LAMBDA = 2.0 / 3.0


def cressie_read(counts: FloatArray, expected: FloatArray) -> FloatArray:
    """Return the power divergence of lambda = 2/3 between counts and their expectation, [...].

    2 / (lambda (lambda + 1)) sum O [(O / E)^lambda - 1]: 0 where there are no counts.
    """
    ratio = np.where(counts > 0, counts, 0.0) / expected
    terms = counts * (ratio**LAMBDA - 1.0)
    return np.asarray(np.maximum(2.0 / (LAMBDA * (LAMBDA + 1.0)) * terms.sum(axis=-1), 0.0))


def spectrum_p_value(counts: IntArray, spectrum: FloatArray | None = None) -> FloatArray:
    """Return the p-value that errors are spread over the three alleles as usual; [J].

    Every replicate's Cressie-Read statistic has 2 degrees of freedom, so minus twice the log
    of its p-value is the statistic itself, and Fisher's combination adds them up. A replicate
    without errors has p = 1 and adds nothing. A small p says: one allele stands out.

    Parameters
    ----------
    counts
        [J, N, 3] reads of the three alleles that are not the reference.
    spectrum
        [J, 3] expected shares, from a control; uniform by default, which plain errors fail at
        high depth, because real spectra are not uniform.
    """
    shares = np.full((len(counts), 3), 1.0 / 3.0) if spectrum is None else spectrum
    total = counts.sum(axis=2, keepdims=True)
    expected = np.maximum(total, 1) * shares[:, None, :]
    statistic = cressie_read(counts.astype(float), expected)
    used = total[:, :, 0] > 0
    # chi^2 with 2 degrees: p = exp(-x/2), so -2 log p = x; the sum has 2 per replicate used.
    degrees = 2.0 * used.sum(axis=1)
    combined = np.where(used, statistic, 0.0).sum(axis=1)
    p = gammaincc(np.maximum(degrees, 1.0) / 2.0, combined / 2.0)
    return np.asarray(np.where(degrees > 0, p, 1.0))


def control_spectrum(counts: IntArray) -> FloatArray:
    """Return the shares of the three alleles in a control, shrunk to their overall shares.

    Parameters
    ----------
    counts
        [J, N, 3] reads of the alleles that are not the reference.
    """
    by_location = counts.sum(axis=1).astype(float)
    overall = by_location.sum(axis=0) + 1.0
    overall /= overall.sum()
    shrunk = by_location + 3.0 * overall
    return np.asarray(shrunk / shrunk.sum(axis=1, keepdims=True))


def strand_bias(
    ref_forward: IntArray, ref_reverse: IntArray, alt_forward: IntArray, alt_reverse: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return Fisher's exact p-value and the log odds ratio (with 1/2 added) of strand by allele.

    Parameters
    ----------
    ref_forward, ref_reverse, alt_forward, alt_reverse
        [C] reads of the calls, summed over the replicates of the case.
    """
    tables = np.stack([ref_forward, ref_reverse, alt_forward, alt_reverse], axis=1)
    from scipy.stats import fisher_exact

    p = np.array([fisher_exact(row.reshape(2, 2)).pvalue for row in tables], dtype=float)
    return p, np.asarray(np.log(tables + 0.5) @ np.array([1.0, -1.0, -1.0, 1.0]))


LEAST_READS = 4  # of an allele; fewer are not tested
LEAST_REFERENCE = 20  # reads that an allele's are compared with
ODDS = 3.0  # of strands


@dataclass(frozen=True)
class AlleleReads:
    """Sums over the reads of C alleles, each [C].

    Attributes
    ----------
    n
        Number of reads.
    base_quality, mapping_quality, to_end
        Sums, and ``_2`` their squares: Phred-scaled qualities, and the distance to the nearest
        end of the read in bases.
    near_indel, many_mismatches
        Reads with an indel near the base, with several mismatches near it.
    no_base_quality
        Reads without base qualities: they are in no sum of these, and not tested by them.
    """

    n: IntArray
    base_quality: IntArray
    base_quality_2: IntArray
    mapping_quality: IntArray
    mapping_quality_2: IntArray
    to_end: IntArray
    to_end_2: IntArray
    near_indel: IntArray
    many_mismatches: IntArray
    no_base_quality: IntArray


def z_of_means(
    n: IntArray, total: IntArray, of_n: IntArray, of_total: IntArray, of_squares: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return mean and mean of the reference, its variance and z = (difference) / se, each [C].

    The variance is the reference's, to which one read of value 0 is added, so that few reads that
    happen to be alike do not make it small. se^2 = variance (1/n + 1/n_reference).
    """
    count, of_count = np.maximum(n, 1), np.maximum(of_n, 1)
    mean, expected = total / count, of_total / of_count
    variance = np.maximum((of_squares + 0.0) / of_count - expected**2, 0.0) + expected**2 / (
        of_count + 1.0
    )
    variance = np.maximum(variance, 0.25)
    z = (mean - expected) / np.sqrt(variance * (1.0 / count + 1.0 / of_count))
    return mean, expected, variance, z


def below_chance(
    n: IntArray, of_n: IntArray, mean: FloatArray, expected: FloatArray, variance: FloatArray
) -> FloatArray:
    """Bound the probability of a mean as low as this, for values of at least 0; [C].

    Bennett's inequality, P(expected - mean >= t) <= exp(-n v / b^2 h(b t / v)) with
    h(u) = (1 + u) log(1 + u) - u, for n independent values of variance v that lie at most
    b = expected below their mean (Boucheron, Lugosi and Massart 2013, theorem 2.9); n is that of
    both means together. It holds for few reads and skewed qualities, where a normal tail does not.
    """
    together = 1.0 / (1.0 / np.maximum(n, 1) + 1.0 / np.maximum(of_n, 1))
    room = np.maximum(expected, 1.0)
    u = room * np.maximum(expected - mean, 0.0) / variance
    h = (1.0 + u) * np.log1p(u) - u
    return np.asarray(np.exp(-together * variance / room**2 * h))


def more_than_chance(x: IntArray, n: IntArray, of_x: IntArray, of_n: IntArray) -> FloatArray:
    """Return the probability of x or more of n, given x + of_x of n + of in all; [C].

    The hypergeometric tail, Fisher's exact test in one direction: its level holds at any numbers.
    """
    from scipy.stats import hypergeom

    return np.asarray(hypergeom.sf(x - 1, n + of_n, x + of_x, n))


def apply_filters(
    allele: AlleleReads, reference: AlleleReads, level: float
) -> tuple[dict[str, BoolArray], FloatArray]:
    """Say which alleles the filters of reads take, but for that of strands.

    Parameters
    ----------
    allele
        Reads of the alleles.
    reference
        Reads of the reference that each is compared with.
    level
        Largest probability with which a filter takes a true variant.

    Returns
    -------
    taken
        By the filter's name, [C].
    z
        [C] z of the distance to the read's end; NaN where there is nothing to compare.
    """
    enough = (allele.n >= LEAST_READS) & (reference.n >= LEAST_REFERENCE)
    taken = {}
    limit = ndtri(level)
    read_end = np.full(len(allele.n), np.nan)
    for name, key in (
        ("read_end", "to_end"),
        ("low_mapq", "mapping_quality"),
        ("low_baseq", "base_quality"),
    ):
        n, of_n = allele.n, reference.n
        if name == "low_baseq":
            n, of_n = n - allele.no_base_quality, of_n - reference.no_base_quality
        tested = (n >= LEAST_READS) & (of_n >= LEAST_REFERENCE)
        mean, expected, variance, z = z_of_means(
            n, getattr(allele, key), of_n, getattr(reference, key), getattr(reference, f"{key}_2")
        )
        chance = below_chance(n, of_n, mean, expected, variance)
        matters = {
            "read_end": mean < 0.5 * expected,
            "low_mapq": expected - mean > 10.0,
            "low_baseq": expected - mean > 5.0,
        }[name]
        taken[name] = tested & matters & (z < limit) & (chance < level)
        if name == "read_end":
            read_end = np.where(enough, z, np.nan)
    for name, least in (("near_indel", 0.2), ("many_mismatches", 0.3)):
        x, of_x = getattr(allele, name), getattr(reference, name)
        share, expected = x / np.maximum(allele.n, 1), of_x / np.maximum(reference.n, 1)
        matters = (share > least) & (share > 2.0 * expected + 0.02)
        taken[name] = enough & matters & (more_than_chance(x, allele.n, of_x, reference.n) < level)
    return taken, read_end


def on_one_strand(
    ref_forward: IntArray,
    ref_reverse: IntArray,
    alt_forward: IntArray,
    alt_reverse: IntArray,
    level: float,
) -> BoolArray:
    """Say which alleles lie on one strand more than the reference does, [C]: Fisher's test."""
    p, odds = strand_bias(ref_forward, ref_reverse, alt_forward, alt_reverse)
    tested = alt_forward + alt_reverse >= LEAST_READS
    return np.asarray(tested & (p < level) & (np.abs(odds) > np.log(ODDS)))
