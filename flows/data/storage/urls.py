"""URLs as text: they are put together, told apart, and kept free of secrets."""

from __future__ import annotations

import os
import re

from flows.data.storage.errors import StorageError

_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")
_SIGNED = re.compile(r"(?i)(signature|credential|token|secret|password|sig|key)[^=&]*=")


def join(url: str, *parts: str) -> str:
    """Append names to a URL, refusing names that could leave it.

    Raises
    ------
    StorageError
        If a part is empty, absolute, holds ``..`` or a control character.
    """
    for part in parts:
        if not part or part.startswith("/") or ".." in part.split("/") or _UNSAFE.search(part):
            raise StorageError(
                f"{part!r} cannot be the name of an object: expected a relative name "
                "without '..', backslashes or control characters"
            )
    return "/".join([url.rstrip("/"), *parts])


def is_local(url: str) -> bool:
    """Whether a URL names the local file system."""
    return "://" not in url or url.startswith("file://")


def absolute(url: str) -> str:
    """Return a URL that means the same from any working directory.

    Raises
    ------
    StorageError
        If it holds a secret, or bytes that are no text.
    """
    refuse_bytes(url)
    if not is_local(url):
        refuse_secrets(url)
        return url.rstrip("/")
    return os.path.abspath(os.path.expanduser(url.removeprefix("file://")))


def refuse_bytes(name: str) -> None:
    """Raise `StorageError` if a name holds bytes that are no UTF-8: records could not name it."""
    try:
        name.encode()
    except UnicodeEncodeError as error:
        readable = name.encode(errors="surrogateescape").decode(errors="backslashreplace")
        raise StorageError(
            f"cannot read or write {readable}: its name has bytes that are no UTF-8; rename it"
        ) from error


def refuse_secrets(url: str) -> None:
    """Raise `StorageError` if a URL holds a secret: URLs stand in logs, records and reports."""
    if any(_secret(part) for part in url.split("::")):
        raise StorageError(
            f"{shown(url)} holds a user name, a key or a signature: URLs stand in logs, records "
            "and reports; give secrets by the environment (AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY), a profile (AWS_PROFILE) or a Prefect block"
        )


def _secret(url: str) -> bool:
    if is_local(url):
        return False
    rest = url.partition("://")[2]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return "@" in authority or _SIGNED.search(rest.partition("?")[2]) is not None


def shown(url: str) -> str:
    """Return a URL as it may be shown: without user, password and query.

    >>> shown("https://user:word@host/a.parquet?X-Amz-Signature=1")
    'https://host/a.parquet'
    >>> shown("zip://a.csv::https://user:word@host?sig=1")
    'zip://a.csv::https://host'
    """
    return "::".join(_shown(part) for part in url.split("::"))


def _shown(url: str) -> str:
    if is_local(url):
        return url.encode(errors="surrogateescape").decode(errors="backslashreplace")
    scheme, _, rest = url.partition("://")
    if scheme in ("http", "https") or _SIGNED.search(rest.partition("?")[2]):
        rest = re.split(r"[?#]" if scheme in ("http", "https") else r"\?", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
