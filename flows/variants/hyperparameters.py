"""The hyperparameters of a fit as rows of the parameters' table."""

from __future__ import annotations

from typing import Any

from flows.data.run_tables import Parameter
from vbmodels.variants.batch_null import BatchNull, names_of_types
from vbmodels.variants.contexts import names_of_contexts
from vbmodels.variants.panel import PanelNull
from vbmodels.variants.published.pair import Pair


def hyperparameters(model: Any, q: Any) -> list[Parameter]:
    """Return every hyperparameter of the fit; they are point estimates."""
    if isinstance(model, Pair):
        return [
            Parameter(name, sample, value)
            for sample, of in (("case", q.case), ("control", q.control))
            for name, value in (
                ("mu0", of.a0 / (of.a0 + of.b0)), ("M0", of.a0 + of.b0), ("log_M", of.log_m)
            )
        ]  # fmt: skip
    rows = [
        Parameter("pi", None, q.pi),
        Parameter("w", None, q.w),
        Parameter("log_M_mean", None, q.log_m_mean),
        Parameter("log_M_sd", None, q.log_m_sd),
    ]
    if len(q.rho) > 1:
        means = [f"mean {a / (a + b):.2g}" for a, b in model.alternatives]
        rows += [Parameter("rho", m, float(r)) for m, r in zip(means, q.rho, strict=True)]
    if isinstance(model, BatchNull):
        rows += [
            Parameter("shift_mean", None, q.shift_mean),
            Parameter("shift_sd", None, q.shift_sd),
            Parameter("tau", None, q.tau),
            Parameter("v", None, q.v),
        ]
        rows += [
            Parameter("shift", kind, float(b), float(se))
            for kind, b, se in zip(names_of_types(), q.shift, q.shift_se, strict=True)
        ]
    if isinstance(model, BatchNull) and q.of_context is not None:
        rows += [
            Parameter("context_shift", name, float(b), float(se))
            for name, b, se in zip(
                names_of_contexts(), q.of_context.flat, q.context_se.flat, strict=True
            )
        ]
    if isinstance(model, PanelNull):
        rows += [
            Parameter("member_shift", f"{p + 1} {kind}", float(b))
            for p, of in enumerate(q.member_shift)
            for kind, b in zip(names_of_types(), of, strict=True)
        ]
    for t, kind in enumerate(names_of_types()):
        rows.append(Parameter("error_rate", kind, float(q.a[t] / (q.a[t] + q.b[t]))))
        rows.append(Parameter("error_shape", kind, float(q.a[t])))
    return rows
