"""VBSS as the dissertation prints it (chapter 1), with its errata.

Erratum of section 1.3.3: q(theta_i) has precision E[b^2] + lambda / U_ii where the model has
E[b^2] + lambda P_ii, and its mean leaves the other words out. That is no coordinate ascent: the
bound may fall, and E[1/sigma^2] and E[b] go to zero. Erratum of section 1.3.4: keywords are
ranked by p_i = Phi(E a + E b E theta_i), which forgets that the word was not observed.

The corrected forms are `vbmodels.keywords.vbss.model.VBSS`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from vbmodels.core.state import FloatArray
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss import coordinate_ascent as coordinate
from vbmodels.keywords.vbss.coordinate_ascent import Block, Factors, Prior
from vbmodels.keywords.vbss.labels import latent_importance
from vbmodels.keywords.vbss.model import VBSS, DocumentCounts
from vbmodels.keywords.vbss.spectrum import spectra

COLLAPSED = 1e-250
"""Least E[1/sigma^2], which shrinks by a factor at every sweep."""


@dataclass(frozen=True)
class PrintedBlock(Block):
    """Documents whose q(theta_i) has 1/U_ii in the place of P_ii."""

    @cached_property
    def stiffness(self) -> FloatArray:
        """[W] 1/U_ii."""
        inverse = np.empty(len(self.y))
        for d, n in enumerate(np.diff(self.offsets).tolist()):
            words = slice(self.offsets[d], self.offsets[d + 1])
            inverse[words] = 1.0 / (
                self.spectrum.axes(d, n) ** 2 @ self.spectrum.values[words] ** -2
            )
        return inverse


def sweep(block: Block, prior: Prior, f: Factors) -> Factors:
    """Update every factor once as printed (section 1.3.3), in the order of Algorithm 1."""
    doc, n = block.document, block.n
    precision, curvature = (prior.tau + 0.5 * n) / f.rate, f.b**2 + f.b_var
    location = f.a[doc] + f.b[doc] * f.theta
    log_c = coordinate._log_c(block, prior, f.hidden)
    importance = latent_importance(location, block.observed, log_c)
    z = importance.mean
    pull = precision[doc] * block.stiffness
    theta = (f.b[doc] * (z - f.a[doc]) + pull * block.theta0) / (curvature[doc] + pull)
    sum_theta, square, g = coordinate._theta_moments(
        block, curvature, precision, theta, block.to_axes(theta)
    )
    a_var = 1.0 / (n + 1.0 / prior.var_a)
    a = a_var * (block.total(z) - f.b * sum_theta)
    b_var = 1.0 / (square + 1.0 / prior.var_b)
    # Without an end the rate would leave the range of numbers.
    rate = np.minimum(prior.tau + g, (prior.tau + 0.5 * n) / COLLAPSED)
    return Factors(
        location=location,
        log_c=log_c,
        theta=theta,
        curvature=curvature,
        precision=precision,
        a=a,
        a_var=a_var,
        b=b_var * (block.total(theta * z) - a * sum_theta),
        b_var=b_var,
        rate=rate,
        hidden=block.total((1.0 - block.y) * importance.keyword),
        settled=f.settled,
        sweeps=f.sweeps + 1,
        stride=f.stride,
    )


@dataclass(frozen=True)
class PrintedVBSS(VBSS):
    """The printed algorithm under the same protocol; it stops as in section 1.3.4.

    A document has settled when the mean change of Phi(m) is small: its ln rate never is.
    """

    form: coordinate.Form = "mean_field"

    def probabilities(self, q: DocumentCounts, batch: KeywordBatch, local: Factors) -> FloatArray:
        """Return p_i = Phi(E a + E b E theta_i) [W]; section 1.3.3."""
        document = batch.document_of_word
        p = ndtr(local.a[document] + local.b[document] * local.theta)
        known: FloatArray = np.where(batch.complete[document], batch.y, p)
        return known

    def _blocks(self, batch: KeywordBatch) -> Iterator[Block]:
        for spectrum in spectra(batch, self.damping):
            yield PrintedBlock.of(batch, spectrum, 1.0 - self.damping, self.form)

    def _advance(self, block: Block, f: Factors) -> Factors:
        before = after = f
        for _ in range(self.sweeps):
            before, after = after, sweep(block, self.prior, after)
        moved = block.total(np.abs(ndtr(after.location) - ndtr(before.location))) / block.n
        after = replace(after, settled=after.settled | (moved <= self.tolerance))
        return coordinate.choose(block, f.settled, f, after)
