"""The mixture of experts as its papers print it: bounds, posterior regularisation, sampler."""
