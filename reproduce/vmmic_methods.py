"""The forms of vMMIC that the figures of its paper compare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reproduce.vmmic_as_printed import PrintedVMMIC
from reproduce.vmmic_rivals import Fitted
from vbmodels.bags.bags import Bags
from vbmodels.bags.vmmic.mean_field import MeanFieldVMMIC
from vbmodels.bags.vmmic.model import CollapsedVMMIC
from vbmodels.bags.vmmic.posterior import predict
from vbmodels.core.fit import fit


def variational(model: Any, max_iter: int) -> Callable[[Bags], Fitted]:
    """Fit one of our forms; ``max_iter`` bounds those that creep."""

    def method(data: Bags) -> Fitted:
        posterior = model.posterior(fit(model, [data], tol=1e-6, max_iter=max_iter).q)
        return lambda new: predict(posterior.draws(), posterior.scaling, new)

    return method


COLLAPSED = variational(CollapsedVMMIC(), 4000)
OURS = {
    "collapsed": COLLAPSED,
    "mean field, 200 sweeps": variational(MeanFieldVMMIC(), 200),
    "as printed, 200 sweeps": variational(PrintedVMMIC(), 200),
}
