"""The latent feature model with multinomial-logit observations, variational."""
