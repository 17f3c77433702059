"""Variants of a case against a control, from base counts, as an estimator with a test.

It takes counts of reads, no table of numbers, and predicts no target: of scikit-learn's checks
those of parameters, cloning, storing and tags apply, and no others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vbmodels.core.options import option
from vbmodels.core.state import FloatArray
from vbmodels.estimators.base import Draws, LoopEstimator
from vbmodels.estimators.tables import cells_of, is_frame, is_missing, like, names_of, numbers_of
from vbmodels.variants.bases import BASES
from vbmodels.variants.batch import Counts, Units, units
from vbmodels.variants.batch_null import BatchNull
from vbmodels.variants.calls import MOST_LFDR, e_bh, local_fdr, prior_from_bayes_factors, q_values
from vbmodels.variants.options import CallOptions
from vbmodels.variants.posterior import rates
from vbmodels.variants.two_groups import BROAD, MIXTURE, TwoGroups

_CHUNK = 1000
_MOST_READS = int(np.iinfo(np.int32).max)
_KEYS = ("chrom", "pos", "ref", "sample", "replicate")


@dataclass(frozen=True)
class GivenCounts:
    """Counts that were read, with names of their locations and the table that they came in."""

    counts: Counts
    chrom: tuple[Any, ...]
    pos: tuple[Any, ...]
    kind: Any


@dataclass(eq=False, repr=False)
class VariantTester(CallOptions, LoopEstimator):
    """Which alleles are in the case's reads beyond errors (the two-groups test of ``variants``).

    Parameters
    ----------
    case, control
        Names of the samples in a table; control None: the germline test of the case alone.
    fdr
        Level of the false discovery rate of the calls. Alleles that are rather errors (local
        rate above 1/2) are never called.
    strict
        Whether to call by e-BH, valid under any dependence of the units.
    two_sided
        Whether an allele that is rarer in the case counts too.
    alternative
        "mixture" over the allele's share, or "broad": Beta(.1, .1) alone, which finds less.
    null
        "batch": case and control may differ in every substitution's error rate and a little at
        every site; "exchangeable": at random only. The germline test knows no other.
    types
        null "batch": by what the difference varies: "12" substitutions, "6" pairs with the
        complement, "1" for all.
    noise
        null "batch": "constant", one M at every rate, or "multiplicative": error rates of
        replicates below .002 differ by a factor, as PCR makes them.
    tol, max_iter, n_partitions, random_state, client
        See `vbmodels.estimators.experts.MixtureOfExperts`.

    Attributes
    ----------
    pi_
        P(H1) over all units of the fit.
    error_rates_
        Mean error rate by substitution type, [12]; the hyperparameters are point estimates.
    batch_factors_
        By how much the case's error rates are those of the control, [12]; 1 where the null is
        exchangeable.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> counts = np.zeros((60, 4, 4), int)  # locations, replicates, bases; all references are A
    >>> counts[:, :, 1:] = rng.binomial(1000, 0.0005, (60, 4, 3))
    >>> counts[7, :2, 2] = 50  # 5 % of G at one location, in the case's two replicates
    >>> counts[:, :, 0] = 1000 - counts[:, :, 1:].sum(axis=2)
    >>> ref, case = np.zeros(60, int), np.array([True, True, False, False])
    >>> found = VariantTester().fit(counts, ref=ref, case=case).test()
    >>> found["pos"][found["called"]].tolist(), found["alt"][found["called"]].tolist()
    ([7], ['G'])
    """

    case: str = option("case", "Name of the sample that is tested.")
    control: str | None = option("control", "Name of the sample it is compared with.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.input_tags.positive_only = True
        tags.no_validation = True
        return tags

    def fit(self, X: Any, y: Any = None, *, ref: Any = None, case: Any = None) -> Self:
        """Fit the error rates, and how often and how much alleles exceed them.

        Parameters
        ----------
        X
            Reads that show A, C, G, T, [locations, replicates, 4]; or a table with the columns
            chrom, pos, ref, sample, replicate, A, C, G, T.
        y
            Not used.
        ref
            Reference base of each location of an array, as text or as its place in ACGT.
        case
            Which replicates of an array are the case's, [replicates].

        Raises
        ------
        ValueError
            If a parameter is out of its range or counts are not what is expected.
        """
        self._validate_params()
        self._given = self._read(X, ref, case)
        sense = "either" if self.two_sided else "gain"
        alternatives = MIXTURE if self.alternative == "mixture" else (BROAD,)
        named: Any = "germline" if self._given.counts.case.all() else sense
        model: TwoGroups
        if self.null == "exchangeable" or named == "germline":
            model = TwoGroups(sense=named, alternatives=alternatives)
        else:
            growing = self.noise == "multiplicative"
            model = BatchNull(named, alternatives, types=self.types, growing=growing)
        counts = self._given.counts
        parts = np.array_split(np.arange(len(counts)), min(self.n_partitions, len(counts)))
        q = self._run(model, [counts.take(part) for part in parts])
        self.pi_ = prior_from_bayes_factors(self._scores(counts)[1])
        self.error_rates_ = q.a / (q.a + q.b)
        self.batch_factors_ = np.exp(getattr(q, "shift", np.zeros(len(q.a))))
        return self

    def test(self, X: Any = None, *, ref: Any = None, case: Any = None) -> Any:
        """Test every allele but the reference at every location.

        Parameters
        ----------
        X, ref, case
            Counts as for `fit`; None: those of the fit.

        Returns
        -------
        table
            In the kind of ``X`` (a structured array for arrays), three rows a location: chrom,
            pos, ref, alt, mean, sd and 95 % interval of both samples' rates, log_bayes_factor,
            prob, q_value, called.
        """
        check_is_fitted(self)
        given = self._given if X is None else self._read(X, ref, case)
        of, score = self._scores(given.counts)
        lfdr = local_fdr(score, self.pi_)
        q = q_values(lfdr)
        called = e_bh(score, self.fdr) if self.strict else (q <= self.fdr) & (lfdr <= MOST_LFDR)
        columns: dict[str, Any] = {
            "chrom": [given.chrom[j] for j in of.location],
            "pos": [given.pos[j] for j in of.location],
            "ref": [BASES[given.counts.ref[j]] for j in of.location],
            "alt": [BASES[a] for a in of.alt],
        }
        columns |= self._rates(of)
        columns |= {"log_bayes_factor": score, "prob": 1.0 - lfdr, "q_value": q, "called": called}
        return like(given.kind, columns, rows=False)

    def _scores(self, counts: Counts) -> tuple[Units, FloatArray]:
        at = self.model_.anchored(self.q_)
        scores = []
        for start in range(0, len(counts), _CHUNK):
            of = units(counts.take(slice(start, start + _CHUNK)))
            log_m0, log_m1, _ = self.model_.reweigh(at, self.model_.table(at, of))
            scores.append(log_m1 - log_m0)
        return units(counts), np.concatenate(scores)

    def _rates(self, of: Units) -> dict[str, FloatArray]:
        at = self.model_.anchored(replace(self.q_, pi=self.pi_))
        found: dict[str, list[FloatArray]] = {}
        for start in range(0, len(of), _CHUNK):
            some = of.take(slice(start, start + _CHUNK))
            for name, rate in zip(
                ("case", "control"),
                rates(self.model_, at, self.model_.table(at, some)),
                strict=True,
            ):
                for what, value in (
                    ("mean", rate.mean),
                    ("sd", rate.sd),
                    ("q025", rate.quantiles[:, 0]),
                    ("q975", rate.quantiles[:, 3]),
                ):
                    found.setdefault(f"{name}_{what}", []).append(value)
        return {name: np.concatenate(parts) for name, parts in found.items()}

    def _read(self, X: Any, ref: Any, case: Any) -> GivenCounts:
        if is_frame(X):
            return self._read_table(X)
        counts = np.asarray(X)
        if counts.ndim != 3 or counts.shape[2] != 4 or counts.dtype.kind not in "iu":
            raise ValueError(
                "expected whole numbers [locations, replicates, 4] or a table, got "
                f"{counts.dtype} {counts.shape}"
            )
        if ref is None or case is None:
            raise ValueError("expected ref and case beside an array of counts, got None")
        if not len(counts):
            raise ValueError("expected counts of at least one location, got none")
        if counts.size and counts.max() > _MOST_READS:
            raise ValueError(f"expected at most {_MOST_READS} reads of a base, got {counts.max()}")
        names = range(len(counts))
        of = Counts(counts.astype(np.int32), _references(ref, len(counts)), np.asarray(case, bool))
        return GivenCounts(of, ("",) * len(counts), tuple(names), None)

    def _read_table(self, table: Any) -> GivenCounts:
        missing = [n for n in (*_KEYS, *BASES) if n not in names_of(table)]
        if missing:
            raise ValueError(f"expected the columns {', '.join(missing)}, found none of that name")
        cells = {name: cells_of(table, name) for name in _KEYS}
        reads = numbers_of(table, list(BASES))
        wrong = ~((reads >= 0) & (reads <= _MOST_READS) & (reads == np.floor(reads)))
        if wrong.any():
            n, b = np.argwhere(wrong)[0]
            raise ValueError(
                f"expected a number of reads in row {n}, column {BASES[b]}, found {reads[n, b]}"
            )
        wanted = [self.case, *([self.control] if self.control is not None else [])]
        kept = [i for i, sample in enumerate(cells["sample"]) if sample in wanted]
        found = {cells["sample"][i] for i in kept}
        if found != set(wanted):
            raise ValueError(
                f"expected the samples {' and '.join(wanted)}, found "
                f"{', '.join(sorted(map(str, set(cells['sample'])))) or 'no row'}"
            )
        places = sorted({(cells["chrom"][i], cells["pos"][i]) for i in kept})
        columns = sorted({(cells["sample"][i], cells["replicate"][i]) for i in kept})
        at = {place: j for j, place in enumerate(places)}
        column = {name: r for r, name in enumerate(columns)}
        counts = np.zeros((len(places), len(columns), 4), np.int32)
        ref: list[Any] = [None] * len(places)
        seen: dict[tuple[int, int], int] = {}
        for i in kept:
            j = at[cells["chrom"][i], cells["pos"][i]]
            r = column[cells["sample"][i], cells["replicate"][i]]
            place = f"{cells['chrom'][i]}:{cells['pos'][i]}"
            if seen.setdefault((j, r), i) != i:
                raise ValueError(
                    f"expected one row a location and replicate, found rows {seen[j, r]} and {i} "
                    f"for {place}, {' '.join(map(str, columns[r]))}"
                )
            if ref[j] is not None and ref[j] != cells["ref"][i]:
                raise ValueError(
                    f"expected one reference base at {place}, found {ref[j]!r} and "
                    f"{cells['ref'][i]!r} (row {i})"
                )
            counts[j, r], ref[j] = reads[i], cells["ref"][i]
        case = np.array([sample == self.case for sample, _ in columns])
        chrom, pos = zip(*places, strict=True)
        return GivenCounts(Counts(counts, _references(ref, len(ref)), case), chrom, pos, table)

    def _draws(self, count: int, rng: np.random.Generator) -> Draws:
        raise NotImplementedError(
            "the hyperparameters of the two-groups test are point estimates and have no posterior "
            "draws; `test` gives the posterior of each rate"
        )


def _references(ref: Any, size: int) -> Any:
    """Return the place of each location's reference base in ACGT, -1 for what is no base.

    Raises
    ------
    ValueError
        If there is not one for each location, or one is a number but not in -1 to 3.
    """
    array = np.asarray(ref)
    if array.shape != (size,):
        raise ValueError(
            f"expected ref to have a base for each of {size} locations, got the shape {array.shape}"
        )
    given = ref if isinstance(ref, list) else array.tolist()
    found = np.array([_place(r) for r in given])
    wrong = np.flatnonzero((found < -1) | (found >= len(BASES)))
    if wrong.size:
        raise ValueError(
            f"expected places in ACGT (0 to 3, or -1 for none) in ref, got {given[wrong[0]]} "
            f"at location {wrong[0]}"
        )
    return found.astype(np.int8)


def _place(ref: Any) -> int:
    """Return the place in ACGT of a base; a number is a place already, or len(BASES) if none."""
    if isinstance(ref, Real) and not is_missing(ref):
        number = float(ref)
        return int(number) if number.is_integer() else len(BASES)
    base = str(ref).upper()
    return BASES.find(base) if len(base) == 1 else -1
