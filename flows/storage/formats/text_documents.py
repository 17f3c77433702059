"""Files that hold one document each: plain text, Markdown, HTML, PDF and Word.

PDF and Word need the extra ``documents``. Pages of a PDF are set apart by form feeds, paragraphs of
a Word file by empty lines; what is neither (pictures, formulae as pictures) is left out.
"""

from __future__ import annotations

import io
import logging
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

from flows.storage.errors import StorageError, cannot_read
from flows.storage.file_options import file_options
from flows.storage.formats.encodings import refuse_unknown, text_and_guess

SUFFIXES = (".txt", ".md", ".html", ".htm", ".pdf", ".docx")
"""Endings of files that hold one document each."""
_MOST_CHARACTERS = 64 * 2**20
_MOST_GROWTH = 100
_OF_PARSERS = (ValueError, KeyError, AttributeError)  # what they raise of damaged files
_OF_PACKED_FILES = (zipfile.BadZipFile, zlib.error, EOFError)


def text_of(url: str, data: bytes) -> tuple[str, list[str]]:
    """Return the text of a document, empty where it has none, as a scanned PDF; and notes on it.

    ``url``: the file's name, whose ending says what it is. ``data``: its bytes.

    Raises `StorageError` if it is not what its name says, or is encrypted; `ImportError` if what
    reads it is not installed.
    """
    end = url[url.rindex(".") :].lower()
    readers: dict[str, Callable[[str, bytes], str]] = {".pdf": _pdf, ".docx": _docx}
    text, notes = (readers[end](url, data), []) if end in readers else _plain(url, data)
    if len(text) > _MOST_CHARACTERS:
        raise cannot_read(
            url,
            f"it has {len(text):,} characters, expected at most "
            f"{_MOST_CHARACTERS:,}; cut it into several files",
            "one document",
        )
    return text, notes


def _plain(url: str, data: bytes) -> tuple[str, list[str]]:
    encoding = file_options().encoding
    try:
        if encoding is not None:
            refuse_unknown(url, encoding)
            return data.decode(encoding), []
        text, guessed = text_and_guess(data)
    except UnicodeDecodeError as error:
        raise cannot_read(
            url,
            f"it is no text in {encoding or 'UTF-8'} (byte "
            f"{data[error.start]:#04x} at {error.start:,}); pass its encoding, such as --encoding "
            "cp1252, or remove the file",
        ) from error
    note = f"not UTF-8, read as {guessed}; for another pass --encoding NAME"
    return text, [note] if guessed else []


def _pdf(url: str, data: bytes) -> str:
    from pypdf import PdfReader
    from pypdf.errors import DependencyError, PyPdfError

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # what it cannot read is raised
    try:
        reader = PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise cannot_read(url, "it is encrypted; save it without a password")
        pages: list[str] = []
        for page in reader.pages:
            pages.append(page.extract_text().strip())
            if sum(map(len, pages)) > _MOST_CHARACTERS:
                break
        return "\f".join(pages)
    except (PyPdfError, DependencyError, *_OF_PARSERS, TypeError, RecursionError) as error:
        raise cannot_read(
            url, f"{type(error).__name__}: {error}; save it again, or give its text", "a PDF"
        ) from error


def _docx(url: str, data: bytes) -> str:
    from docx import Document
    from docx.table import Table

    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > max(_MOST_GROWTH * len(data), _MOST_CHARACTERS):
            raise cannot_read(
                url,
                f"it grows to {size >> 20:,} MiB when it is unpacked, expected "
                f"at most {_MOST_GROWTH} times its size",
            )
        pieces = []
        content: Any = Document(io.BytesIO(data)).iter_inner_content()
        for block in content:
            if isinstance(block, Table):
                pieces += ["; ".join(cell.text for cell in row.cells) for row in block.rows]
            else:
                pieces.append(block.text)
        return "\n\n".join(piece for piece in pieces if piece.strip())
    except StorageError:
        raise
    # A lock is a RuntimeError, XML that is cut a SyntaxError, a part of another kind has no body.
    except (*_OF_PACKED_FILES, *_OF_PARSERS, RuntimeError, SyntaxError) as error:
        raise cannot_read(
            url, f"{error}; save it again, or give its text", "a Word file (.docx)"
        ) from error
