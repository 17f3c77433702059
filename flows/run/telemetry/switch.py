"""Whether OpenTelemetry is asked for, by its own environment variables."""

from __future__ import annotations

import os

_ENDPOINT = "OTEL_EXPORTER_OTLP{}_ENDPOINT"


def asked_by() -> str:
    """Return the variable that asks for spans or metrics; empty where none does."""
    return of_signal("TRACES") or of_signal("METRICS")


def of_signal(signal: str) -> str:
    """Return the variable that asks for ``TRACES`` or ``METRICS``; empty where none does."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return ""
    if os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() == "none":
        return ""
    names = (_ENDPOINT.format(f"_{signal}"), _ENDPOINT.format(""))
    return next((name for name in names if os.environ.get(name)), "")
