"""Rows of an additive model and their terms: lines, curves of steps, pairs of columns."""
