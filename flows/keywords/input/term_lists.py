"""Files that a setting names: a vocabulary, stop words, a prior.

A setting holds the file's name and, once a run has read it, a digest of what it held: another
content is another setting, to a run that goes on or takes up what an earlier one did.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache

from flows import storage
from flows.faults import InputError
from flows.storage.formats.encodings import text_from
from vbmodels.keywords.learnt_prior import NONE, LearntPrior, PriorError, shipped

MOST_BYTES = 100 * 2**20
_DIGEST = re.compile(r"(.+)#([0-9a-f]{16})$")


def with_digest(name: str, setting: str) -> str:
    """Return a file's absolute name with the digest of what it holds.

    Raises `InputError` if the file cannot be read, or the name has a digest of something else.
    """
    if _DIGEST.match(name):
        read_named(name, setting)
        return name
    digest = hashlib.sha256(_read(name, setting)).hexdigest()[:16]
    return f"{storage.absolute(name)}#{digest}"


@lru_cache(maxsize=8)
def terms_of(name: str, setting: str) -> tuple[str, ...]:
    """Return the terms of a file, one a line, each once; empty lines are left out.

    Raises `InputError` if the file cannot be read, has no term, or is not what the setting was made
    from.
    """
    url, data = read_named(name, setting)
    try:
        text = text_from(data)
    except UnicodeDecodeError as error:
        raise _error(
            setting,
            "a file of text",
            f"bytes that are none in {storage.shown(url)}",
            "save it as UTF-8",
        ) from error
    lines = (piece.strip().strip('"') for line in text.splitlines() for piece in line.split(";"))
    terms = tuple(dict.fromkeys(line for line in lines if any(map(str.isalnum, line))))
    if not terms:
        raise _error(
            setting, "one term a line", f"no term in {storage.shown(url)}", "name another file"
        )
    return terms


def read_named(name: str, setting: str) -> tuple[str, bytes]:
    """Return the address of a file that a setting names, and what it holds.

    Raises `InputError` if it cannot be read, or is not what the setting was made from.
    """
    match = _DIGEST.match(name)
    url = match[1] if match else name
    data = _read(url, setting)
    if match and hashlib.sha256(data).hexdigest()[:16] != match[2]:
        raise _error(
            setting,
            "the file that the run began with",
            f"{storage.shown(url)} changed",
            "start a new run, or put the file back",
        )
    return url, data


@lru_cache(maxsize=4)
def prior_of(name: str | None) -> LearntPrior | None:
    """Return the prior that the setting ``prior`` names; None where it names none.

    Raises `InputError` if the file cannot be read or is no prior.
    """
    if name is None:
        return shipped()
    if name == NONE:
        return None
    url, data = read_named(name, "prior")
    try:
        return LearntPrior.from_json(data)
    except PriorError as error:
        raise _error(
            "prior",
            "a prior made by vbflows",
            f"{storage.shown(url)}: {error}",
            "name a file that benchmarks.prior_learning made, or none",
        ) from error


def _read(url: str, setting: str) -> bytes:
    try:
        return storage.read_bytes(storage.absolute(url), MOST_BYTES)
    except (storage.StorageError, OSError) as error:
        found = str(error).removeprefix("cannot read ")
        raise _error(setting, "a file of text", found, "name a file that can be read") from error


def _error(setting: str, expected: str, found: str, remedy: str) -> InputError:
    return InputError.of("settings", expected, found, setting, remedy=remedy)
