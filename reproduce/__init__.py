"""The papers' tables and figures and ours: ``python -m reproduce NAME``."""
