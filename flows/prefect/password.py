"""The password of the Prefect server that `vbflows serve` starts, in a file of its user."""

from __future__ import annotations

import os
import re
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from flows.faults import RunError

_LINE = re.compile(r"admin:[\w-]{32,}")
_MOST_BYTES = 1024


def path() -> Path:
    """Return the file: one line, user and password as Prefect's page and API take them."""
    folder = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(folder) if os.path.isabs(folder) else Path.home() / ".config"
    return base / "vbflows" / "prefect-password"


def new() -> str:
    """Return a user and a new random password, as Prefect takes them."""
    return f"admin:{secrets.token_urlsafe(32)}"


def kept() -> str:
    """Return the line of the file, which the first call makes: mode 0600 in a folder of 0700.

    Raises
    ------
    RunError
        If it cannot be made or read, or is not this user's alone.
    """
    file = path()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _refuse_folder_of_others(file.parent)
        if not file.exists():
            _make(file)
        return _read(file)
    except OSError as error:
        raise RunError(
            f"the password of Prefect's page, {file}, cannot be made or read ({error.strerror}); "
            "make its folder writable, or set XDG_CONFIG_HOME to another"
        ) from error


def _make(file: Path) -> None:
    """Write the file whole, or leave the one that another process has made meanwhile."""
    draft = file.with_name(f".{file.name}-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as out:
            out.write(f"{new()}\n")
        with suppress(FileExistsError):
            os.link(draft, file)  # unlike a rename, it replaces nothing
    finally:
        draft.unlink()


def _read(file: Path) -> str:
    with os.fdopen(os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise RunError(
                f"{file} must be a file of this user that nobody else can read or write; remove "
                "it, and the next start makes a new one"
            )
        line = opened.read(_MOST_BYTES).decode("ascii", "replace").strip()
    if _LINE.fullmatch(line) is None:
        raise RunError(
            f"{file} does not hold a password that vbflows made; remove it, and the next start "
            "makes a new one"
        )
    return line


def _refuse_folder_of_others(folder: Path) -> None:
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise RunError(
            f"the folder {folder} must belong to this user and be writable by nobody else; mend "
            "that (chmod 700), or set XDG_CONFIG_HOME to another folder"
        )
