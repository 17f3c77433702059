"""The pipelines by name: what each answers and its settings; its code is loaded when it runs."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from flows.bags.settings import BagSettings
from flows.experts.settings import ExpertSettings
from flows.faults import Fault, InputError
from flows.features.settings import FeatureSettings
from flows.keywords.settings import KeywordSettings
from flows.settings import RunSettings
from flows.variants.settings import VariantSettings

if TYPE_CHECKING:
    from flows.family import Family


@dataclass(frozen=True)
class Entry:
    """A pipeline as the command line lists it."""

    question: str
    settings: type[RunSettings]
    module: str  # holds the family as FAMILY


PIPELINES: dict[str, Entry] = {
    "bags": Entry(
        "Which bags are positive, and which of their instances make them so?",
        BagSettings,
        "flows.bags.family",
    ),
    "experts": Entry(
        "What is the label of each row, and which expert is responsible for it?",
        ExpertSettings,
        "flows.experts.family",
    ),
    "features": Entry(
        "Which hidden features explain a table of categories, and who has them?",
        FeatureSettings,
        "flows.features.family",
    ),
    "keywords": Entry(
        "Which words of each document are its keywords, given a few that are known?",
        KeywordSettings,
        "flows.keywords.family",
    ),
    "variants": Entry(
        "Which alleles are in the case's reads beyond errors, compared with a control?",
        VariantSettings,
        "flows.variants.family",
    ),
}


def pipeline_named(name: str) -> Family:
    """Load a pipeline.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    if name not in PIPELINES:
        near = difflib.get_close_matches(name, PIPELINES, n=1)
        raise InputError(
            [
                Fault(
                    file="command line",
                    expected=f"one of the pipelines {', '.join(sorted(PIPELINES))}",
                    found=repr(name),
                    remedy=f"did you mean {near[0]}?" if near else None,
                )
            ]
        )
    family: Family = import_module(PIPELINES[name].module).FAMILY
    return family
