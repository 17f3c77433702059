"""Whether a Prefect server is configured, found out without importing Prefect."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path


def names_server() -> bool:
    """Whether ``PREFECT_API_URL`` is set, in the environment or in Prefect's active profile."""
    return bool(os.environ.get("PREFECT_API_URL") or _active().get("PREFECT_API_URL"))


def _active() -> dict[str, object]:
    """Return the active profile; empty where there is none that can be read."""
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    path = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml").expanduser()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # a file that is wrong is an error of Prefect's, where it is used
        return {}
    profiles = content.get("profiles")
    name = os.environ.get("PREFECT_PROFILE") or content.get("active")
    found = profiles.get(name) if isinstance(profiles, dict) and isinstance(name, str) else None
    return found if isinstance(found, dict) else {}
