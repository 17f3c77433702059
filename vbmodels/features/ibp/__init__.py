"""The Indian buffet process for categorical tables by Polya-Gamma variational inference."""
