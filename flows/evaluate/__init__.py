"""How good predictions are on rows that a fit has not seen: numbers alone, for every family."""
