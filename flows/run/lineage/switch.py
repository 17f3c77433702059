"""Whether OpenLineage is asked for, by its own environment variables."""

from __future__ import annotations

import os

_NAMES = ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG")
TRANSPORT = "OPENLINEAGE__TRANSPORT"


def asked_by() -> str:
    """Return the variable that asks for it; empty where none does."""
    if os.environ.get("OPENLINEAGE_DISABLED", "").strip().lower() in ("true", "1"):
        return ""
    names = [*_NAMES, *sorted(name for name in os.environ if name.startswith(TRANSPORT))]
    return next((name for name in names if os.environ.get(name)), "")
