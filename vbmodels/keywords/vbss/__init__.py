"""VBSS: semi-supervised keywords of one document by variational Bayes, and its sampler."""
