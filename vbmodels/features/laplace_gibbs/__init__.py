"""The latent feature model by collapsed Gibbs sampling with Laplace's weights."""
