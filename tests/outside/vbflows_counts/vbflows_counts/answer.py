"""What a run found: ``results`` of its run.json."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """How many groups there are, and the mean of their rates."""

    groups: int
    mean_rate: float
