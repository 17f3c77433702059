"""Bayesian mixtures of logistic experts with priors that keep the experts apart."""
