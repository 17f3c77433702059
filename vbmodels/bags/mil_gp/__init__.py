"""MIL-GP-Probit and MIL-GP-Logistic: sparse Gaussian processes over instances."""
