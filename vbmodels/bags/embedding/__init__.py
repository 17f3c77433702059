"""The embedding: pooled features and kernels of bags in one probit Gaussian."""
