"""Variants of a case against a control, from base counts, as an estimator with a test.

It takes counts of reads, no table of numbers, and predicts no target: of scikit-learn's checks
those of parameters, cloning, storing and tags apply, and no others.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from numbers import Real
from operator import add
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vbmodels.core.options import option
from vbmodels.core.state import BoolArray, FloatArray
from vbmodels.estimators.base import (
    STACKED,
    LoopEstimator,
    documented,
    frame,
    warn_of_names,
    without_weights,
)
from vbmodels.tables.frames import cells_of, is_frame, is_missing, like, names_of, numbers_of
from vbmodels.variants.calls import called, e_bh, local_fdr, prior_from_bayes_factors, q_values
from vbmodels.variants.counts import BASES, Counts, Units, units
from vbmodels.variants.options import CallOptions
from vbmodels.variants.two_groups.batch_errors import observed_information, standard_errors
from vbmodels.variants.two_groups.batch_null import BatchGlobal, BatchNull, names_of_types
from vbmodels.variants.two_groups.model import MIXTURE, TwoGroups
from vbmodels.variants.two_groups.posterior import rates, test_scores

KEYS = ("chrom", "pos", "ref", "sample", "replicate")
COLUMNS = (*KEYS, *BASES)
"""What is looked for in a table."""
_MOST_READS = int(np.iinfo(np.int32).max)


@dataclass(frozen=True)
class GivenCounts:
    """Counts that were read, with names of their locations and the table that they came in."""

    counts: Counts
    chrom: tuple[Any, ...]
    pos: tuple[Any, ...]
    kind: Any


def read_array(X: Any, ref: Any, case: Any) -> GivenCounts:
    """Read counts [locations, replicates, 4].

    Parameters
    ----------
    X
        Whole numbers.
    ref
        Reference base of each location, as text or as its place in ACGT; None: what most of the
        control's reads show, none where it has no read.
    case
        Which replicates are the case's.

    Raises
    ------
    ValueError
        Says what was expected and what was found.
    """
    counts = np.asarray(X)
    if counts.ndim != 3 or counts.shape[2] != 4 or counts.dtype.kind not in "iu":
        raise ValueError(
            "expected whole numbers [locations, replicates, 4] or a table, got "
            f"{counts.dtype} {counts.shape}"
        )
    if case is None:
        raise ValueError("expected case with an array of counts, got None")
    case = np.asarray(np.asarray(case).tolist())
    if case.dtype.kind not in "bif" or not np.isin(case, (0, 1)).all():
        raise ValueError(f"expected case as True and False, or 1 and 0, got {case.tolist()!r}")
    case = case.astype(bool)
    if case.shape != counts.shape[1:2]:
        raise ValueError(
            f"expected case to say of each of {counts.shape[1]} replicates whether it is the "
            f"case's, got the shape {case.shape}"
        )
    if not len(counts):
        raise ValueError("expected counts of at least one location, got none")
    if ref is None:
        if case.all():
            raise ValueError("expected ref with counts without a control, got None")
        reads = counts[:, ~case].sum(axis=1)
        ref = np.where(reads.any(axis=1), reads.argmax(axis=1), -1)
    if counts.size and counts.max() > _MOST_READS:
        raise ValueError(f"expected at most {_MOST_READS} reads of a base, got {counts.max()}")
    data = Counts(counts.astype(np.int32), _references(ref, len(counts)), case)
    return GivenCounts(data, ("",) * len(counts), tuple(range(len(counts))), None)


def read_table(table: Any, case: str, control: str | None) -> GivenCounts:
    """Read a table with a row a location, sample and replicate.

    Parameters
    ----------
    table
        `COLUMNS` are looked for.
    case, control
        Names of the samples.

    Raises
    ------
    ValueError
        Says what was expected and what was found.
    """
    missing = [n for n in (*KEYS, *BASES) if n not in names_of(table)]
    if missing:
        raise ValueError(f"expected the columns {', '.join(missing)}, found none of that name")
    cells = {name: cells_of(table, name) for name in KEYS}
    for name in ("chrom", "pos"):
        if None in cells[name]:
            raise ValueError(f"expected a {name} in row {cells[name].index(None)}, found none")
    reads = numbers_of(table, list(BASES))
    wrong = ~((reads >= 0) & (reads <= _MOST_READS) & (reads == np.floor(reads)))
    if wrong.any():
        n, b = np.argwhere(wrong)[0]
        raise ValueError(
            f"expected a number of reads in row {n}, column {BASES[b]}, found {reads[n, b]}"
        )
    wanted = [case, *([control] if control is not None else [])]
    rows = [i for i, sample in enumerate(cells["sample"]) if sample in wanted]
    samples = {cells["sample"][i] for i in rows}
    if samples != set(wanted):
        raise ValueError(
            f"expected the samples {' and '.join(wanted)}, found "
            f"{', '.join(sorted(map(str, set(cells['sample'])))) or 'no row'}"
        )
    places = sorted({(cells["chrom"][i], cells["pos"][i]) for i in rows}, key=_order)
    columns = sorted({(cells["sample"][i], cells["replicate"][i]) for i in rows}, key=_order)
    number_of = {location: j for j, location in enumerate(places)}
    column = {name: r for r, name in enumerate(columns)}
    counts = np.zeros((len(places), len(columns), 4), np.int32)
    ref: list[Any] = [None] * len(places)
    seen: dict[tuple[int, int], int] = {}
    for i in rows:
        j = number_of[cells["chrom"][i], cells["pos"][i]]
        r = column[cells["sample"][i], cells["replicate"][i]]
        location = f"{cells['chrom'][i]}:{cells['pos'][i]}"
        if seen.setdefault((j, r), i) != i:
            raise ValueError(
                f"expected one row a location and replicate, found rows {seen[j, r]} and {i} "
                f"for {location}, {' '.join(map(str, columns[r]))}"
            )
        if ref[j] is not None and ref[j] != cells["ref"][i]:
            raise ValueError(
                f"expected one reference base at {location}, found {ref[j]!r} and "
                f"{cells['ref'][i]!r} (row {i})"
            )
        counts[j, r], ref[j] = reads[i], cells["ref"][i]
    of_case = np.array([sample == case for sample, _ in columns])
    chrom, pos = zip(*places, strict=True)
    return GivenCounts(Counts(counts, _references(ref, len(ref)), of_case), chrom, pos, table)


def _order(cells: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return what cells are sorted by: text and numbers, as of contigs 1 and X, do not compare."""
    return [(type(cell).__name__, cell) for cell in cells]


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
    cells = ref if isinstance(ref, list) else array.tolist()
    codes = np.array([_place(r) for r in cells])
    wrong = np.flatnonzero((codes < -1) | (codes >= len(BASES)))
    if wrong.size:
        raise ValueError(
            f"expected places in ACGT (0 to 3, or -1 for none) in ref, got {cells[wrong[0]]} "
            f"at location {wrong[0]}"
        )
    return codes.astype(np.int8)


def _place(ref: Any) -> int:
    """Return the place in ACGT of a base; a number is a place already, or len(BASES) if none."""
    if isinstance(ref, Real) and not is_missing(ref):
        number = float(ref)
        return int(number) if number.is_integer() else len(BASES)
    base = str(ref).upper()
    return BASES.find(base) if len(base) == 1 else -1


_CHUNK = 1000


@documented
@dataclass(eq=False, repr=False)
class VariantTester(CallOptions, LoopEstimator):
    """Which alleles are in the case's reads beyond errors (the two-groups test of ``variants``).

    Attributes
    ----------
    pi_
        P(H1) over all units of the fit.
    substitutions_
        Data frame of the error rates, a row each of the twelve substitutions: substitution,
        error_rate (the mean) and batch_factor (the case's errors over the control's; 1 without a
        control) with its 95 % interval.

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
    control: str | None = option(
        "control", "Name of the sample it is compared with; None: the germline test."
    )

    input_kinds: ClassVar[Mapping[str, bool]] = {**STACKED, "positive_only": True}

    @without_weights("the model weighs reads itself, by depth and overdispersion")
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
            Reference base of each location of an array, as text or as its place in ACGT; None:
            what most of the control's reads show there.
        case
            Which replicates of an array are the case's, [replicates].

        Raises
        ------
        ValueError
            If a parameter is out of its range or counts are not what is expected.
        """
        self._validate_params()
        self._given = self._read(X, ref, case)
        model: TwoGroups = BatchNull("either" if self.two_sided else "gain", MIXTURE)
        if self._given.counts.case.all():
            model = TwoGroups("germline", MIXTURE)
        counts = self._given.counts
        parts = np.array_split(np.arange(len(counts)), min(self.n_partitions, len(counts)))
        self._run(model, [counts.take(part) for part in parts])
        if isinstance(model, BatchNull):
            information = (
                observed_information(model, self.q_, counts.take(part)) for part in parts
            )
            self.q_ = replace(self.q_, errors=standard_errors(reduce(add, information)))
        _, score, alone = self._scores(counts)
        self.pi_ = self.q_.pi if alone.all() else prior_from_bayes_factors(score[~alone])
        if is_frame(X):
            warn_of_names(X, COLUMNS, "base counts", 4)
        return self

    @property
    def substitutions_(self) -> Any:
        """The error rates by name."""
        check_is_fitted(self)
        shift = error = np.zeros(len(self.q_.a))
        if isinstance(self.q_, BatchGlobal) and self.q_.errors is not None:
            shift, error = self.q_.shift, self.q_.errors.of_type
        return frame(
            {
                "substitution": names_of_types(),
                "error_rate": self.q_.a / (self.q_.a + self.q_.b),
                "batch_factor": np.exp(shift),
                "batch_factor_q025": np.exp(shift - 1.96 * error),
                "batch_factor_q975": np.exp(shift + 1.96 * error),
            }
        )

    def _found(self) -> str:
        _, alleles, _, _, _, called = self._tested(None, None, None)
        rates = self.q_.a / (self.q_.a + self.q_.b)
        return (
            f"{int(called.sum())} of {len(alleles)} alleles called at a false discovery rate of "
            f"{self.fdr:g}; error rates {rates.min():.2g} to {rates.max():.2g}, by substitution."
        )

    def _compared(self, X: Any, y: Any) -> str:
        mean, fit = self.score(X), self.elbo_ / max(len(units(self._given.counts)), 1)
        return f"Mean log marginal likelihood of an allele: {mean:.4g}, in the fit {fit:.4g}."

    def test(self, X: Any = None, *, ref: Any = None, case: Any = None) -> Any:
        """Test every allele but the reference at every location.

        Parameters
        ----------
        X, ref, case
            Counts as for `fit`; None: those of the fit, ``case`` alone: the fit's replicates.

        Returns
        -------
        table
            In the kind of ``X`` (a structured array for arrays), three rows a location: chrom,
            pos, ref, alt, mean, sd and 95 % interval of both samples' rates, log_bayes_factor,
            prob, q_value, called.
        """
        data, alleles, score, lfdr, q, called = self._tested(X, ref, case)
        columns: dict[str, Any] = {
            "chrom": [data.chrom[j] for j in alleles.location],
            "pos": [data.pos[j] for j in alleles.location],
            "ref": [BASES[data.counts.ref[j]] for j in alleles.location],
            "alt": [BASES[a] for a in alleles.alt],
        }
        columns |= self._rates(alleles)
        columns |= {"log_bayes_factor": score, "prob": 1.0 - lfdr, "q_value": q, "called": called}
        return like(data.kind, columns, rows=False)

    def predict(self, X: Any, *, ref: Any = None, case: Any = None) -> Any:
        """Return whether an allele is called at the location of each row.

        Calls are among the locations of ``X`` alone, so new ones may be tested in folds: of an
        array [locations, ...] any fold will do, of a table one that keeps a location's rows
        together (``GroupKFold`` by position).

        Parameters
        ----------
        X, ref, case
            As for `test`.

        Returns
        -------
        called
            [locations] of an array, [rows] of a table; False where the row's sample is neither
            the case nor the control.
        """
        data, alleles, *_, called = self._tested(X, ref, case)
        is_called = np.zeros(len(data.counts), bool)
        is_called[alleles.location[called]] = True
        if data.kind is None:
            return is_called
        calls = dict(zip(zip(data.chrom, data.pos, strict=True), is_called.tolist(), strict=True))
        wanted = (self.case, self.control)
        rows = zip(*(cells_of(data.kind, name) for name in ("chrom", "pos", "sample")), strict=True)
        return np.array([sample in wanted and calls[c, p] for c, p, sample in rows], bool)

    def score(self, X: Any, y: Any = None, *, ref: Any = None, case: Any = None) -> float:
        """Return the mean log marginal likelihood of an allele's counts, given the fit.

        It is what the fit raises, so on new locations it compares models.

        Parameters
        ----------
        X, ref, case
            As for `test`.
        y
            Not used.
        """
        check_is_fitted(self)
        counts = self._new(X, ref, case).counts
        anchored = self.model_.anchored(self.q_)
        bound, size = 0.0, 0.0
        for start in range(0, len(counts), _CHUNK):
            alleles = units(counts.take(slice(start, start + _CHUNK)))
            sums = self.model_.e_step(anchored, self.model_.table(anchored, alleles))[2]
            bound, size = bound + sums.bound, size + sums.units
        return bound / size

    def _tested(
        self, X: Any, ref: Any, case: Any
    ) -> tuple[GivenCounts, Units, FloatArray, FloatArray, FloatArray, Any]:
        """Return counts, units, log Bayes factors, local false discovery rates, q, calls."""
        check_is_fitted(self)
        given = X is None and ref is None and case is None
        data = self._given if given else self._new(X, ref, case)
        alleles, score, alone = self._scores(data.counts)
        lfdr = local_fdr(score, self.pi_)
        # An allele without reads of the control goes by its own rate, apart from all others.
        q, chosen = lfdr.copy(), lfdr <= self.fdr
        q[~alone] = q_values(lfdr[~alone])
        if self.e_bh:
            chosen[~alone] = e_bh(score[~alone], self.fdr)
        else:
            chosen[~alone] = called(lfdr[~alone], self.fdr)
        return data, alleles, score, lfdr, q, chosen

    def _scores(self, counts: Counts) -> tuple[Units, FloatArray, BoolArray]:
        alleles = units(counts)
        return alleles, *test_scores(self.model_, self.q_, alleles)

    def _rates(self, alleles: Units) -> dict[str, FloatArray]:
        anchored = self.model_.anchored(replace(self.q_, pi=self.pi_))
        columns: dict[str, list[FloatArray]] = {}
        for start in range(0, len(alleles), _CHUNK):
            chunk = alleles.take(slice(start, start + _CHUNK))
            for name, rate in zip(
                ("case", "control"),
                rates(self.model_, anchored, self.model_.rate_table(anchored, chunk)),
                strict=True,
            ):
                for what, value in (
                    ("mean", rate.mean),
                    ("sd", rate.sd),
                    ("q025", rate.quantiles[:, 0]),
                    ("q975", rate.quantiles[:, 3]),
                ):
                    columns.setdefault(f"{name}_{what}", []).append(value)
        return {name: np.concatenate(parts) for name, parts in columns.items()}

    def _new(self, X: Any, ref: Any, case: Any) -> GivenCounts:
        return self._read(X, ref, self._given.counts.case if case is None else case)

    def _read(self, X: Any, ref: Any, case: Any) -> GivenCounts:
        data = read_table(X, self.case, self.control) if is_frame(X) else read_array(X, ref, case)
        counts = data.counts
        if not counts.counts[:, counts.case].any():
            raise ValueError(f"expected reads of the case, found none at {len(counts)} locations")
        if (counts.ref < 0).all():
            raise ValueError(f"expected A, C, G or T as ref, found none at {len(counts)} locations")
        without = int((~counts.counts[:, ~counts.case].any(axis=(1, 2))).sum())
        if without and not counts.case.all():
            warnings.warn(
                f"the control has no reads at {without} of {len(counts)} locations; there the case "
                "alone is tested",
                stacklevel=3,
            )
        return data
