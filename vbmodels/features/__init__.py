"""Latent binary features behind categorical tables: the Indian buffet process.

- IBP with Polya-Gamma variables: `ibp/model.py`; the default search for its features:
  `search/fit.py`. No published source; Polya-Gamma: Polson, Scott and Windle (2013).
- Missing cells by several models, weighed on hidden cells: `imputation/model.py`.
- IBP with multinomial-logit observations, variational (Ruiz et al. 2014): `multinomial.py`.
"""
