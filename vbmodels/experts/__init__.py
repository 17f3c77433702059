"""Bayesian mixtures of logistic experts with priors that keep the experts apart.

- Additive model of lines and curves with a mixture of experts, the default: `additive/model.py`. No
  published source.
- BMEM, mixture of logistic experts by coordinate ascent: `bmem/model.py`, with the mutual
  angular prior of type II in `bmem/mutual_angular.py` (Xie, Zhu and Xing 2016); its sampler:
  `bmem/metropolis.py`.
"""
