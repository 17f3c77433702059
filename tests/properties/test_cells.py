"""Cells of text: what is written is read, and a column is the same whatever its rows' order."""

import datetime
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from operator import add

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from flows.tables import mixed
from flows.tables.cells import read_cells
from flows.tables.table import NUMBERS, WORDS
from vbmodels.tables.cells import MISSING, UNITS, days_of, number_of
from vbmodels.tables.columns import Unclear, read_as
from vbmodels.tables.levels import NO, YES
from vbmodels.tables.readers import CellReader, seen_of
from vbmodels.tables.seen import Seen

NUMBERS_OF_PEOPLE = st.decimals(-(10**9), 10**9, places=2)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
DAYS = st.dates(datetime.date(1900, 1, 1), datetime.date(2100, 1, 1))


@st.composite
def writings(draw):
    """Return a function that writes a number as some people do, and its decimal sign."""
    decimal, group = draw(
        st.sampled_from([(".", ""), (".", ","), (".", " "), (".", "'"), (",", ""), (",", ".")])
    )
    before, after = draw(
        st.tuples(st.sampled_from(["", "$", "€", "CHF "]), st.just(""))
        | st.tuples(
            st.just(""), st.sampled_from(["", *UNITS]).map(lambda unit: f" {unit}".rstrip())
        )
    )
    negative = draw(st.sampled_from(["-{}", "−{}", "({})", "{}-"]))

    def write(number):
        digits = f"{abs(number):,.2f}".translate(str.maketrans({",": group, ".": decimal}))
        text = f"{before}{digits}{after}"
        return negative.format(text) if number < 0 else text

    return write, decimal


@given(writings(), NUMBERS_OF_PEOPLE)
def test_a_number_as_people_write_it_is_read(writing, number):
    write, decimal = writing
    assert number_of(write(number), decimal) == float(number)


@given(FINITE)
def test_a_number_as_computers_write_it_is_read(number):
    assert number_of(repr(number)) == number


FORMS = {
    "%d/%m/%Y": "dmy", "%m/%d/%Y": "mdy", "%Y-%m-%d": "ymd",
    "%d.%m.%Y": "dmy", "%d-%b-%Y": "ymd", "%B %d, %Y": "ymd",
}  # fmt: skip


@given(DAYS, st.sampled_from(list(FORMS)))
def test_a_date_is_read_in_its_order(day, form):
    assert days_of(day.strftime(form), FORMS[form]) == (day - datetime.date(1970, 1, 1)).days


def numbers_written():
    return writings().flatmap(lambda one: NUMBERS_OF_PEOPLE.map(one[0]))


CELLS = st.one_of(
    st.none(),
    numbers_written(),
    FINITE.map(repr),
    st.integers(-100, 100).map(str),
    st.sampled_from([*MISSING, "-", "+", *YES, *NO, "007", "4.0", "1,234", "1.234", "Yes", "inf"]),
    DAYS.map(str),
    DAYS.map(lambda day: f"{day:%d/%m/%Y}"),
    st.text("ab,;. 1-+()'%$", max_size=6),
)
COLUMNS = st.one_of(
    st.lists(CELLS, max_size=12),
    st.lists(st.one_of(FINITE.map(repr), st.sampled_from(MISSING)), max_size=12),
    writings().flatmap(
        lambda one: st.lists(NUMBERS_OF_PEOPLE.map(one[0]) | st.sampled_from(MISSING), max_size=12)
    ),
    st.lists(st.sampled_from(["yes", "No", "", "n/a"]), max_size=12),
    DAYS.flatmap(lambda _: st.lists(DAYS.map(lambda day: f"{day:%d/%m/%Y}"), max_size=12)),
)


def rule_of(seen):
    """Return how a column is read, or what is unclear of it but for its examples."""
    try:
        rule = read_as("a", seen)
    except Unclear as error:
        return error.expected
    return rule.kind, rule.decimal, rule.order, rule.blank_is_no, rule.yes, rule.dash_is_missing


def taken(cells):
    return mixed.parse(pa.array(cells, pa.string()))


@given(COLUMNS)
def test_a_table_in_memory_is_read_as_a_file(cells):
    column, seen = taken(cells)
    given_cells = [cell if (cell or "").strip() else None for cell in cells]
    in_memory = seen_of("a", given_cells)
    assert rule_of(seen) == rule_of(in_memory)
    assert (seen.cells, seen.missing, seen.words) == (
        in_memory.cells, in_memory.missing, in_memory.words
    )  # fmt: skip
    try:
        rule = read_as("a", seen)
    except Unclear:
        return
    reader = CellReader("a", rule)
    levels, _ = reader.levels(given_cells)
    assert mixed.texts(column, rule).to_pylist() == levels
    if rule.kind != "category":
        values, wrong = mixed.numbers(column, rule)
        assert not wrong.any()
        assert_array_equal(values, reader.raw(given_cells))


@given(COLUMNS, st.lists(st.integers(0, 12), max_size=3), st.data())
def test_neither_the_order_of_rows_nor_a_cut_changes_what_a_column_is(cells, cuts, data):
    others = data.draw(st.permutations(cells))
    whole = taken(cells)[1]
    edges = [0, *sorted(cuts), len(cells)]
    parts = [taken(others[a:b])[1] for a, b in pairwise(edges)]
    found = reduce(add, parts, Seen())
    assert rule_of(found) == rule_of(whole)
    apart = {"examples": {}, "odd": ()} | ({"prints": 0} if whole.fractions else {})
    assert replace(found, **apart) == replace(whole, **apart)


TYPED = st.one_of(
    st.lists(st.none() | st.integers(-(2**53), 2**53), min_size=1),
    st.lists(st.none() | FINITE, min_size=1),
    st.lists(st.booleans(), min_size=1),
).filter(lambda values: any(value is not None for value in values))


@given(TYPED)
def test_a_column_with_a_type_is_read_as_its_text(values):
    column, seen = mixed.parse(pa.array(values))
    text, seen_as_text = taken([None if value is None else str(value) for value in values])
    assert rule_of(seen) == rule_of(seen_as_text)
    rule, as_text = read_as("a", seen), read_as("a", seen_as_text)
    assert_array_equal(mixed.numbers(column, rule)[0], mixed.numbers(text, as_text)[0])
    assert mixed.texts(column, rule).to_pylist() == mixed.texts(text, as_text).to_pylist()


@given(st.lists(st.sampled_from(["red", "4", "Blue", "18-24"]), min_size=1))
def test_a_dictionary_is_its_text_as_categories(words):
    column, seen = mixed.parse(pa.array(words).dictionary_encode())
    assert read_as("a", seen).kind == "category"
    assert mixed.texts(column).to_pylist() == words


def read(cells, kind, yes_and_no=False):
    values, wrong = read_cells(
        pa.chunked_array([pa.array(cells, pa.string())]), kind, yes_and_no, ";"
    )
    return values.to_pylist(), wrong.tolist()


BLANKS = st.sampled_from(["", " ", "\t"])


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
        (pa.float64(), FINITE),
        (pa.bool_(), st.booleans()),
        (NUMBERS.arrow, st.lists(FINITE, min_size=1)),
        (WORDS.arrow, st.lists(st.text("ab c'\"", min_size=1).filter(str.strip).map(str.strip))),
    ],
    ids=str,
)
@given(data=st.data())
def test_values_that_are_written_are_read_back(kind, values, data):
    some = data.draw(st.lists(st.none() | values, max_size=5))
    around = data.draw(BLANKS)

    def text(value):
        return ";".join(map(str, value)) if isinstance(value, list) else str(value)

    cells = [None if value is None else f"{around}{text(value)}{around}" for value in some]
    assert read(cells, kind) == (some, [False] * len(some))
    if pa.types.is_list(kind):
        assert read([None if one is None else repr(one) for one in some], kind)[0] == some


@given(st.text("0123456789.,eE+-x infINF", max_size=6))
@example("1,5")
@example("99999999999999999999")
def test_a_cell_that_cannot_be_read_is_wrong_and_null(text):
    for kind, parse in ((pa.int64(), int), (pa.float64(), float)):
        (value,), (wrong,) = read([text], kind)
        assert wrong == (value is None)
        if value is not None:
            assert value == parse(text.replace("_", "x"))


@given(st.sampled_from([*((word, True) for word in YES), *((word, False) for word in NO)]), BLANKS)
def test_words_for_yes_and_no_are_read_in_any_case(said, around):
    word, value = said
    for cell in (word, word.upper(), f"{around}{word.title()}"):
        assert read([cell], pa.bool_()) == ([value], [False])
        assert read([cell], pa.float64(), True) == ([float(value)], [False])
