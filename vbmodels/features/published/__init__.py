"""The latent feature model as Ruiz et al. print it: their bound and their sampler."""
