"""The encoding of a text file: UTF-8, UTF-16, or guessed from its bytes."""

from __future__ import annotations

import codecs
import re
from itertools import islice

from flows.storage.errors import cannot_read

_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before UTF-16's, which it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_LIKELY = [*(f"cp125{i}" for i in (2, 0, 1, 3, 4, 5, 6)), "cp932", "gb18030", "big5", "cp949"]
_SIGNS = "€°±µ«»–—‘’“”„…"
_WESTERN = (
    "äöüß",
    "àâæçèéêëîïôœùûüÿ",
    "áçéíñóúü",
    "áàâãçéêíóôõúü",
    "àèéìíîòóùú",
    "åäæéöøü",
    "áðéíóúýþæö",
    "äéèëêïóöü",
)
_OTHER = {
    "cp1250": ("ąćęłńóśźż", "áäčďéěíĺľňóôŕřšťúůýž", "áéíóöőúüű", "ćčđšž", "ăâîşţ"),
    "cp1254": ("âçğıîiöşüû",),
    "cp1257": ("ąčęėįšųūž", "āčēģīķļņšūž"),
}
"""Letters beyond a to z of languages, by the encoding of Windows that they are written in."""
FALLBACK = "cp1252"  # of most tables from Windows that are not UTF-8


def encoding_of(data: bytes) -> str:
    """Return the encoding that the first bytes of a text say: UTF-16, or UTF-8.

    >>> encoding_of("a,b".encode("utf-16-le")), encoding_of(b"a,b"), encoding_of(b"\\xff\\xfea\\x00")
    ('utf-16-le', 'utf-8', 'utf-16')
    """  # noqa: E501
    for mark, name in _MARKS.items():
        if data.startswith(mark):
            return name
    some = data[:4096]
    if len(some) >= 4 and some.count(0) > 0.3 * len(some):
        return "utf-16-le" if some[1::2].count(0) > some[::2].count(0) else "utf-16-be"
    return "utf-8"


def guess(data: bytes) -> str:
    """Return the likely encoding of bytes that are not UTF-8."""
    from charset_normalizer import from_bytes

    lines = [line for line in data.splitlines() if any(byte > 127 for byte in line)]
    some = b"\n".join(lines[:2000])
    western = _is_western(some)
    if western and (found := _of_one_language(some)):
        return found
    likely = [name for name in _LIKELY if western or name not in ("cp1252", "cp1254")]
    matches = from_bytes(some, cp_isolation=likely)
    best = matches.best()
    if best is None:
        return FALLBACK
    # Of a few words many encodings make as good a text.
    same = {
        name
        for match in matches
        if match.chaos <= best.chaos and match.coherence >= best.coherence
        for name in (match.encoding, *match.could_be_from_charset)
    }
    return next((name for name in likely if name in same), best.encoding)


def text_from(data: bytes) -> str:
    """Return the text of a small file: UTF-8, UTF-16 with its mark, or as `guess` says.

    Raises `UnicodeDecodeError` if it is no text.
    """
    return text_and_guess(data)[0]


def text_and_guess(data: bytes) -> tuple[str, str | None]:
    """Return the same text, and the encoding where it was guessed."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16"), None
    try:
        return data.decode("utf-8-sig"), None
    except UnicodeDecodeError:
        if b"\0" in data:
            raise
        encoding = guess(data)
        return data.decode(encoding, errors="replace"), encoding


def _is_western(data: bytes) -> bool:
    """Say whether all bytes above 127 are letters or signs of text in western Windows."""
    text = data.decode(FALLBACK, errors="replace")
    return all(char.isalpha() or char in _SIGNS for char in text if ord(char) > 127)


def _of_one_language(data: bytes) -> str | None:
    """Return the encoding in which all letters are of one language, of the west if they can be.

    >>> _of_one_language("Gdańsk".encode("cp1250")), _of_one_language("Málaga".encode("cp1252"))
    ('cp1250', 'cp1252')
    """
    read = _letters(data, FALLBACK)
    spanish = not re.search("ñ(?![aeiouáéíóúü])", data.decode(FALLBACK, errors="replace").lower())
    if any(read <= set(letters) and ("ñ" not in read or spanish) for letters in _WESTERN):
        return FALLBACK
    fits = (
        name
        for name, languages in _OTHER.items()
        for letters in languages
        if _letters(data, name) <= set(letters)
    )
    return next(fits, None)


def _letters(data: bytes, encoding: str) -> set[str]:
    text = data.decode(encoding, errors="replace")
    return {char.lower()[0] for char in text if ord(char) > 127 and char not in _SIGNS}


def lines_in_utf8(data: bytes) -> tuple[int, int]:
    """Return how many lines with bytes above 127 are UTF-8, and how many there are.

    >>> lines_in_utf8("é".encode() + b"\\n\\xe9\\na")
    (1, 2)
    """
    lines = [line for line in data.splitlines() if not line.isascii()]
    return sum(line.decode("utf-8", "ignore").encode() == line for line in lines), len(lines)


def words_of(data: bytes, encoding: str) -> list[str]:
    """Return some words with letters that differ between encodings.

    >>> words_of("id,Köln,Zürich".encode("cp1252"), "cp1252")
    ['Köln', 'Zürich']
    """
    words = re.finditer(r"\w*[^\W\x00-\x7f]\w*", data.decode(encoding, errors="replace"))
    return list(dict.fromkeys(word[0] for word in islice(words, 20)))[:3]


def refuse_unknown(url: str, name: str) -> None:
    """Raise `StorageError` for a file whose encoding is given a name that none has."""
    try:
        b"ab".decode(name, "replace")
    except (LookupError, UnicodeError) as error:  # the last of idna and undefined
        raise cannot_read(
            url, f"{name!r} is no encoding; pass one such as --encoding cp1252"
        ) from error
