"""Bags of instances with one label a bag: which are positive, and which instance makes them so.

- Stack, the default: `stack/model.py`, of the embedding and MIL-GP-Probit. No published source.
- Embedding: `embedding/model.py`. No published source.
- MIL-GP-Probit (Wang and Pinar 2021): `mil_gp/model.py`; exact sampler: `mil_gp/gibbs.py`.
- vMMIC (Hu 2024, chapter 2), local variables integrated out: `vmmic/model.py`; the mean field of
  the source: `vmmic/mean_field.py`; MICProB's sampler: `vmmic/gibbs.py`.
"""
