"""The default for bags: the embedding, the probit Gaussian process and the base rate, stacked."""
