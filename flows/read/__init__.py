"""Finished runs as people read them: listed, shown and compared."""
