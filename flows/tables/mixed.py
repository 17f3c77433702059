"""Columns as they come: numbers, text, dates or categories, by all of their cells.

What a column's cells are is counted piece by piece (`vbmodels.tables.seen.Seen`), with Arrow where
cells are as computers write them; the rule is that of `vbmodels.tables.columns.read_as`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flows.tables.cells import decoded, is_text
from vbmodels.core.state import BoolArray, FloatArray, IntArray
from vbmodels.tables import cells as rules
from vbmodels.tables.answers import has_answer
from vbmodels.tables.cells import DASH, MISSING, NOT_ASKED, PLUS, Order
from vbmodels.tables.columns import Rule
from vbmodels.tables.levels import DATE_CELL, NO, YES
from vbmodels.tables.seen import (
    BRACKET,
    COMMA_OR_GROUP,
    DECIMAL_COMMA,
    DECIMAL_POINT,
    DOT_OR_GROUP,
    IN_GROUPS,
    TRAILING,
    Seen,
    ends_in,
    seen_numbers,
)

NUMBER: Final = "number"
FLAG: Final = "yes or no"
CATEGORY: Final = "category"

_DAY = 86_400_000_000  # microseconds
_EXAMPLES = 5
_LOOKED = 64  # values that say whether numbers have a decimal point
_MOST_ORDERED = 100  # categories

Cells = pa.Array
"""Cells as `taken` gives them."""


def typed(cells: pa.Array) -> bool:
    """Say whether cells are numbers, and not text."""
    return bool(pa.types.is_floating(cells.type))


Where = Callable[[int], str]
"""Says where the row of a number, from 0, is."""


def parse(
    column: pa.ChunkedArray | pa.Array,
    missing: Sequence[str] = (),
    semicolons: bool = False,
    where: Where | None = None,
    not_asked: bool = False,
) -> tuple[pa.Array, Seen]:
    """Return a file's column as doubles or as text, and what it was seen to hold.

    Parameters
    ----------
    column
        Cells of a type that `flows.tables.reading.can_read` takes as they come.
    missing
        Texts, or numbers as text, that are missing cells, in addition to `MISSING`.
    semicolons
        Whether the file sets its columns apart by semicolons.
    where
        Where each row is, where that is known.
    not_asked
        Whether words of missing cells are `NOT_ASKED` where all others say yes or no: there blank
        cells may be a no (`Rule.blank_is_no`).
    """
    declared = pa.types.is_dictionary(column.type)
    order = _order_of(column) if declared and column.type.ordered else ()
    cells = decoded(column)
    if isinstance(cells, pa.ChunkedArray):
        cells = cells.combine_chunks()
    kind = cells.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        cells = cells.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False)
        cells = cells.cast(pa.timestamp("us")).cast(pa.string())
    elif pa.types.is_boolean(kind):
        present = len(cells) - cells.null_count
        ones = int(pc.sum(cells).as_py() or 0)
        return cells.cast(pa.int8()).cast(pa.float64()), Seen(
            present,
            cells.null_count,
            plain=present,
            point=present,
            comma=present,
            flags=present,
            ones=ones,
            typed_flags=present,
            low=0.0 if present else None,
            high=1.0 if present else None,
        )
    elif pa.types.is_nested(kind):  # as missing: what such a column is checks say
        cells = pa.nulls(len(cells), pa.string())
    elif not is_text(kind) and not pa.types.is_null(kind):
        cells = cells.cast(pa.float64(), safe=False)
    if pa.types.is_floating(cells.type):
        cells, words = _without_numbers(cells, missing)
        if declared:
            present = len(cells) - cells.null_count
            return texts(cells), Seen(
                present, cells.null_count, declared=present, words=words, order=order
            )
        return cells, _numbers_seen(cells, words)
    text = pc.utf8_trim_whitespace(cells.cast(pa.string()))
    whole = text
    text, seen = _seen_text(text, missing, declared, semicolons)
    if not_asked and seen.words and seen.flags == seen.cells:
        text = pc.if_else(pc.and_(text.is_null(), pc.not_equal(whole, "")), NOT_ASKED, text)
    if where is not None and seen.examples:
        examples = {
            form: (cell, where(pc.index(whole, cell).as_py()))
            for form, (cell, _) in seen.examples.items()
        }
        seen = replace(seen, examples=examples)
    return text, replace(seen, order=order) if order else seen


def _order_of(column: pa.ChunkedArray | pa.Array) -> tuple[str, ...]:
    """Return the categories of a dictionary in order."""
    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    names = (name for part in parts for name in part.dictionary.cast(pa.string()).to_pylist())
    return tuple(dict.fromkeys(name for name in names if name is not None))[:_MOST_ORDERED]


def _without_numbers(cells: pa.Array, missing: Sequence[str]) -> tuple[pa.Array, dict[str, int]]:
    """Turn NaN, and numbers that are missing cells, into nulls; count the latter."""
    values = cells.to_numpy(zero_copy_only=False)
    gone, words = np.isnan(values), {}
    for word in missing:
        number = rules.number_of(word.strip())
        if number is not None and (hits := values == number).any():
            words[word] = int(np.count_nonzero(hits))
            gone = gone | hits
    return pa.array(values, mask=gone), words


def _numbers_seen(cells: pa.Array, words: Mapping[str, int]) -> Seen:
    values = cells.to_numpy(zero_copy_only=False)
    if cells.null_count:
        values = values[np.asarray(cells.is_valid())]
    return seen_numbers(values, cells.null_count, words)


def _seen_text(
    text: pa.Array, missing: Sequence[str], declared: bool, semicolons: bool
) -> tuple[pa.Array, Seen]:
    counted = pc.value_counts(text.drop_null())
    values, counts = counted.field("values"), counted.field("counts").to_numpy()
    named = [word.strip() for word in missing]
    gone = pc.is_in(values, value_set=pa.array([*MISSING, *named], pa.string()))
    if numbers := [rules.number_of(word) for word in named]:
        read = _floats(values)[0]
        same = np.isin(read, [v for v in numbers if v is not None])
        gone = pc.or_(gone, pa.array(same))
    absent = (
        np.asarray(gone)
        if not declared or missing
        else np.asarray(pc.is_in(values, value_set=pa.array(["", *named], pa.string())))
    )
    if absent.any():
        words = values.filter(pa.array(absent))
        text = pc.if_else(pc.is_in(text, value_set=words), pa.scalar(None, pa.string()), text)
        absent_words = dict(zip(words.to_pylist(), counts[absent].tolist(), strict=True))
        absent_words.pop("", None)
        values, counts = values.filter(pa.array(~absent)), counts[~absent]
    else:
        absent_words = {}
    present = int(counts.sum())
    if declared:
        return text, Seen(present, text.null_count, declared=present, words=absent_words)
    return text, _seen_cells(values, counts, text.null_count, absent_words, semicolons)


def _seen_cells(
    values: pa.Array, counts: IntArray, missing: int, words: dict[str, int], semicolons: bool
) -> Seen:
    """Return what distinct cells are."""
    dash = np.asarray(pc.equal(values, DASH))
    if dash.any():
        words = {**words, DASH: int(counts[dash].sum())}
        missing += words[DASH]
        values, counts = values.filter(pa.array(~dash)), counts[~dash]
    present = int(counts.sum())
    numbers, plain = _floats(values)
    plain_cells = int(counts[plain].sum())
    zeros = np.zeros(len(values), bool)
    if plain.any():
        zeros = _matches(values, rules.LEADING_ZERO)
    lower = pc.utf8_lower(values)
    yes, no = (np.asarray(pc.is_in(lower, value_set=pa.array(some))) for some in (YES, NO))
    point = comma = plain_cells
    commas = numbers.copy()  # with a decimal comma
    fields: dict[str, Any] = {}
    examples: dict[str, tuple[str, str]] = {}
    if plain.any():
        pointed = plain & np.asarray(pc.match_substring(values, "."))
        if pointed.any():
            # A number that needs a decimal point decides it: the others need not be looked at.
            comma = int(counts[plain & ~pointed].sum())
            commas[pointed] = np.nan
            examples |= _first(values, {DECIMAL_POINT: pointed})
            dots = _matches(values.slice(0, _LOOKED), r"[-+]?" + rules.DOT_GROUPS)
            if (dots | ~pointed[:_LOOKED]).all():
                dots = _matches(values, r"[-+]?" + rules.DOT_GROUPS)
                fields["dot_groups"] = int(counts[dots].sum())
                comma += fields["dot_groups"]
                commas[dots] = 1000.0 * numbers[dots]
                del examples[DECIMAL_POINT]
                decimals = {DECIMAL_POINT: pointed & ~dots, DOT_OR_GROUP: dots}
                examples |= _first(values, decimals)
    if not plain.all():
        rest = values.filter(pa.array(~plain))
        (others, with_comma), decorated = _seen_decorated(rest, counts[~plain])
        decorated["dot_groups"] = decorated.get("dot_groups", 0) + fields.get("dot_groups", 0)
        examples = decorated.pop("examples") | examples
        fields |= decorated
        point += int(fields.pop("point"))
        comma += int(fields.pop("comma"))
        numbers = numbers.copy()
        numbers[~plain], commas[~plain] = others, with_comma
        fields["characters"] = int(np.dot(pc.utf8_length(rest).to_numpy(), counts[~plain]))
    read, with_comma = ~np.isnan(numbers), commas[~np.isnan(commas)]
    if with_comma.size:
        fields |= {"comma_low": float(with_comma.min()), "comma_high": float(with_comma.max())}
    ends = ends_in(numbers[read], counts[read])
    ends["shares"] = ends.get("shares", 0) - fields.pop("shares_with_unit", 0)
    return Seen(
        present,
        missing,
        plain=plain_cells,
        point=point,
        comma=comma,
        zeros=int(counts[zeros].sum()),
        flags=int(counts[yes | no].sum()),
        ones=int(counts[yes].sum()),
        semicolons=present if semicolons else 0,
        words=words,
        pluses=int(counts[np.asarray(pc.equal(values, PLUS))].sum()),
        examples=examples,
        **ends,
        **fields,
    )


def _first(values: pa.Array, forms: Mapping[str, BoolArray]) -> dict[str, tuple[str, str]]:
    """Return the first cell of each form."""
    hits = {form: np.flatnonzero(has) for form, has in forms.items()}
    return {form: (values[int(rows[0])].as_py(), "") for form, rows in hits.items() if rows.size}


def _seen_decorated(
    rest: pa.Array, counts: IntArray
) -> tuple[tuple[FloatArray, FloatArray], dict[str, Any]]:
    """Return cells that are not plain numbers as numbers, and what they are counted as.

    The former with a decimal point where a cell allows it, and with a decimal comma.
    """
    with_digits = pc.any(pc.match_substring_regex(rest, "[0-9]")).as_py()
    parts = _parts(rest) if with_digits else None
    if parts is None or parts.null_count == len(rest):
        none = np.full(len(rest), np.nan)
        return (none, none), {"point": 0, "comma": 0, "examples": {}, **_seen_words(rest, counts)}
    values = {decimal: _decorated(rest, parts, decimal) for decimal in (".", ",")}
    readable = {decimal: ~np.isnan(v) for decimal, v in values.items()}
    either = readable["."] | readable[","]
    units: dict[str, int] = {}
    with_unit: dict[str, BoolArray] = {}
    bracket = pc.if_else(pc.equal(parts.field("sign"), BRACKET), BRACKET, "")
    trailing = pc.if_else(pc.equal(pc.utf8_length(parts.field("trail")), 1), TRAILING, "")
    around = (parts.field(name) for name in ("quote", "before", "after"))
    for words in (*around, bracket, trailing):
        for word in pc.unique(words.filter(pa.array(either))).to_pylist():
            if word:
                hits = np.asarray(pc.fill_null(pc.equal(words, word), False)) & either
                unit = word.strip()
                units[unit] = units.get(unit, 0) + int(counts[hits].sum())
                with_unit[unit] = hits | with_unit.get(unit, np.zeros(len(hits), bool))
    digits = pc.fill_null(parts.field("digits"), "")
    dots, commas = (
        _matches(digits, pattern) & either for pattern in (rules.DOT_GROUPS, rules.COMMA_GROUPS)
    )
    several = np.asarray(pc.match_substring_regex(digits, rules.GROUPS)) & either
    examples = _first(
        rest,
        {
            DECIMAL_POINT: readable["."] & ~readable[","],
            DECIMAL_COMMA: readable[","] & ~readable["."],
            IN_GROUPS: several,
            DOT_OR_GROUP: dots,
            COMMA_OR_GROUP: commas,
            **with_unit,
        },
    )
    as_read = np.where(readable["."], values["."], values[","])
    united = np.logical_or.reduce([np.zeros(len(as_read), bool), *with_unit.values()])
    return (as_read, values[","]), {
        "point": int(counts[readable["."]].sum()),
        "comma": int(counts[readable[","]].sum()),
        "dot_groups": int(counts[dots].sum()),
        "comma_groups": int(counts[commas].sum()),
        "groups": int(counts[several].sum()),
        "units": units,
        "examples": examples,
        "shares_with_unit": int(counts[united & (as_read >= 0.0) & (as_read <= 1.0)].sum()),
        **_seen_words(rest.filter(pa.array(~either)), counts[~either]),
    }


def _seen_words(odd: pa.Array, counts: IntArray) -> dict[str, Any]:
    """Return what cells that are no numbers are counted as: dates, and the first ones."""
    texts = odd.to_pylist()
    dates = rules.dates_in(zip(texts, counts.tolist(), strict=True))
    return {"dates": dates, "odd": tuple(texts[:_EXAMPLES])}


_DECORATED = f"^(?:{rules.DECORATED})$"


def _parts(text: pa.Array) -> pa.StructArray:
    return pc.extract_regex(text, _DECORATED)


def _matches(text: pa.Array, pattern: str) -> BoolArray:
    fits = pc.match_substring_regex(text, f"^(?:{pattern})$")
    return np.asarray(pc.fill_null(fits, False))


def _floats(text: pa.Array) -> tuple[FloatArray, BoolArray]:
    """Return plain numbers, NaN for other cells, and which are plain and finite."""
    fits = _matches(text, rules.NUMBER)
    if not fits.any():
        return np.full(len(text), np.nan), fits
    plain = text if fits.all() else pc.if_else(pa.array(fits), text, pa.scalar(None, pa.string()))
    read = pc.utf8_ltrim(plain, "+").cast(pa.float64())
    values = np.array(read.to_numpy(zero_copy_only=False), np.float64)
    finite = np.isfinite(values)
    values[~finite] = np.nan
    return values, finite


def _decorated(text: pa.Array, parts: pa.StructArray, decimal: str) -> FloatArray:
    """Return numbers as people write them, NaN for what is none."""
    digits = parts.field("digits")
    fits = _matches(digits, rules.COMMA if decimal == "," else rules.POINT)
    bracket = np.asarray(pc.fill_null(pc.equal(parts.field("sign"), "("), False))
    fits &= ~_two_signs(parts)
    fits &= bracket == np.asarray(pc.fill_null(pc.ends_with(text, ")"), False))
    if not fits.any():
        return np.full(len(text), np.nan)
    digits = pc.if_else(pa.array(fits), digits, pa.scalar(None, pa.string()))
    digits = pc.replace_substring_regex(digits, "[^0-9,.]", "")
    if decimal == ",":
        digits = pc.replace_substring(pc.replace_substring(digits, ".", ""), ",", ".")
    digits = pc.replace_substring(digits, ",", "")
    power = pc.fill_null(parts.field("power"), "")
    read = pc.binary_join_element_wise(digits, power, "").cast(pa.float64())
    values = np.array(read.to_numpy(zero_copy_only=False), np.float64)
    minus = np.asarray(pc.is_in(parts.field("sign"), value_set=pa.array(["-", "−", "("])))
    for name in ("inner", "trail"):
        minus |= np.asarray(pc.greater(pc.utf8_length(pc.fill_null(parts.field(name), "")), 0))
    values[~np.isfinite(values)] = np.nan
    return np.where(minus, -values, values)


def _two_signs(parts: pa.StructArray) -> BoolArray:
    """Say which numbers have a minus after them and another sign; [N]."""
    signs = pc.binary_join_element_wise(parts.field("sign"), parts.field("inner"), "")
    plain = pc.is_in(signs, value_set=pa.array(["", "+"]))
    trailing = pc.greater(pc.utf8_length(parts.field("trail")), 0)
    return np.asarray(pc.fill_null(pc.and_(trailing, pc.invert(plain)), False))


def without_words(cells: pa.Array, rule: Rule) -> pa.Array:
    """Turn `NOT_ASKED` into a missing cell, and what else the rule says is one."""
    if typed(cells):
        return cells
    words = [NOT_ASKED, rule.absent or NOT_ASKED, DASH if rule.dash_is_missing else NOT_ASKED]
    return pc.if_else(
        pc.is_in(cells, value_set=pa.array(words)), pa.scalar(None, pa.string()), cells
    )


def numbers(cells: pa.Array, rule: Rule) -> tuple[FloatArray, BoolArray]:
    """Return cells as numbers of a kind, and which cannot be read.

    ``cells``: as `taken` gives them. ``rule``: how they are read: numbers, flags (1 and 0) or dates
    (days since 1970-01-01).

    Returns
    -------
    values, wrong
        NaN where a cell is missing or cannot be read; [N] each.
    """
    blank = np.asarray(pc.is_null(cells, nan_is_null=True))
    if typed(cells):
        values = np.array(cells.to_numpy(zero_copy_only=False))
        values[np.isnan(values)] = np.nan  # of one bit pattern
        wrong = np.isinf(values)
        if rule.kind != NUMBER:
            wrong = ~np.isnan(values) & ~(np.isin(values, [0.0, 1.0]) & (rule.kind == FLAG))
        values = np.where(wrong, np.nan, values) if wrong.any() else values
    else:
        cells = without_words(cells, rule)
        values = _read(cells, rule)
        wrong = np.asarray(cells.is_valid()) & np.isnan(values)
    if rule.blank_is_no:
        values = np.where(blank, 0.0, values)
    return values, wrong


def _read(text: pa.Array, rule: Rule) -> FloatArray:
    if rule.kind == NUMBER:
        values = _floats(text)[0] if rule.decimal == "." else np.full(len(text), np.nan)
        odd = np.asarray(text.is_valid()) & np.isnan(values)
        if odd.any():
            rest = text.filter(pa.array(odd))
            values[odd] = _decorated(rest, _parts(rest), rule.decimal)
        return values
    if rule.kind == FLAG:
        words = pc.utf8_lower(text)
        yes, no = (
            pc.is_in(words, value_set=pa.array(some)).to_numpy(False)
            for some in ((rule.yes,) if rule.yes else YES, NO)
        )
        return np.where(yes, 1.0, np.where(no, 0.0, np.nan))
    return _days(text, rule.order)


def _days(text: pa.Array, order: Order) -> FloatArray:
    values = np.full(len(text), np.nan)
    fits = _matches(text, DATE_CELL)
    if fits.any():
        dates = pc.utf8_rtrim(pc.if_else(pa.array(fits), text, pa.scalar(None, pa.string())), "Z")
        try:
            since = dates.cast(pa.timestamp("us")).cast(pa.int64())
            present = np.asarray(since.is_valid())
            values[present] = since.drop_null().to_numpy() / _DAY
            fits = present
        except pa.ArrowInvalid:  # a day that its month does not have
            fits = np.zeros(len(text), bool)
    rest = np.asarray(text.is_valid()) & ~fits
    if rest.any():
        coded = text.filter(pa.array(rest)).dictionary_encode()
        days = [rules.days_of(cell, order) for cell in coded.dictionary.to_pylist()]
        by_code = np.array([np.nan if day is None else day for day in days])
        values[rest] = by_code[coded.indices.to_numpy()]
    return values


def texts(cells: pa.Array, rule: Rule | None = None) -> pa.Array:
    """Return cells as the text of categories; a whole number is written without a point.

    >>> texts(pa.array([1.0, 0.5, None])).to_pylist(), texts(pa.array(["4.0", "04"])).to_pylist()
    (['1', '0.5', None], ['4', '04'])
    """
    if rule is not None and rule.kind == FLAG and not rule.answer:
        values = numbers(cells, rule)[0]
        return pa.array(np.where(values > 0.5, "yes", "no"), pa.string(), mask=np.isnan(values))
    if rule is not None:
        cells = without_words(cells, rule)
        if rule.answer:
            coded = texts(cells).dictionary_encode()
            flags = [has_answer(cell, rule) for cell in coded.dictionary.to_pylist()]
            return pc.if_else(pa.array(flags, pa.bool_()), "yes", "no").take(coded.indices)
        if rule.kind == NUMBER and not typed(cells):
            cells = pa.array(numbers(cells, rule)[0], from_pandas=True)
    if not typed(cells):
        return pc.replace_substring_regex(cells, f"^{rules.WHOLE.pattern}$", r"\1")
    encoded = cells.dictionary_encode()
    words = [
        str(int(value)) if float(value).is_integer() else repr(float(value))
        for value in encoded.dictionary.to_pylist()
    ]
    return pa.array(words, pa.string()).take(encoded.indices)


def concat(pieces: Sequence[pa.Array]) -> pa.Array:
    """Join pieces of one column as `taken` gives them: numbers become text where some are text."""
    if len(pieces) == 1:  # Arrow would copy it
        return pieces[0]
    kinds = {piece.type for piece in pieces if piece.null_count < len(piece)}
    if len(kinds) > 1:
        return pa.concat_arrays([texts(piece) for piece in pieces])
    kind = next(iter(kinds), pieces[0].type)
    return pa.concat_arrays([piece.cast(kind) for piece in pieces])
