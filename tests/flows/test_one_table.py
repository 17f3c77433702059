"""A family of one declared table: what is checked, cut and read from the table alone."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import storage
from flows.faults import InputError
from flows.one_table import ReadsOneTable
from flows.settings import RunSettings
from flows.tables.table import INT64, NUMBER, TEXT, Column, Table


class Weights(ReadsOneTable):
    table = Table(
        "weights",
        "Weights by name.",
        (
            Column("id", TEXT, "name", accepts=(INT64,), names="thing", unique=True),
            Column("weight", NUMBER, "its weight", finite=True),
        ),
        row="thing",
    )  # fmt: skip


FAMILY, SETTINGS = Weights(), RunSettings(partitions=3)


@pytest.fixture
def given(tmp_path):
    """Write files of (names, weights); return them as a run finds them."""

    def write(**files):
        for name, (ids, weights) in files.items():
            pq.write_table(pa.table({"id": ids, "weight": weights}), tmp_path / f"{name}.parquet")
        return storage.expand(str(tmp_path), FAMILY.suffixes)

    return write


def check(files, parts, headers):
    """Return the checks of files, added up over partitions."""
    pieces = [piece for part in parts for piece in FAMILY.check(part, SETTINGS)]
    return [
        FAMILY.merge(file, header, [one for one in pieces if one.url == file.url], SETTINGS)
        for file, header in zip(files, headers, strict=True)
    ]


def test_rows_come_back_as_they_stand_cut_over_files(given):
    files = given(a=(["x", "y"], [1.0, 2.0]), b=([7, 8, 9], [3, 4, 5]))
    headers = [FAMILY.read_header(file, SETTINGS) for file in files]
    parts = FAMILY.plan(files, headers, SETTINGS)
    checked = check(files, parts, headers)
    assert [one.rows for one in checked] == [2, 3]
    assert [one.faults for one in checked] == [(), ()]
    assert FAMILY.validate_dataset(files, checked) == []
    read = [FAMILY.read(part, SETTINGS) for part in parts]
    assert [part.rows for part in parts] == [len(rows) for rows, _ in read]
    whole = pa.concat_tables([rows for rows, _ in read])
    assert whole["id"].to_pylist() == ["x", "y", "7", "8", "9"]
    assert whole["weight"].to_pylist() == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(
    ("ids", "weights", "said"),
    [(["x", "y"], [1.0, float("inf")], "weight"), (["x", None], [1.0, 2.0], "id")],
)
def test_a_row_that_is_not_allowed_is_named_by_the_check_and_refused_by_the_read(
    given, ids, weights, said
):
    [file] = given(a=(ids, weights))
    looked = FAMILY.read_header(file, SETTINGS)
    assert looked.faults == ()  # no footer shows it
    parts = FAMILY.plan([file], [looked], SETTINGS)
    [checked] = check([file], parts, [looked])
    [fault] = checked.faults
    assert said in str(fault)
    with pytest.raises(InputError, match=said):
        FAMILY.read(parts[-1], SETTINGS)
