"""Ingest: from input tables to partitions of arrays, one module a kind of input."""
