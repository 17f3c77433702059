"""The papers' tables and figures, ours beside theirs: ``python -m benchmarks.reproduce NAME``."""
