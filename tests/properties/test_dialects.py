"""A table in text is the same table whatever sets its columns apart, and in which bytes."""

import csv
import io

import pyarrow as pa
from hypothesis import assume, example, given
from hypothesis import strategies as st

from flows.storage.file_options import FileOptions, reading_with
from flows.storage.formats import text_files
from flows.storage.formats.text_files import MISSING, SEPARATORS

LANGUAGES = {"Größe": "äöüß", "élève": "éèàçô", "año": "áíóé", "öl": "åäö", "ações": "ãçõé"}
"""Letters beyond a to z by a word that has some of them."""
MORE = st.one_of(
    st.integers(-99, 99999).map(str),
    st.decimals(-99, 99, places=2).map(str),
    st.sampled_from(
        ["", "NA", "a, b", "a; b", "1,5", 'say "no"', "x|y", "two\nlines", "tab\there"]
    ),
)


def words(letters="äößñé"):
    return st.text("aeinrst" + letters, min_size=1, max_size=8)


@st.composite
def tables(draw, letters="äößñé"):
    """Return the names of columns, and rows of cells."""
    names = draw(st.lists(words(letters), min_size=2, max_size=4, unique=True))
    cells = st.lists(words(letters) | MORE, min_size=len(names), max_size=len(names))
    return names, draw(st.lists(cells, min_size=4, max_size=9))


@st.composite
def dialects(draw):
    end, quoting = draw(
        st.tuples(
            st.sampled_from(["\n", "\r\n"]), st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
        )
        | st.just(("\r", csv.QUOTE_ALL))  # as csv leaves other ends of lines unquoted there
    )
    mark = draw(st.sampled_from(SEPARATORS))
    return {"delimiter": mark, "lineterminator": end, "quoting": quoting}


ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])


def written(names, rows, **dialect):
    out = io.StringIO()
    csv.writer(out, **dialect).writerows([names, *rows])
    return out.getvalue()


def read(data, **options):
    """Return the table that bytes hold, as columns, and what is noted of them."""
    found = []

    def take(table):
        found.append((pa.Table.from_batches(table.batches, table.schema), table.notes))

    with reading_with(FileOptions(**options)):
        text_files.convert("t.csv", lambda: pa.BufferReader(data), take)
    return found[-1]


def columns(names, rows):
    return {
        name: [None if row[i] in MISSING else row[i] for row in rows]
        for i, name in enumerate(names)
    }


@given(tables(), dialects(), ENCODINGS)
def test_a_table_is_read_as_it_was_written(table, dialect, encoding):
    names, rows = table
    found, notes = read(written(names, rows, **dialect).encode(encoding))
    assert found.to_pydict() == columns(names, rows)
    assert not notes


@given(
    tables(), dialects(), st.sampled_from(["\n\n", "Report of 2020\n", "# by hand\n", "sep={}\n"])
)
@example(
    (["a", "b"], [["1", "2"]] * 3 + [["two\nlines", "1"]]),
    {"delimiter": "\t", "lineterminator": "\n"},
    "Report of 2020\n",
)
def test_lines_above_the_names_are_not_read(table, dialect, above):
    names, rows = table
    first = above.format(dialect["delimiter"]).replace("\n", dialect["lineterminator"])
    found, notes = read((first + written(names, rows, **dialect)).encode())
    assert found.to_pydict() == columns(names, rows)
    assert len(notes) == 1


@given(st.sampled_from(list(LANGUAGES)), st.data(), dialects())
def test_letters_of_a_western_language_are_guessed_and_said(word, data, dialect):
    names, rows = data.draw(tables(LANGUAGES[word]))
    text = written([*names, word], [[*row, word] for row in rows], **dialect)
    found, notes = read(text.encode("cp1252"))
    told, plain = read(text.encode("cp1252"), encoding="cp1252")
    assert found == told
    assert found[word].to_pylist() == [word] * len(rows)
    assert "read as cp1252" in notes[0]
    assert not plain


@given(
    st.lists(st.sampled_from(["", "  "]) | words(), min_size=2, max_size=5), dialects(), st.data()
)
def test_columns_without_a_name_have_one_where_they_have_a_value(names, dialect, data):
    """Also where the lines have no such separator, as the header ends with some."""
    assume(any(map(str.strip, names[1:] if len(names) > 2 else names)))  # else a title
    blank = [not name.strip() for name in names]
    filled = [data.draw(st.booleans()) or not gone for gone in blank]
    rows = [[str(i) if full else "" for full in filled] for i in range(3)]
    named = max(i for i, gone in enumerate(blank) if not gone) + 1
    shorter = data.draw(st.booleans()) and named > 1 and not any(filled[named:])
    rows = [row[:named] for row in rows] if shorter else rows
    found, notes = read(written(names, rows, **dialect).encode())
    kept = [i for i, full in enumerate(filled) if full]
    called = [f"column {i + 1}" if blank[i] else names[i] for i in kept]
    assert found.column_names == called
    assert found.num_rows == 3
    new, gone = sum(blank[i] for i in kept), len(names) - len(kept)
    assert sum("no name" in note for note in notes) == bool(new)
    assert sum(note.endswith(f"are not read: {gone}") for note in notes) == bool(gone)


def test_one_column_beside_blank_ones_has_no_title():
    found, _ = read(b"a,,\n" + b"1,,\n" * 3)
    assert found.to_pydict() == {"a": ["1"] * 3}
