"""What a model of bags says, whichever it is: of bags, of instances, of its own coefficients."""

from __future__ import annotations

from dataclasses import dataclass

from vbmodels.core.state import FloatArray


@dataclass(frozen=True)
class Scores:
    """What a model says of bags: P(y = 1) [B]; of their instances, [N_k] for each modality.

    ``probability`` is None where a model tells instances' contributions only. ``bald`` and
    ``bag_bald`` are what a label is expected to tell, in nats, where a model knows it. ``reasons``
    are what each of some named parts adds to the bags' probit scores, [B, M].
    """

    bags: FloatArray
    probability: tuple[FloatArray, ...] | None
    score: tuple[FloatArray, ...]
    contribution: tuple[FloatArray, ...] | None
    bald: tuple[FloatArray, ...] | None = None
    bag_bald: FloatArray | None = None
    reasons: FloatArray | None = None
    reason_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Coefficients:
    """The posterior of one block of coefficients on scaled features.

    ``modality`` is its number, None for the bags' own features; ``of_class`` that of the class,
    where there are several.
    """

    name: str
    modality: int | None
    mean: FloatArray
    sd: FloatArray
    of_class: int | None = None
