"""What a run says of its columns, in a few lines."""

from flows.tables.column_table import FEATURE, in_lines, summary
from vbmodels.tables.column_table import ColumnRead
from vbmodels.tables.columns import Reason

CONSTANT = Reason("other", "constant")


def test_columns_that_name_rows_are_not_counted_as_features():
    columns = [
        ColumnRead("sheet", "text", 0, "", "bag_id"),
        ColumnRead("image", "text", 0, "", "instance_id"),
        ColumnRead("has_3", "yes/no", 0, "", "label: positive is yes"),
        ColumnRead("a", "number", 0, "", FEATURE),
        ColumnRead("b", "yes/no", 0, "", FEATURE),
        ColumnRead.of("c", "number", 0, "", CONSTANT),
    ]
    assert summary(columns) == [
        "features: 2 of 3 used (1 number, 1 yes/no); bag_id: sheet; instance_id: image",
        "label: has_3 (yes/no)",
        "left out: c (constant)",
    ]
    assert summary(columns[3:4]) == ["features: 1 of 1 used (1 number)"]


def test_numbered_columns_of_a_wide_table_share_a_line():
    columns = [ColumnRead(f"pixel_{k}", "number", 0, f"0 to {k}", FEATURE) for k in range(40)]
    columns.insert(20, ColumnRead.of("pixel_x", "number", 0, "1 to 1", CONSTANT))
    _, *lines = in_lines(columns)
    assert len(lines) == 3
    assert lines[0].split()[:5] == ["pixel_0", "to", "pixel_19", "(20)", "number"]
    assert len(in_lines(columns[:9])) == 10, "a small table has a line for each"


def test_the_table_of_columns_fits_the_terminal():
    holds = "3 levels: Torgersen 50, Biscoe 40, Dream 30"
    column = ColumnRead.of("island", "category", 0, holds, CONSTANT)
    assert len(in_lines([column])[1]) > 79
    assert max(map(len, in_lines([column], width=79))) <= 79
