"""MIL-GP-Probit: sparse Gaussian processes over instances."""
