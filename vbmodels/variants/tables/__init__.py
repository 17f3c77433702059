"""The compiled form of the likelihood tables."""
