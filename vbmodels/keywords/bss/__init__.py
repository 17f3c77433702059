"""BSS: the Bayesian semi-supervised model before VBSS, by sampling."""
