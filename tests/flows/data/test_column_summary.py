"""What a run says of its columns, in a few lines."""

from __future__ import annotations

from flows.data.column_table import FEATURE, summary
from vbmodels.core.column_table import ColumnRead


def test_columns_that_name_rows_are_not_counted_as_features():
    columns = [
        ColumnRead("sheet", "text", 0, "", "bag_id"),
        ColumnRead("image", "text", 0, "", "instance_id"),
        ColumnRead("has_3", "yes/no", 0, "", "label: positive is yes"),
        ColumnRead("a", "number", 0, "", FEATURE),
        ColumnRead("b", "yes/no", 0, "", FEATURE),
        ColumnRead("c", "number", 0, "", "left out: constant"),
    ]
    assert summary(columns) == [
        "features: 2 of 3 used (1 number, 1 yes/no); bag_id: sheet; instance_id: image",
        "label: has_3 (yes/no)",
        "left out: c (constant)",
    ]
    assert summary(columns[3:4]) == ["features: 1 of 1 used (1 number)"]
