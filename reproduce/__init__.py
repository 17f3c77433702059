"""The papers' tables and figures, ours beside theirs: ``python -m reproduce NAME``."""
