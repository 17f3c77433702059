"""A table of categories as arrays: codes, and the binary decisions of stick-breaking.

A column with R categories becomes R - 1 binary units: unit r records, of the rows that reach
category r, which go on to a later one. With R = 2 that is the column itself. A missing
cell answers none of its column's units, so it is left out of the likelihood.

Which columns of a table are modelled as categories, and which hold something else.

Draws from the model, whose features are known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from vbmodels.core.state import BoolArray, FloatArray, IntArray, State, Stats
from vbmodels.tables.columns import (
    LEAST_DISTINCT,
    Reason,
    Rule,
    Unclear,
    looks_like_id,
    names_rows,
)
from vbmodels.tables.levels import Levels, match_levels
from vbmodels.tables.seen import Seen

MISSING = -1


@dataclass(frozen=True)
class FeatureBatch(State, kind="features.FeatureBatch"):
    """One partition: its distinct rows, each with how often it occurs.

    Parameters
    ----------
    codes
        [U, D] category of each cell, 0 the first in the stick-breaking order; -1 is missing.
    levels
        [D] number of categories R_d of each column, at least 2.
    sign
        [U, J] answer to each unit: +1 goes on, -1 stops here, 0 has no answer.
    count
        [U] occurrences of each distinct row, or the sum of their weights.
    row_of
        [N] distinct row of each row of the table.
    row_id
        [N] number of each row in the whole table: its random draws depend on it.
    """

    codes: NDArray[np.int16]
    levels: IntArray
    sign: NDArray[np.int8]
    count: FloatArray
    row_of: IntArray
    row_id: IntArray

    @property
    def n_rows(self) -> int:
        """N, rows of the table."""
        return len(self.row_of)

    @property
    def row_count(self) -> FloatArray:
        """[N] rows that each row counts for: its weight, and the mean one of equal rows."""
        equal = np.bincount(self.row_of, minlength=len(self.count))
        return (self.count / np.maximum(equal, 1))[self.row_of]

    @property
    def n_units(self) -> int:
        """J, binary units of all columns."""
        return int(self.sign.shape[1])


@dataclass(frozen=True)
class UnitCounts(Stats, kind="features.UnitCounts"):
    """What is needed before the first sweep: rows, and how often each unit was answered.

    Parameters
    ----------
    n_rows, drawn
        Rows as their weights count them, and as they are in the table.
    stop, go_on
        [J] rows that stop at a unit and rows that go on.
    """

    n_rows: float
    drawn: float
    stop: FloatArray
    go_on: FloatArray


def bearable(n_features: int, n_rows: float) -> int:
    """Return how many features so many rows can bear: fewer than rows, and one at least.

    >>> bearable(12, 300.0), bearable(12, 10.0), bearable(12, 1.0)
    (12, 9, 1)
    """
    return int(max(1, min(n_features, n_rows - 1)))


def unit_offsets(levels: IntArray) -> IntArray:
    """Return the first unit of each column and, last, their number J; [D + 1]."""
    return np.concatenate([[0], np.cumsum(np.asarray(levels) - 1)]).astype(np.int64)


def signs_of(codes: ArrayLike, levels: IntArray) -> NDArray[np.int8]:
    """Return the answers [N, J] to the units of all columns, 0 where a unit has none."""
    columns = np.repeat(np.arange(len(levels)), np.asarray(levels) - 1)
    unit = np.arange(columns.size) - unit_offsets(levels)[columns]
    codes = np.take(codes, columns, axis=1)
    went_on = (codes > unit).astype(np.int8) - (codes == unit).astype(np.int8)
    return np.where(codes < 0, np.int8(0), went_on)


def feature_batch(
    codes: ArrayLike,
    levels: ArrayLike,
    row_id: ArrayLike | None = None,
    *,
    grouped: bool = True,
    weight: ArrayLike | None = None,
) -> FeatureBatch:
    """Build one partition from codes [N, D].

    Parameters
    ----------
    codes
        [N, D] categories in stick-breaking order, -1 where missing.
    levels
        [D] number of categories of each column.
    row_id
        [N] number of each row in the whole table; by default 0 to N - 1.
    grouped
        Whether equal rows share one local step (the text's grouping).
    weight
        [N] how many rows each row counts for; by default 1.

    Raises
    ------
    ValueError
        If a code is outside of its column's categories or a column has fewer than two.

    Examples
    --------
    >>> batch = feature_batch([[0, 2], [0, 2], [1, -1]], [2, 3])
    >>> batch.sign.tolist(), batch.count.tolist()
    ([[-1, 1, 1], [1, 0, 0]], [2.0, 1.0])
    """
    table = np.ascontiguousarray(np.asarray(codes), dtype=np.int16)
    r = np.asarray(levels, dtype=np.int64)
    if table.ndim != 2 or table.shape[1] != len(r):
        raise ValueError(f"expected codes of shape [N, {len(r)}], got {table.shape}")
    if (r < 2).any():
        raise ValueError(f"column {int(np.argmax(r < 2))} has fewer than 2 categories: drop it")
    outside = (table < MISSING) | (table >= r)
    if outside.any():
        n, d = np.argwhere(outside)[0]
        raise ValueError(
            f"row {n}, column {d}: expected a code from -1 to {r[d] - 1}, found {table[n, d]}"
        )
    ids = np.arange(len(table)) if row_id is None else np.asarray(row_id)
    row_of = np.arange(len(table), dtype=np.int64)
    distinct = table
    if grouped and len(table):
        distinct, back = np.unique(table, axis=0, return_inverse=True)
        row_of = back.reshape(-1).astype(np.int64)
    weights = None if weight is None else np.asarray(weight)
    return FeatureBatch(
        codes=distinct,
        levels=r,
        sign=signs_of(distinct, r),
        count=np.bincount(row_of, weights, minlength=len(distinct)).astype(np.float64),
        row_of=row_of,
        row_id=ids.astype(np.int64),
    )


def unit_counts(batch: FeatureBatch) -> UnitCounts:
    """Count the answers to every unit."""
    return UnitCounts(
        n_rows=float(batch.count.sum()),
        drawn=float(batch.n_rows),
        stop=batch.count @ (batch.sign < 0),
        go_on=batch.count @ (batch.sign > 0),
    )


# Values of a column of numbers up to which they are codes.
FEW_VALUES = 20
# Rows a value, of more values, from which on they are codes.
FEW_ROWS = 20


def is_measured(seen: Seen, levels: Levels, rule: Rule) -> bool:
    """Say whether a column of numbers or dates has measurements, and no codes."""
    if rule.kind != "number":
        return rule.kind == "date"
    values = len(levels.counts)
    return levels.many or (values > FEW_VALUES and seen.cells < FEW_ROWS * values)


def why_measured(rule: Rule) -> Reason:
    """Return why a column of measurements is left out."""
    return Reason(
        "measured", f"{'dates' if rule.kind == 'date' else 'measurements'}, not categories"
    )


_SEVERAL_CODES = re.compile(r"\d+(\s*[,;|]\s*\d+)+\s*[,;|]?")


def take_codes(
    seen: Mapping[str, Seen],
    rules: Mapping[str, Rule],
    unclear: Mapping[str, Unclear],
    cut: bool = False,
) -> tuple[dict[str, Rule], dict[str, Unclear]]:
    """Return rules by which columns of codes and a few words are categories; see `rules_of`.

    Dates are left out, so that their order of day and month, or a cell that is none, is no matter
    unless they are ``cut`` into classes.
    """
    read = {}
    for name, one in unclear.items():
        codes = all(map(_SEVERAL_CODES.fullmatch, seen[name].odd)) or not seen[name].measured
        if one.mend and seen[name].numbers and codes:
            read[name] = Rule(remark=f"codes and words: {one.found}")
        elif not cut and 2 * max(seen[name].dates.values(), default=0) > seen[name].cells:
            read[name] = Rule("date")
    return {**rules, **read}, {name: one for name, one in unclear.items() if name not in read}


def why_left_out(
    name: str, rule: Rule, seen: Seen, levels: Levels, wanted: bool = False
) -> Reason | None:
    """Return why a column is left out before it is compared with others; None where it is not.

    Parameters
    ----------
    name, rule, seen, levels
        The column, how it is read, what it holds, and its categories.
    wanted
        Whether the user named it, so that it is none of ids or free text.
    """
    if not seen.cells:
        return Reason("other", "no cell")
    why = (
        names_rows(name, seen, len(levels.counts), rule.kind)
        or _names_rows_often(name, seen, levels, rule)
        or OF_SURVEYS.get(name.strip().lower())
    )
    if why and not wanted:
        return why
    if not wanted and rule.kind == "category" and not seen.declared and _is_free(name, levels):
        return Reason(
            "text", f"text: most of {len(levels.counts):,} different answers are given once"
        )
    if levels.many:
        is_category = rule.kind not in ("number", "date")
        return Reason("other", "more than 10,000 categories") if is_category else None
    return None if len(levels.counts) > 1 else Reason("other", "one category only")


OF_SURVEYS: Mapping[str, Reason] = dict.fromkeys(
    (
        *("lastpage", "startlanguage", "ipaddr", "refurl"),
        *("ipaddress", "distributionchannel", "userlanguage", "duration (in seconds)"),
        *("recipientfirstname", "recipientlastname", "recipientemail"),
        *("collector id", "ip address"),
        *("redcap_event_name", "redcap_repeat_instrument", "redcap_repeat_instance"),
    ),
    Reason("other", "how the answers came, not one of them (by its name)"),
)
"""Columns that LimeSurvey, Qualtrics, SurveyMonkey and REDCap add to the answers."""
# Rows a value, on average, up to which a column that is named like one of ids has ids.
FEW_EACH = 20


def _names_rows_often(name: str, seen: Seen, levels: Levels, rule: Rule) -> Reason | None:
    """Return why a column has ids of which some name several rows; None of any other."""
    if rule.kind in ("date", "yes or no") or (rule.kind == "number" and seen.fractions):
        return None
    distinct, most = len(levels.counts), max(levels.counts.values(), default=0)
    by_name = looks_like_id(name)
    if levels.many and by_name:
        return Reason("repeated ids", "repeated ids, by their name")
    if distinct < LEAST_DISTINCT:
        return None
    if by_name and seen.cells <= FEW_EACH * distinct:
        return Reason(
            "repeated ids",
            f"repeated ids, by their name: {distinct:,} different, each in at most {most:,} rows",
        )
    if rule.kind == "category" and not seen.declared and most <= 2:
        return Reason(
            "repeated ids", f"repeated ids: {distinct:,} different, each in at most 2 rows"
        )
    return None


_FREE_NAME = re.compile(
    r".*(comment|feedback|suggestion|specif|describe|explain|_text$|- text$|\[other\]|kommentar|"
    r"bemerkung|anmerkung|angeben|sonstige|vorschl|coment|sugerenc|especifi|observaci|"
    r"commentaire|remarque|pr[ée]cise|comment[io]|suggeriment|opmerking|toelichting|sugest).*",
    re.IGNORECASE | re.DOTALL,
)
# Words of an answer, on average of the different ones, from which on it is a sentence.
FREE_WORDS = 3
# Different answers of a column that is named like one of free text.
LEAST_FREE = 5


def _is_free(name: str, levels: Levels) -> bool:
    """Say whether a column of categories holds free text, of which some may be frequent."""
    different, once = len(levels.counts), [*levels.counts.values()].count(1)
    words = sum(len(text.split()) for text in levels.counts)
    named = different >= LEAST_FREE and bool(_FREE_NAME.fullmatch(name.strip()))
    long = different >= LEAST_DISTINCT and words >= FREE_WORDS * different
    return 2 * once >= different and (named or long)


_QUESTION = re.compile(
    r"(.*[ _.-])?(question|item|variable|measure|attribute|field|prompt|statement|indicator)s?"
    r"([ _.-]?(id|code|name|label|text|no|nr|number))?",
    re.IGNORECASE,
)
_ANSWER = re.compile(
    r"(.*[ _.-])?(response|answer|value|score|rating|reply)s?([ _.-]?(code|label|text))?",
    re.IGNORECASE,
)


_EVENTS = re.compile(
    r"redcap_(event_name|repeat_instrument)|event[ _]name|repeat[ _]instrument", re.I
)
"""Columns of REDCap that say which of a record's rows one is."""


def long_format(levels: Mapping[str, Levels], reasons: Mapping[str, Reason]) -> tuple[str, ...]:
    """Return the columns that say a table has one row an answer: ids, questions, answers.

    None where it is not so; an empty name where that column is not known.

    Parameters
    ----------
    levels
        Of every column, its categories.
    reasons
        Why some are left out.

    Examples
    --------
    >>> ids, answers = dict.fromkeys(map(str, range(50)), 2), {"yes": 60, "no": 40}
    >>> levels = {"person": ids, "item": {"a": 50, "b": 50}, "says": answers}
    >>> found = {name: Levels(counts, 0) for name, counts in levels.items()}
    >>> repeated = Reason("repeated ids", "repeated ids")
    >>> long_format(found, {"person": repeated}), long_format(found, {})
    (('person', 'item', 'says'), ())
    """
    ids = [n for n, why in reasons.items() if why.kind == "repeated ids" and levels[n].counts]
    kept = [name for name in levels if name not in reasons]
    for name, found in levels.items():
        if _EVENTS.fullmatch(name.strip()) and len(found.counts) + (found.missing > 0) > 1:
            records = (n for n, why in reasons.items() if why.kind in ("id", "repeated ids"))
            return next(records, ""), name, ""
    named = [name for name in levels if _QUESTION.fullmatch(name.strip())]
    answers = [name for name in kept if _ANSWER.fullmatch(name.strip())]
    questions = named or (kept if len(kept) == 2 else [])
    for question in questions:
        counts = levels[question].counts
        others = [name for name in answers or kept if name != question]
        if len(counts) < 2 or 2 * min(counts.values()) < max(counts.values()) or not others:
            continue
        answer = others[0] if answers or len(others) == 1 else ""
        for one in ids:
            rows = levels[one].counts
            each = max(rows.values()) <= len(counts) and max(counts.values()) <= len(rows)
            if one != question and each and 2 * sum(rows.values()) >= len(counts) * len(rows):
                return one, question, answer
        if not ids and named and answers:
            return "", question, answer
    return ()


# Cells of a column, none of a known category, that are refused: one alone may be a new one.
LEAST_FOREIGN = 2


def foreign_columns(
    given: Mapping[str, Mapping[str, int]], known: Mapping[str, Collection[str]]
) -> list[str]:
    """Return the columns of new rows that are written otherwise than the fit's: no cell is known.

    Parameters
    ----------
    given
        By column, how many cells have each category.
    known
        By column, the categories of the fit.

    Examples
    --------
    >>> fit = {"q0": ["Agree", "Disagree"], "q1": ["Agree", "Disagree"]}
    >>> foreign_columns({"q0": {"agree": 3}, "q1": {"4": 2, "5": 1}}, fit)
    ['q1']
    """
    cells = {name: sum(counts.values()) for name, counts in given.items()}
    strange = [name for name in given if cells[name] and not match_levels(given[name], known[name])]
    nothing = all(name in strange or not cells[name] for name in given)
    return [name for name in strange if nothing or cells[name] >= LEAST_FOREIGN]


def simulate_table(
    rng: np.random.Generator,
    n_rows: int,
    levels: IntArray,
    prevalence: FloatArray,
    weight_sd: float = 2.0,
    missing: float = 0.0,
) -> tuple[IntArray, BoolArray, FloatArray]:
    """Draw a table from the stick-breaking model.

    Returns
    -------
    codes, z, weights
        [N, D] categories with -1 where missing, [N, K] features, [J, K + 1] weights, bias first.
    """
    k, units = len(prevalence), int(np.sum(np.asarray(levels) - 1))
    z = rng.random((n_rows, k)) < prevalence
    weights = rng.normal(0.0, weight_sd, (units, k + 1))
    weights[:, 0] = rng.normal(-0.5, 1.0, units)
    psi = weights[:, 0] + z @ weights[:, 1:].T
    on = rng.random(psi.shape) < expit(psi)
    codes, first = np.zeros((n_rows, len(levels)), dtype=np.int64), 0
    for d, r in enumerate(levels):
        codes[:, d] = np.cumprod(on[:, first : first + int(r) - 1], axis=1).sum(1)
        first += int(r) - 1
    codes[rng.random(codes.shape) < missing] = -1
    return codes, z, weights
