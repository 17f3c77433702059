"""JSON that vbflows writes and reads again: bounded, of a stated form, with a checksum.

A file is one JSON object. With its own fields it has ``sha256``, the digest of the others,
so that a changed byte is reported and not computed with. A person may remove it from a published
file: its form alone is looked at then. What a run keeps for its resume must have it.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from flows.storage import DamagedError, read_bytes, write_bytes

MOST = 512 * 2**20  # bytes of a file that is read; the largest name every input file of a run
CHECKSUM = "sha256"

_WORKING = re.compile(r"/runs/\d{8}T\d{6}-[0-9a-f]{6}/work/(?!lock\.json$)")

F = TypeVar("F", bound="Form")


class Form(BaseModel):
    """What a file holds: one field for each of its names, and no other."""

    model_config = ConfigDict(extra="forbid")


def write(url: str, content: Form) -> None:
    """Write a file, whole or not at all."""
    write_bytes(url, dumped(content))


def dumped(content: Form) -> bytes:
    """Return the bytes of a file."""
    fields: dict[str, Any] = from_json(content.model_dump_json())
    return json.dumps({**fields, CHECKSUM: _digest(fields)}, indent=1).encode()


def read(url: str, form: type[F], most: int = MOST) -> F:
    """Read a file.

    Raises `DamagedError` if it is not what `write` has written, or of a version that has other
    fields.
    """
    return parsed(read_bytes(url, most), form, url)


def parsed(data: bytes, form: type[F], source: str) -> F:
    """Return what the bytes of a file hold; see `read`."""
    try:
        content = from_json(data)
        if isinstance(content, dict) and (CHECKSUM in content or _WORKING.search(source)):
            checksum = content.pop(CHECKSUM, None)
            if checksum != _digest(content):
                raise ValueError("its checksum does not match its contents")
        return form.model_validate_json(json.dumps(content))
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"{source} is damaged, or another version of vbflows wrote it ({first_line(error)})",
            source,
        ) from error


def _digest(fields: dict[str, Any]) -> str:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def first_line(error: Exception) -> str:
    """Put what pydantic or a parser says into one line."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        message = f"{where}: {first['msg']}" if where else str(first["msg"])
    else:
        message = (str(error) or type(error).__name__).splitlines()[0]
    return message[:300]
