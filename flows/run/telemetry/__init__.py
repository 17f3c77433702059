"""Runs as OpenTelemetry spans and metrics: what takes how long, and how far the fit is."""
