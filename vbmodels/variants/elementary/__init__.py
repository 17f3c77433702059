"""Elementary and gamma functions, compiled."""
