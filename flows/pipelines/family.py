"""What one family of models supplies to the common pipeline: plain functions, in data order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from flows.faults import Fault
from flows.publish.report import Section
from flows.publish.run import Dropped, RunPlace, RunRecord
from flows.settings import RunSettings
from flows.storage import InputFile
from vbmodels.state import State

R = TypeVar("R")


@dataclass(frozen=True)
class Checked:
    """What the check of one file found."""

    rows: int
    faults: tuple[Fault, ...] = ()
    keys: tuple[str, ...] = ()  # names that must be unique over all files


@dataclass(frozen=True)
class Ingested:
    """One input file, read, cleaned and stored in the run's own form."""

    url: str
    rows_read: int
    rows_kept: int
    dropped: tuple[Dropped, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """The partitions of a run, ready to be fitted.

    Attributes
    ----------
    partitions
        URL of every partition's arrays; the position is the partition's id.
    batch
        Class of a partition's data.
    rows
        Rows in every partition.
    dropped
        What could not be used beyond what ingest dropped.
    warnings
        What the user should know.
    """

    partitions: tuple[str, ...]
    batch: type[State]
    rows: tuple[int, ...]
    dropped: tuple[Dropped, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Findings:
    """What the report says: the main finding, its parts, and numbers for run.json."""

    headline: str
    sections: Sequence[Section]
    results: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    top: Sequence[dict[str, Any]] = ()  # rows for the run's page


class Each(Protocol):
    """Applies a function to many items on whatever computes, results in order."""

    def __call__(self, function: Callable[..., R], items: Sequence[Any], *args: Any) -> list[R]:
        """Return ``[function(item, *args) for item in items]``."""


class Family(Protocol):
    """One pipeline's own functions; everything else is common.

    Every function that takes a URL may run in another process: it gets plain values and
    writes what is large through storage.
    """

    name: str
    suffixes: tuple[str, ...]
    settings: type[RunSettings]

    def check(self, file: InputFile, settings: Any) -> Checked:
        """Read one file and list every fault in it."""

    def ingest(self, file: InputFile, settings: Any, place: RunPlace) -> Ingested:
        """Read, clean and store one file."""

    def prepare(
        self, ingested: Sequence[Ingested], settings: Any, place: RunPlace, each: Each
    ) -> Prepared:
        """Cut what was ingested into partitions of arrays."""

    def prepare_score(
        self,
        ingested: Sequence[Ingested],
        settings: Any,
        place: RunPlace,
        fitted: RunPlace,
        each: Each,
    ) -> Prepared:
        """Cut new data into partitions in the way of the run that was fitted."""

    def model(self, settings: Any, prepared: Prepared) -> Any:
        """Return the model to fit; None where there is nothing to fit."""

    def score(
        self, model: Any, q: Any, batch: Any, local: Any, index: int, settings: Any, place: RunPlace
    ) -> Any:
        """Write one partition's results; return a small summary of them."""

    def keep(self, q: Any, prepared: Prepared, settings: Any, place: RunPlace) -> None:
        """Store beside the posterior whatever scoring new data will need."""

    def posterior(self, model: Any, q: Any) -> list[tuple[Any, ...]]:
        """Return (name, index, mean, sd) of every global parameter worth reading."""

    def report(
        self, record: RunRecord, model: Any, q: Any, summaries: Sequence[Any], settings: Any
    ) -> Findings:
        """Say what was found."""

    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw data from the model and write them with their truth; return the URLs."""
