"""URLs as text: they are put together, told apart, and kept free of secrets."""

from __future__ import annotations

import os
import re
from urllib.parse import urlsplit

from flows.storage.errors import StorageError

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
        If it holds a secret.
    """
    if not is_local(url):
        refuse_secrets(url)
        return url.rstrip("/")
    return os.path.abspath(os.path.expanduser(url.removeprefix("file://")))


def refuse_secrets(url: str) -> None:
    """Raise `StorageError` if a URL holds a secret: URLs stand in logs, records and reports."""
    if is_local(url):
        return
    authority, _, rest = url.partition("://")[2].partition("/")
    if "@" in authority or _SIGNED.search(rest.partition("?")[2]):
        raise StorageError(
            f"{shown(url)} holds a user name, a key or a signature: URLs stand in logs, records "
            "and reports; give secrets by the environment (AWS_ACCESS_KEY_ID, "
            "AWS_SECRET_ACCESS_KEY), a profile (AWS_PROFILE) or a Prefect block"
        )


def shown(url: str) -> str:
    """Return a URL as it may be shown: without user, password and query.

    >>> shown("https://user:word@host/a.parquet?X-Amz-Signature=1")
    'https://host/a.parquet'
    """
    if is_local(url):
        return url
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    if scheme in ("http", "https"):
        path = urlsplit(f"//host/{path}").path.removeprefix("/")
    elif _SIGNED.search(path.partition("?")[2]):
        path = path.partition("?")[0]
    return f"{scheme}://{authority.rpartition('@')[2]}{slash}{path}"
