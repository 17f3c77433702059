"""The pipelines: each is the same order of stages over one family's functions."""
