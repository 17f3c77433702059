"""How many keywords a document of n words has, and how many of them are listed.

Letters: D documents with n_d candidate words, K_d keywords and k_d listed ones; N = sum n_d;
pi the share of the words that are keywords.

    log mu_d   = g0 + g1 (log n_d - c)                          mu_d = E k_d in open documents
    log Kbar_d = log(pi N / sum_j n_j^kappa) + kappa log n_d    Kbar_d = E K_d, sum_d Kbar_d = pi N

g0 and g1 are fitted by quasi-Poisson regression (McCullagh and Nelder 1989, chapter 9) with
dispersion f. kappa, the length exponent, is known from g1 as far as annotators list a share of a
document's keywords, and not at all where they list a fixed number:

    w = odds/(1 + odds) f/(f + .03),   odds = N(g1; .45, .27^2) : N(g1; 0, .05^2 + se(g1)^2),
    kappa ~ N(w g1 + (1 - w) .45, max(.005, .25 (1 - w)^2)^2).

Five complete documents or more give it by their K_d. All of this comes from one table of the
corpus: documents by (n_d, k_d, kind), whose counts are whole numbers and add exactly.

Annotators of uneven zeal list another share in each document. Linear credibility (Buehlmann 1967)
then puts k~_d = mu_d + rho (k_d - mu_d), at least .02 mu_d, in the place of mu_d, with rho the
share of the variance of k_d beyond what thinning and the spread of K_d leave:

    rho = max{0, sum [(k - mu)^2 - mu (1 - m) - .13 mu^2] / sum (k - mu)^2},  m = sum k / (pi N).

The constants .45, .25, .27, .03 and .13 were measured on twelve corpora.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from vbmodels.core.state import FloatArray, IntArray, State, Stats
from vbmodels.keywords.units import KeywordBatch

OPEN, COMPLETE, UNLABELLED = 0, 1, 2
"""Kinds of documents: some keywords listed, all listed, nobody has looked."""

EXPONENT, EXPONENT_SD = 0.45, 0.25
"""kappa over corpora, where the labels do not show it."""
SLOPE_SD, FIXED_SD, LEAST_SD = 0.27, 0.05, 0.005
LITTLE_DISPERSION = 0.03
SPREAD_OF_NUMBERS = 0.13
"""Squared coefficient of variation of K_d among documents of one length."""
LEAST_CREDIBLE = 0.02
FEWEST_COMPLETE = 5
SLOPE_PRIOR = 1e-2
MOST_STEPS, MOST_HALVINGS = 100, 60
SETTLED = 1e-12


@dataclass(frozen=True)
class Lengths(Stats, kind="keywords.Lengths"):
    """Documents counted by length, listed keywords and kind: [U] each, sorted, no row twice."""

    n: IntArray
    k: IntArray
    kind: IntArray
    documents: IntArray

    @classmethod
    def of(cls, batch: KeywordBatch) -> Self:
        """Count a partition's documents."""
        kind = np.where(batch.complete, COMPLETE, OPEN)
        kind = np.where(batch.unseen, UNLABELLED, kind).astype(np.int64)
        return cls._counted(batch.sizes, batch.n_observed, kind, np.ones(len(kind), np.int64))

    @classmethod
    def _counted(cls, n: IntArray, k: IntArray, kind: IntArray, documents: IntArray) -> Self:
        rows, place = np.unique(np.column_stack([n, k, kind]), axis=0, return_inverse=True)
        total = np.zeros(len(rows), np.int64)
        np.add.at(total, place.ravel(), documents)
        n, k, kind = (np.ascontiguousarray(column, np.int64) for column in rows.T.reshape(3, -1))
        return cls(n, k, kind, total)

    def __add__(self, other: Self) -> Self:
        pairs = ((getattr(self, f), getattr(other, f)) for f in ("n", "k", "kind", "documents"))
        return self._counted(*(np.concatenate(pair) for pair in pairs))

    def of_kind(self, kind: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return n, k and the number of documents of one kind, [U'] each."""
        rows = self.kind == kind
        n, k, documents = (a[rows].astype(float) for a in (self.n, self.k, self.documents))
        return n, k, documents


@dataclass(frozen=True)
class Regression:
    """log mean = level + slope (log n - centre), with its dispersion and the slope's se."""

    level: float
    slope: float
    centre: float
    dispersion: float
    slope_se: float

    def mean(self, n: FloatArray) -> FloatArray:
        """Return the mean count of documents of n words."""
        return np.exp(self.level + self.slope * (np.log(n) - self.centre))


def quasi_poisson(
    n: FloatArray,
    count: FloatArray,
    documents: FloatArray,
    *,
    slope: float = EXPONENT,
    precision: float = SLOPE_PRIOR,
) -> Regression:
    """Regress counts on log n; the slope has the prior N(slope, 1 / precision).

    Without any count the mean is half a count in all documents together.
    """
    total, sized = documents.sum(), float(documents @ count)
    if not total:
        return Regression(-np.inf, slope, 0.0, 0.0, float("inf"))
    log_n = np.log(n)
    centre = float(documents @ log_n / total)
    away = log_n - centre
    level = float(np.log(max(sized, 0.5) / total))
    at = np.array([level, 0.0 if sized else slope])
    for _ in range(MOST_STEPS if sized else 0):
        mu = np.exp(at[0] + at[1] * away)
        weight, excess = documents * mu, documents * (count - mu)
        gradient = np.array([excess.sum(), excess @ away - precision * (at[1] - slope)])
        cross = weight @ away
        bend = np.array([[weight.sum(), cross], [cross, weight @ away**2 + precision]])
        step = np.linalg.solve(bend, gradient)
        value = _poisson(at, away, count, documents, slope, precision)
        least = value - 1e-12 * abs(value)
        for _ in range(MOST_HALVINGS):
            if _poisson(at + step, away, count, documents, slope, precision) >= least:
                break
            step = 0.5 * step
        at = at + step
        if np.abs(step).max() < SETTLED * max(1.0, float(np.abs(at).max())):
            break
    mu = np.exp(at[0] + at[1] * away)
    dispersion = float(documents @ ((count - mu) ** 2 / mu) / max(total - 2.0, 1.0))
    weight = documents * mu
    information = float(weight @ away**2 - (weight @ away) ** 2 / weight.sum()) + precision
    se = float(np.sqrt(max(dispersion, 0.0) / information)) if sized else 1.0 / np.sqrt(precision)
    return Regression(float(at[0]), float(at[1]), centre, dispersion, float(se))


def _poisson(
    at: FloatArray,
    away: FloatArray,
    count: FloatArray,
    documents: FloatArray,
    slope: float,
    precision: float,
) -> float:
    log_mu = at[0] + at[1] * away
    with np.errstate(over="ignore"):
        each = count * log_mu - np.exp(log_mu)
    return float(documents @ each) - 0.5 * precision * float(at[1] - slope) ** 2


@dataclass(frozen=True)
class CountLaw(State, kind="keywords.CountLaw"):
    """What the corpus says of numbers of keywords; see the module.

    Parameters
    ----------
    sizes, documents
        [U] distinct n_d, and how many documents have it.
    level, slope, centre
        g0, g1 and c of the listed keywords of open documents.
    exponent, exponent_sd
        Prior of kappa; an sd of 0 holds it.
    listed, open_words
        sum k_d and sum n_d over the open documents.
    squares, means, mean_squares
        sum (k - mu)^2, sum mu and sum mu^2 over them.
    complete_listed, complete_dispersion
        sum K_d of the complete documents, and the dispersion of K_d, at least 1.
    complete_sizes, complete_documents
        As ``sizes`` and ``documents``, of the complete documents alone.
    """

    sizes: FloatArray
    documents: FloatArray
    level: float
    slope: float
    centre: float
    exponent: float
    exponent_sd: float
    listed: float
    open_words: float
    squares: float
    means: float
    mean_squares: float
    complete_listed: float
    complete_dispersion: float
    complete_sizes: FloatArray
    complete_documents: FloatArray

    @classmethod
    def of(cls, lengths: Lengths, exponent: float | None) -> Self:
        """Fit the law; ``exponent`` is kappa where the user gives it."""
        n, k, documents = lengths.of_kind(OPEN)
        listed = quasi_poisson(n, k, documents)
        mu = listed.mean(n) if len(n) else n
        kappa, sd = exponent_prior(listed)
        whole_n, whole_k, whole = lengths.of_kind(COMPLETE)
        dispersion = 1.0
        if whole.sum() >= FEWEST_COMPLETE and whole_k.any():
            full = quasi_poisson(whole_n, whole_k, whole, slope=kappa, precision=sd**-2)
            dispersion = max(1.0, full.dispersion)
            full = quasi_poisson(
                whole_n, whole_k, whole, slope=kappa, precision=dispersion * sd**-2
            )
            kappa, sd = full.slope, LEAST_SD
        if exponent is not None:
            kappa, sd = exponent, 0.0
        sizes, place = np.unique(lengths.n, return_inverse=True)
        return cls(
            sizes=sizes.astype(float),
            documents=np.bincount(place, lengths.documents, len(sizes)).astype(float),
            level=listed.level if np.isfinite(listed.level) else 0.0,
            slope=listed.slope,
            centre=listed.centre,
            exponent=float(kappa),
            exponent_sd=float(sd),
            listed=float(documents @ k),
            open_words=float(documents @ n),
            squares=float(documents @ (k - mu) ** 2),
            means=float(documents @ mu),
            mean_squares=float(documents @ mu**2),
            complete_listed=float(whole @ whole_k),
            complete_dispersion=dispersion,
            complete_sizes=whole_n,
            complete_documents=whole,
        )

    @property
    def has_labels(self) -> bool:
        """Whether a keyword is listed, or a document is complete."""
        return bool(self.listed > 0.0 or self.complete_documents.sum())

    @property
    def dispersion(self) -> float:
        """Variance of the number of listed keywords by its mean, over the open documents."""
        return self.squares / self.means if self.means else 1.0

    @property
    def n_words(self) -> float:
        """N, the candidate words of all documents."""
        return float(self.documents @ self.sizes)

    def scale(self, kappa: float) -> tuple[float, float, float]:
        """Return log(N / sum n^kappa), mean and variance of log n weighted by n^kappa."""
        log_n = np.log(self.sizes)
        weight = self.documents * np.exp(kappa * log_n)
        total = float(weight.sum())
        centre = float(weight @ log_n) / total
        spread = float(weight @ (log_n - centre) ** 2) / total
        return float(np.log(self.n_words / total)), centre, spread

    def credibility(self, rate: float) -> float:
        """Return rho at the rate pi."""
        if not self.open_words:
            return 0.0
        seen = min(1.0, self.listed / (rate * self.open_words))
        expected = self.means * (1.0 - seen) + SPREAD_OF_NUMBERS * self.mean_squares
        return (self.squares - expected) / self.squares if self.squares > expected else 0.0

    def log_listed(self, n: IntArray, k: IntArray, rho: float) -> FloatArray:
        """Return log k~_d [D] of open documents of n words with k listed ones."""
        mu = np.exp(self.level + self.slope * (np.log(n) - self.centre))
        return np.asarray(np.log(np.maximum(mu + rho * (k - mu), LEAST_CREDIBLE * mu)))

    def complete_rate(self) -> tuple[float, float] | None:
        """Return log pi by the complete documents and its sd; None where there are none.

        The ratio estimator: sum K_d over the share of sum n^kappa that these documents have,
        over N. Half a keyword stands in where they have none.
        """
        if not self.complete_documents.sum():
            return None
        share = float(self.complete_documents @ self.complete_sizes**self.exponent)
        share /= float(self.documents @ self.sizes**self.exponent)
        found = max(self.complete_listed, 0.5)
        return (
            float(np.log(found / share / self.n_words)),
            float(np.sqrt(self.complete_dispersion / found)),
        )


def exponent_prior(listed: Regression) -> tuple[float, float]:
    """Return mean and sd of kappa from the regression of the listed keywords."""
    f, g = listed.dispersion, listed.slope
    share = _log_normal(g, EXPONENT, SLOPE_SD)
    fixed = _log_normal(g, 0.0, float(np.hypot(FIXED_SD, min(listed.slope_se, 1e3))))
    odds = 1.0 / (1.0 + np.exp(np.clip(fixed - share, -700.0, 700.0)))
    weight = float(odds * f / (f + LITTLE_DISPERSION))
    mean = weight * g + (1.0 - weight) * EXPONENT
    return mean, max(LEAST_SD, EXPONENT_SD * (1.0 - weight) ** 2)


def _log_normal(x: float, mean: float, sd: float) -> float:
    return -0.5 * ((x - mean) / sd) ** 2 - float(np.log(sd))
