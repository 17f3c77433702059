"""Distributions of the exponential family, one a file: moments, entropy, divergence."""

from vbmodels.expfam.family import ExponentialFamily
from vbmodels.expfam.gamma import Gamma
from vbmodels.expfam.normal import Normal

__all__ = ["ExponentialFamily", "Gamma", "Normal"]
