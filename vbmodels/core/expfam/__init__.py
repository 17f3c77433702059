"""Distributions of the exponential family, one a file: moments, entropy, divergence."""

from vbmodels.core.expfam.bernoulli import Bernoulli
from vbmodels.core.expfam.beta import Beta
from vbmodels.core.expfam.dirichlet import Dirichlet
from vbmodels.core.expfam.family import ExponentialFamily
from vbmodels.core.expfam.gamma import Gamma
from vbmodels.core.expfam.gaussian import Gaussian
from vbmodels.core.expfam.normal import Normal
from vbmodels.core.expfam.polya_gamma import PolyaGamma
from vbmodels.core.expfam.truncated import TruncatedNormal
from vbmodels.core.expfam.von_mises_fisher import VonMisesFisher

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
