"""Whole objects, wherever a URL points: how they are reached, read, written and kept."""
