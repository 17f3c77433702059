"""VBSS, the per-document model of chapter 1: semi-supervised keywords by variational Bayes.

For a document of n candidate words of which k are known keywords, y_i = 1 (section 1.2):

    z_i ~ N(a + b theta_i, 1);   y*_i = 1(z_i > 0);   P(y_i = 1 | y*_i) = (1 - alpha_i) y*_i
    theta ~ N(theta_0, sigma^2 U),  U = (B'B)^-1,  B = I - d Q,  theta_0 = scale B^-1 y
    a ~ N(0, var_a);  b ~ N(0, var_b);  1/sigma^2 ~ Gamma(tau, tau);  alpha ~ Beta

All parameters belong to one document, so under the common protocol a partition's local
state is everything and the global state only counts. See `coordinate_ascent` for the updates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vbmodels.core.state import FloatArray, State, Stats
from vbmodels.keywords.units import KeywordBatch
from vbmodels.keywords.vbss import coordinate_ascent as coordinate
from vbmodels.keywords.vbss.coordinate_ascent import Block, Factors, Form, Prior
from vbmodels.keywords.vbss.labels import latent_importance
from vbmodels.keywords.vbss.spectrum import spectra


@dataclass(frozen=True)
class DocumentCounts(State, kind="keywords/vbss.DocumentCounts"):
    """What VBSS keeps globally: counts only, as every parameter belongs to a document."""

    n_documents: int
    n_words: int
    n_observed: int


@dataclass(frozen=True)
class DocumentSums(Stats, kind="keywords/vbss.DocumentSums"):
    """What a partition of VBSS reports.

    Parameters
    ----------
    bound
        The documents' bounds, summed.
    n_documents, n_words, n_observed
        Counts.
    n_moving
        Documents that have not settled yet.
    expected
        Expected number of keywords, sum of r.
    """

    bound: float
    n_documents: int
    n_words: int
    n_observed: int
    n_moving: int
    expected: float


@dataclass(frozen=True)
class VBSS:
    """The per-document model under the protocol of `vbmodels.core.algorithm`.

    The text prints 1/U_ii in q(theta_i) where the model has P_ii; what that does is shown by
    ``reproduce/vbss_as_printed.py``.

    Parameters
    ----------
    form
        q(theta): ``full`` covariance or ``mean_field``.
    damping
        d, between 0 and 1.
    tau, var_a, var_b
        See `Prior`.
    alpha_prior
        Parameters of the Beta prior on alpha; (1, 1) is uniform.
    scale
        theta_0 = scale B^-1 y; None for 1 - d as in the text, which with var_b = 10 leaves
        the slope little room.
    sweeps
        Coordinate sweeps of a local step.
    accelerate
        Leap after every second of them, document by document, guarded by the bound; see
        `coordinate_ascent.cycle`.
    tolerance
        A document whose sweep moves less is settled and left alone from then on.
    max_words
        Most candidate words of one document: its eigenvectors take 8 n^2 bytes, n^3 time.

    Raises
    ------
    ValueError
        If an option is outside its range.
    """

    form: Form = "full"
    damping: float = 0.85
    tau: float = 0.1
    var_a: float = 10.0
    var_b: float = 10.0
    alpha_prior: tuple[float, float] = (1.0, 1.0)
    scale: float | None = None
    sweeps: int = 10
    accelerate: bool = True
    tolerance: float = 1e-10
    max_words: int = 5000

    def __post_init__(self) -> None:
        if self.form not in ("full", "mean_field"):
            raise ValueError(f"form must be full or mean_field, found {self.form!r}")
        if not 0.0 < self.damping < 1.0:
            raise ValueError(f"damping must lie between 0 and 1, found {self.damping}")
        if self.sweeps < 1:
            raise ValueError(f"sweeps must be at least 1, found {self.sweeps}")
        for name in ("tau", "var_a", "var_b"):
            if not getattr(self, name) > 0.0:
                raise ValueError(f"{name} must be positive, found {getattr(self, name)}")
        if not min(self.alpha_prior) > 0.0:
            raise ValueError(f"alpha_prior must be positive, found {self.alpha_prior}")

    @property
    def prior(self) -> Prior:
        """The hyperparameters."""
        return Prior(self.tau, self.var_a, self.var_b, *self.alpha_prior)

    def observe(self, batch: KeywordBatch) -> DocumentSums:
        """Count; refuse documents that are too large."""
        sizes = batch.sizes
        if len(sizes) and sizes.max() > self.max_words:
            raise ValueError(
                f"document {int(sizes.argmax())} of the partition has {int(sizes.max())} "
                f"candidate words; the per-document model takes at most {self.max_words}: "
                "raise min_count, or use the corpus model"
            )
        return DocumentSums(
            0.0, batch.n_documents, batch.n_words, int(batch.y.sum()), batch.n_documents, 0.0
        )

    def init(self, observed: DocumentSums, rng: np.random.Generator) -> DocumentCounts:
        """Return the counts; the start of every document is fixed, so ``rng`` is not used."""
        return DocumentCounts(observed.n_documents, observed.n_words, observed.n_observed)

    def local_step(self, q: DocumentCounts, batch: KeywordBatch, local: Factors | None) -> Factors:
        """Sweep ``sweeps`` times over every document that has not settled (Algorithm 1)."""
        parts = [
            self._advance(block, self._part(batch, block, local)) for block in self._blocks(batch)
        ]
        return coordinate.join(parts)

    def suff_stats(self, q: DocumentCounts, batch: KeywordBatch, local: Factors) -> DocumentSums:
        """Sum the documents' bounds."""
        return DocumentSums(
            bound=float(self.document_bounds(batch, local).sum()),
            n_documents=batch.n_documents,
            n_words=batch.n_words,
            n_observed=int(batch.y.sum()),
            n_moving=int((~local.settled).sum()),
            expected=float(self.probabilities(q, batch, local).sum()),
        )

    def global_step(self, q: DocumentCounts, stats: DocumentSums) -> DocumentCounts:
        """Return ``q``: nothing is shared between documents."""
        return q

    def elbo(self, q: DocumentCounts, stats: DocumentSums) -> float:
        """Return the sum of the documents' bounds."""
        return stats.bound

    def document_bounds(self, batch: KeywordBatch, local: Factors) -> FloatArray:
        """Return the bound of each document [D]."""
        parts = [
            coordinate.bound(block, self.prior, self._part(batch, block, local))
            for block in self._blocks(batch)
        ]
        return np.concatenate([np.empty(0), *parts])

    def probabilities(self, q: DocumentCounts, batch: KeywordBatch, local: Factors) -> FloatArray:
        """Return P(keyword | y) of each word under q [W]: r_i = q(z_i > 0), 1 if observed.

        Section 1.3.3, corrected. In a document whose keywords are all known it is y.
        """
        r = latent_importance(local.location, batch.y, local.log_c).keyword
        return np.where(batch.complete[batch.document_of_word], batch.y, r)

    def _blocks(self, batch: KeywordBatch) -> Iterator[Block]:
        scale = 1.0 - self.damping if self.scale is None else self.scale
        for spectrum in spectra(batch, self.damping):
            yield Block.of(batch, spectrum, scale, self.form)

    def _part(self, batch: KeywordBatch, block: Block, local: Factors | None) -> Factors:
        if local is None:
            return coordinate.start(block, self.prior)
        first, last = block.spectrum.first, block.spectrum.last
        words = slice(int(batch.offsets[first]), int(batch.offsets[last]))
        return coordinate.take(local, slice(first, last), words)

    def _advance(self, block: Block, f: Factors) -> Factors:
        if f.settled.all():
            return f
        cycles = (self.sweeps - 1) // 3 if self.accelerate else 0
        before = after = f
        for _ in range(self.sweeps - 3 * cycles):
            before, after = after, coordinate.sweep(block, self.prior, after)
        after = coordinate.mark_converged(block, before, after, self.tolerance)
        for _ in range(cycles):
            after = coordinate.cycle(block, self.prior, after, self.tolerance)
        return coordinate.choose(block, f.settled, f, after)
