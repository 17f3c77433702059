"""What the report says of the share of the words that are keywords: who tells it, how surely."""

from __future__ import annotations

from typing import Any

import numpy as np

from flows.keywords.names import WORDS, Names
from flows.report.page import Grid, Section
from vbmodels.keywords.corpus import CorpusGlobal, CorpusProbit
from vbmodels.keywords.rate import SOURCES


def rate_results(q: CorpusGlobal, model: CorpusProbit) -> dict[str, Any]:
    """Return the rate, the length exponent and their standard deviations for the record."""
    return {
        "keyword_rate": q.rate,
        "keyword_rate_log_sd": q.sources.combined()[1],
        "keyword_rate_sources": [SOURCES[i] for i in q.sources.speaking],
        "length_exponent": q.exponent,
        "length_exponent_sd": model.exponent_sd(q),
    }


def rate_section(q: CorpusGlobal, model: CorpusProbit, names: Names = WORDS) -> Section:
    """Name every source of the rate with its factor and sd, and say what they give together."""
    mean, sd = q.sources.combined()
    rows: list[tuple[Any, ...]] = []
    for i in q.sources.speaking:
        log_rate, own = float(q.sources.log_rate[i]), float(q.sources.source_sd[i])
        rows.append((SOURCES[i], float(np.exp(log_rate)), float(np.exp(log_rate - mean)), own))
    rows.append(("together", float(np.exp(mean)), 1.0, sd))
    text = (
        f"The share of the candidate {names.units} that are {names.keys}, by whatever tells it: "
        "each source with its factor to all of them together and the standard deviation of the "
        "logarithm. "
        + (
            "It was given as a fact. "
            if q.sources.exact
            else "Probabilities are averaged over what is left open. "
        )
        + f"A document of n {names.units} has a number of {names.keys} that grows as n to the "
        f"power {q.exponent:.2f} (sd {model.exponent_sd(q):.2g})."
    )
    columns = ("source", "rate", "factor", "sd of log")
    return Section(f"How many {names.units} are {names.keys}", text, (), (Grid(columns, rows),))
