"""The default search for features: chains, then fits that moves improve."""
