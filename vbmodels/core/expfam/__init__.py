"""Distributions of the exponential family, one a file: moments, entropy, divergence."""

from vbmodels.core.expfam.beta import Beta
from vbmodels.core.expfam.family import ExponentialFamily
from vbmodels.core.expfam.gamma import Gamma
from vbmodels.core.expfam.gaussian import Gaussian
from vbmodels.core.expfam.normal import Normal
from vbmodels.core.expfam.polya_gamma import PolyaGamma
from vbmodels.core.expfam.truncated import TruncatedNormal
from vbmodels.core.expfam.von_mises_fisher import VonMisesFisher

__all__ = [
    "Beta",
    "ExponentialFamily",
    "Gamma",
    "Gaussian",
    "Normal",
    "PolyaGamma",
    "TruncatedNormal",
    "VonMisesFisher",
]
