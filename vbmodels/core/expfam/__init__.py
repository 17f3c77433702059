"""Distributions with their moments, entropy and divergence."""

from vbmodels.core.expfam.beta import Beta
from vbmodels.core.expfam.gamma import Gamma
from vbmodels.core.expfam.gaussian import Gaussian
from vbmodels.core.expfam.normal import Normal

__all__ = ["Beta", "Gamma", "Gaussian", "Normal"]
