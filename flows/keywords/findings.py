"""What a run says of its models: parameters worth reading, and the findings of each unit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.data.run_tables import Parameter
from flows.keywords.names import Names
from flows.keywords.rate_report import rate_results, rate_section
from flows.keywords.report import KeywordSummary, report
from flows.keywords.settings import KeywordSettings
from flows.report.page import Findings, Section
from vbmodels.keywords.corpus import CorpusProbit, doubts
from vbmodels.keywords.pooled import PooledVBSS, coefficient_table, reliability


def parameters_of(model: Any, q: Any, features: Sequence[str]) -> list[Parameter]:
    """Return the coefficients, and the rate and the length exponent where there are any."""
    rows = coefficient_table(q, tuple(features[: len(q.location)]), model)
    found = [Parameter("coefficient", *row) for row in rows]
    if isinstance(model, CorpusProbit):
        log_sd = q.sources.combined()[1]
        found += [
            Parameter("keyword_rate", None, q.rate, q.rate * log_sd),
            Parameter("length_exponent", None, q.exponent, model.exponent_sd(q)),
        ]
    return found


def findings_of(
    model: Any, q: Any, summaries: Sequence[KeywordSummary], settings: KeywordSettings,
    features: Sequence[str], names: Names,
) -> Findings:  # fmt: skip
    """Say what was found of words, or of phrases."""
    warnings: tuple[str, ...] = ()
    results: dict[str, Any] = {}
    coefficients: list[tuple[str, float, float]] = []
    sections: list[Section] = []
    if q is not None and isinstance(model, CorpusProbit | PooledVBSS):
        if isinstance(model, CorpusProbit):
            reasons = doubts(q, names.rate)
            results.update(rate_results(q, model))
            sections.append(rate_section(q, model, names))
        else:
            reasons = reliability(q, settings.keyword_rate is not None).reasons
            results["keyword_rate"] = q.rate if np.isfinite(q.rate) else None
        warnings = tuple(
            f"The false discovery rate{names.of} is not reliable: {reason}." for reason in reasons
        )
        rows = coefficient_table(q, tuple(features[: len(q.location)]), model)
        varies = np.isfinite(q.scale)
        coefficients = [
            row for row, it in zip(rows, varies, strict=True) if it and row[0] != "intercept"
        ]
    return report(summaries, coefficients, settings, results, warnings, sections, names)
