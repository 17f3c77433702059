"""Columns of text that are one document: a title and an abstract."""

import pytest

from flows import storage
from flows.faults import InputError
from flows.keywords.family import FAMILY
from flows.keywords.schema import DOCUMENTS
from flows.keywords.settings import KeywordSettings
from tests.flows.commands import check_file, read_part

ROWS = "Abstract,Title,other\nBees dance.,Varroa mites,1\n,Clover,2\nSoil is old.,,3\n"


def texts(folder, called):
    (folder / "in.csv").write_text(ROWS)
    settings = KeywordSettings(columns={"text": called}, partitions=2)
    files = storage.expand(str(folder / "in.csv"), FAMILY.suffixes)
    checked = [check_file(FAMILY, file, settings) for file in files]
    if faults := [fault for one in checked for fault in one.faults]:
        raise InputError(faults)
    table = DOCUMENTS.of(settings)
    parts = FAMILY.plan(files, checked, settings)
    return [text for part in parts for text in read_part(part, table)["text"].to_pylist()]


def test_columns_with_commas_between_are_paragraphs_in_their_order(tmp_path):
    found = texts(tmp_path, "Title, Abstract")
    assert found == ["Varroa mites\n\nBees dance.", "Clover", "Soil is old."]


def test_a_column_that_is_not_there_is_no_part(tmp_path):
    with pytest.raises(InputError, match="expected a column text"):
        texts(tmp_path, "Title,Summary")
