"""How a family's input files are read, as its settings say."""

from __future__ import annotations

from contextlib import AbstractContextManager

from flows.data import storage
from flows.family import Family
from flows.settings import RunSettings


def reading_of(family: Family, settings: RunSettings) -> AbstractContextManager[None]:
    """Read files so, in a context."""
    documents = any(end in family.suffixes for end in storage.DOCUMENTS)
    return storage.reading_with(
        storage.FileOptions(settings.encoding, settings.skip_rows, settings.sheet, documents)
    )
