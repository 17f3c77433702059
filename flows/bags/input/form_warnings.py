"""What the common form of bags lets expect: few bags, constant features, values far out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flows.bags.input import classes as bag_classes
from flows.bags.input.form import columns_named
from flows.faults import Fault, InputError
from vbmodels.bags.bags import few_bags
from vbmodels.bags.multilabel import FEWER_WORDS, MOST_WORDS
from vbmodels.core.state import FloatArray

FAR_OUT = 1e4
"""Spreads beyond which a value swamps its feature."""


def warnings_of(
    counts: Sequence[int], form: dict[str, Any], built: Sequence[Any], numeric: bool
) -> tuple[list[str], list[str]]:
    """Say what the data let expect: few bags, a class lost to testing; note constant features.

    ``counts`` are the fitted bags with the labels 0 and 1.
    """
    if min(counts) == 0 and not form["classes"]:
        sides = ("below the threshold", "from it on") if numeric else ("labelled 0", "labelled 1")
        raise InputError.of(
            file="settings",
            column="held_out",
            expected=f"labelled bags of both {'halves' if numeric else 'classes'} left for the fit",
            found=f"{counts[0]} {sides[0]} and {counts[1]} {sides[1]}",
            remedy="hold fewer bags out",
        )
    warnings: list[str] = []
    notes: list[str] = []
    if form["classes"]:
        warnings += bag_classes.one_sided(
            form["classes"], np.sum([one[3] for one in built], axis=0)
        )
    if few := few_bags(float(sum(counts)), sum(form["widths"]) + form["own"]):
        warnings.append(few)
    for k, name in enumerate(form["modalities"]):
        low = np.min([b[1][k] for b in built], axis=0)
        high = np.max([b[2][k] for b in built], axis=0)
        named = columns_named(form, k)
        same = [named[d] for d in np.flatnonzero(low == high).tolist()]
        if same:
            which = ", ".join(same[:5])
            which += f" and {len(same) - 5:,} more" if len(same) > 5 else ""
            where = f" of modality {name}" if name else ""
            notes.append(
                f"Feature {which}{where} is constant, so not used."
                if len(same) == 1
                else f"{len(same):,} of {low.size:,} features{where} are constant, so not used: "
                f"{which}."
            )
        warnings += _swamped(name, low, high, [b[4][k] for b in built if b[4][k]], named)
    return warnings, notes


def constant_columns(form: dict[str, Any], built: Sequence[Any]) -> set[str]:
    """Return the named features that have one value in all instances."""
    if not form["names"]:
        return set()
    low = np.min([own for one in built for own in one[1]], axis=0)
    high = np.max([own for one in built for own in one[2]], axis=0)
    return {form["names"][d] for d in np.flatnonzero(low == high).tolist()}


def _swamped(
    name: str, low: FloatArray, high: FloatArray, spreads: list[Any], named: Sequence[Any]
) -> list[str]:
    """Warn of features in which a value lies so far out that z-scores see nothing else."""
    if not spreads:
        return []
    found = np.array(spreads)
    middle, width = np.median(found[:, 0], axis=0), found[:, 1].max(axis=0)
    away = np.maximum(high - middle, middle - low)
    far = np.flatnonzero((width > 0.0) & (away > FAR_OUT * width))
    where = f" of modality {name}" if name else ""
    return [
        f"Feature {named[d]}{where} has a value {away[d]:.3g} from its median where the others "
        f"spread over {width[d]:.3g}: scaled, they are all alike; look for a code for missing "
        "values, clip it or take its logarithm."
        for d in far[:5].tolist()
    ]


def many_words(model: str, found: int) -> Fault:
    """Say that a model cannot take so many words."""
    return Fault(
        file="settings",
        column="model",
        expected=f"at most {MOST_WORDS:,} words (features of rows of length 1) with model={model}",
        found=f"{found:,}",
        remedy=FEWER_WORDS,
    )


def one_modality(model: str, names: Sequence[str]) -> Fault:
    """Say that a model cannot take several modalities."""
    return Fault(
        file="settings",
        column="model",
        expected=f"instances of one modality with model={model}",
        found=f"{len(names)}: {', '.join(name or 'one without a name' for name in names)}",
        remedy="give it one modality, or take model=vmmic",
    )


def without_instances(model: str) -> Fault:
    """Say that a model has nothing to learn from where no bag has an instance."""
    return Fault(
        file="settings",
        column="model",
        expected=f"instances in some bag with model={model}",
        found="none in any bag",
        remedy="give instances their features, or take model=embedding or model=vmmic",
    )
