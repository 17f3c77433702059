"""A run: the one order of its stages, what it keeps for a resume, and who hears of it."""
