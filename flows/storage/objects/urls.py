"""URLs as text: they are put together, compared, and kept free of secrets."""

from __future__ import annotations

import os
import re

from flows.escape import holds_secret, shown_url
from flows.storage.errors import StorageError

_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")

GLOB = re.compile(r"[*?\[]")


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
    """Raise `StorageError` if a URL holds a secret: URLs are in logs, records and reports."""
    if holds_secret(url):
        raise StorageError(
            f"{shown(url)} holds a user name, key or signature, which logs and reports would "
            "show; give it by the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), a "
            "profile (AWS_PROFILE) or a Prefect block"
        )


def shown(url: str) -> str:
    """Return a URL or a path as it may be shown: without secrets, and bytes that are no text."""
    return shown_url(url).encode(errors="surrogateescape").decode(errors="backslashreplace")
