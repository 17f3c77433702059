"""The papers' RVD2: the model, its kernels, its sampler and the papers' test."""
