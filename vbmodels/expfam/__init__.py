"""Distributions of the exponential family, one a file: moments, entropy, divergence."""

from vbmodels.expfam.bernoulli import Bernoulli
from vbmodels.expfam.beta import Beta
from vbmodels.expfam.dirichlet import Dirichlet
from vbmodels.expfam.family import ExponentialFamily
from vbmodels.expfam.gamma import Gamma
from vbmodels.expfam.gaussian import Gaussian
from vbmodels.expfam.normal import Normal
from vbmodels.expfam.polya_gamma import PolyaGamma
from vbmodels.expfam.truncated import TruncatedNormal
from vbmodels.expfam.von_mises_fisher import VonMisesFisher

__all__ = [
    "Bernoulli",
    "Beta",
    "Dirichlet",
    "ExponentialFamily",
    "Gamma",
    "Gaussian",
    "Normal",
    "PolyaGamma",
    "TruncatedNormal",
    "VonMisesFisher",
]
