"""The compiled form of the posteriors of mu."""
