"""Filters on calls: is the surplus concentrated on one allele, does it sit on one strand?"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc

from vbmodels.core.state import FloatArray, IntArray

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


def control_spectrum(counts: IntArray, pseudo: float = 1.0) -> FloatArray:
    """Return the shares of the three alleles in a control, shrunk to their overall shares.

    Parameters
    ----------
    counts
        [J, N, 3] reads of the alleles that are not the reference.
    pseudo
        Weight of the overall shares, in reads a third.
    """
    by_location = counts.sum(axis=1).astype(float)
    overall = by_location.sum(axis=0) + 1.0
    overall /= overall.sum()
    shrunk = by_location + 3.0 * pseudo * overall
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
    smoothed = np.log(tables + 0.5)
    return p, np.asarray(smoothed @ np.array([1.0, -1.0, -1.0, 1.0]))
