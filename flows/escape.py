"""Text made safe to print: what would move a cursor or hide is spelt out, secrets of URLs go."""

from __future__ import annotations

import re
from urllib.parse import unquote

_CONTROLS = (
    "\x00-\x1f\x7f-\x9f"  # C0, DEL and C1: escapes of a terminal begin with them
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks, overrides and isolates of direction
    "\u2028\u2029"  # breaks of lines and paragraphs
    "\u00ad\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e007f"  # of no width, or as a space looks
    "\ud800-\udfff\ufffe\uffff"  # halves of pairs, no characters
)
_WIDE = "[^\x00-\u024f]"  # what is not of a Latin script
_UNSAFE = re.compile(
    "(?P<flag>\U0001f3f4[\U000e0030-\U000e007a]+\U000e007f)"  # a region's flag is one emoji
    f"|[{_CONTROLS}]"
    # Joiners are part of words and of emoji, but between Latin letters they hide.
    f"|(?<!{_WIDE})[\u200c\u200d]+(?!{_WIDE})"
)


def escaped(text: str) -> str:
    r"""Return text in one line that can be printed: everything unsafe as its escape in Python.

    >>> print(escaped("\x1b]0;title\x07 a\u202eb\nc"))
    \x1b]0;title\x07 a\u202eb\nc
    """
    return _UNSAFE.sub(_spelt_out, text)


def _spelt_out(match: re.Match[str]) -> str:
    return match["flag"] or match[0].encode("unicode_escape").decode()


_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"<>]+")
_SECRET = re.compile(
    r"(?i)[?#;&][^=?#;&/]*"
    r"(signature|credential|token|secret|passw|passphrase|passcode|pwd|bearer|session|jwt"
    r"|auth(?!or(?!i[sz]))|key(?!word|board)"
    r"|(?<![a-z])(sig|sas|pw|pass)(?![a-z]))[^=?#;&/]*="
)
_AZURE = {"abfs", "abfss", "az"}  # written abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/path


def holds_secret(url: str) -> bool:
    """Whether a URL, or one of several joined by ``::``, has a user's name or a secret in it."""
    return any(_has_secret(part) for part in url.split("::"))


def shown_url(url: str) -> str:
    """Return a URL as it may be shown: without user, password, and what may hold a secret.

    >>> shown_url("https://user:word@host/a.parquet?X-Amz-Signature=1")
    'https://host/a.parquet'
    >>> shown_url("zip://a.csv::https://user:word@host?sig=1")
    'zip://a.csv::https://host'
    """
    return "::".join(_shown(part) for part in url.split("::"))


def without_secrets(text: str) -> str:
    """Return text with the URLs in it as they may be shown, where they hold a secret.

    >>> without_secrets("no answer from https://host/a?pwd=x; try s3://b/a")
    'no answer from https://host/a try s3://b/a'
    """
    return _URL.sub(lambda url: shown_url(url[0]) if holds_secret(url[0]) else url[0], text)


def _remote(url: str) -> bool:
    return "://" in url and not url.startswith("file://")


def _has_secret(url: str) -> bool:
    if not _remote(url):
        return False
    scheme, _, rest = url.partition("://")
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    return _names_user(scheme, authority) or _SECRET.search(unquote(rest)) is not None


def _names_user(scheme: str, authority: str) -> bool:
    """Whether an authority has a user in it; Azure's has a container in its place."""
    user, at, _ = authority.rpartition("@")
    return bool(at) and (scheme.lower() not in _AZURE or ":" in user or "@" in user)


def _shown(url: str) -> str:
    if not _remote(url):
        return url
    scheme, _, rest = url.partition("://")
    http = scheme.lower() in ("http", "https")
    if _SECRET.search(unquote(rest)):
        rest = re.split(r"[?#;&]|%3[bfBF]|%2[36]", rest, maxsplit=1)[0]
    elif http:
        rest = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = rest.partition("/")
    if _names_user(scheme, authority):
        authority = authority.rpartition("@")[2]
    return f"{scheme}://{authority}{slash}{path}"
