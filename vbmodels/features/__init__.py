"""Latent binary features behind categorical tables: the Indian buffet process.

- IBP with Polya-Gamma variables: `ibp/model.py`; the default search for its features:
  `search/fit.py`. No published source; Polya-Gamma: Polson, Scott and Windle (2013).
- Missing cells by several models, weighed on hidden cells: `imputation/model.py`.
- The forms of Ruiz et al. (2014), variational with multinomial-logit observations and collapsed
  Gibbs sampling with Laplace-approximated weights, are in `reproduce`.
"""
