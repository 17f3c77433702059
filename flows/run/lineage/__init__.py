"""Runs as OpenLineage events: what was read, what was written, how it ended."""
