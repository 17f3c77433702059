"""Latent binary features behind categorical tables: the Indian buffet process."""
