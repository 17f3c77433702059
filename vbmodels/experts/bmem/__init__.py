"""The Bayesian mixture of experts of its paper: bounds, posterior regularisation, sampler."""
