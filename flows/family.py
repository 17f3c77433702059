"""What one family of models supplies to the common pipeline: plain functions, in data order."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from flows import storage
from flows.faults import Fault, InputError
from flows.records.runs import Dropped, Parameter, RunPaths, RunRecord
from flows.settings import RunSettings
from flows.settings.base import FILE, FOLDER
from flows.storage import InputFile, Sources
from flows.tables.checks import Kinds, faults_of
from flows.tables.file_table import file_table_of
from flows.tables.partition import Part
from vbmodels.core.state import State
from vbmodels.tables.column_table import ColumnRead

R = TypeVar("R")


@dataclass(frozen=True)
class Checked:
    """What the check of one file found."""

    rows: int
    faults: tuple[Fault, ...] = ()
    keys: Sequence[str] = ()  # names that may be in no other file
    row: str = field(default="row", kw_only=True)  # what a row is
    files: int = field(default=1, kw_only=True)  # of a sheet: those that it names


@dataclass(frozen=True)
class CheckedPiece:
    """What a check found in the rows that a partition has of one file, as plain values.

    Attributes
    ----------
    url
        The file.
    rows
        How many rows.
    faults
        What is wrong in them.
    names
        Their names, as JSON; empty where the file has none.
    about
        What else the family needs to know of them.
    """

    url: str
    rows: int
    faults: Kinds = field(default_factory=dict)
    names: str = ""
    about: Any = None


class WrongRows(InputError):
    """Some rows of a partition are not what its family declares; ``pieces``: of all its rows."""

    def __init__(self, pieces: Sequence[CheckedPiece], faults: Sequence[Fault]) -> None:
        super().__init__(faults)
        self.pieces = tuple(pieces)


def refuse_wrong(pieces: Sequence[CheckedPiece]) -> None:
    """Raise `WrongRows` where some of a partition's rows are wrong."""
    if faults := [fault for piece in pieces for fault in faults_of(piece.faults)]:
        raise WrongRows(pieces, faults)


def names_of(pieces: Sequence[CheckedPiece]) -> list[str]:
    """Return the names in some pieces."""
    return [name for piece in pieces if piece.names for name in json.loads(piece.names)]


@dataclass(frozen=True)
class Ingested:
    """One partition, read, cleaned and stored in the run's own form.

    Attributes
    ----------
    rows_read, rows_kept, dropped
        What became of its rows.
    notes
        The family's own counts.
    checked
        What its check found, file by file, where the family checks as it reads.
    faults
        Why it was refused, in whole.
    """

    rows_read: int
    rows_kept: int
    dropped: tuple[Dropped, ...] = ()
    notes: dict[str, float] = field(default_factory=dict)
    checked: tuple[CheckedPiece, ...] = ()
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Prepared:
    """The partitions of a run, ready to be fitted.

    Attributes
    ----------
    partitions
        URL of every partition's arrays; the position is the partition's id.
    batch
        Class of a partition's data.
    warnings
        What the user should know.
    notes
        What was inferred and is most likely right.
    dropped
        Rows that ingest kept and that turned out to be of no use once all were together.
    columns
        How every column of the input was read, and whether it is used.
    further_fits
        What fits that test the one cost, in fits.
    """

    partitions: tuple[str, ...]
    batch: type[State]
    warnings: tuple[str, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    columns: tuple[ColumnRead, ...] = ()
    notes: tuple[str, ...] = ()
    further_fits: float = 0.0


def reading_of(family: Family, settings: RunSettings) -> AbstractContextManager[None]:
    """Read a family's files as its settings say, in a context."""
    documents = any(end in family.suffixes for end in storage.DOCUMENTS)
    return storage.reading_with(
        storage.FileOptions(
            settings.encoding,
            settings.skip_rows,
            settings.sheet,
            documents,
            tuple(name for name in (FILE, FOLDER) if name in settings.columns.values()),
            file_table_of(settings),
        )
    )


class Each(Protocol):
    """Applies a function to many items wherever computing is done, results in order."""

    def __call__(self, function: Callable[..., R], items: Sequence[Any], *args: Any) -> list[R]:
        """Return ``[function(item, *args) for item in items]``."""


class Family(ABC):
    """One pipeline's own functions; everything else is common.

    What takes a part or a batch may run in another process: it gets plain values and
    writes what is large through storage. ``fitted`` is the finished run whose posterior is
    applied to new data; None while fitting. `flows.one_table.ReadsOneTable` has what follows from
    one declared table: ``class MyFamily(ReadsOneTable, Family)``.

    Attributes
    ----------
    name
        As it is registered.
    suffixes
        Endings of files that are read.
    settings
        The class of its settings.
    """

    name: str
    suffixes: tuple[str, ...]
    settings: type[RunSettings]

    def settings_from_input(self, source: Sources, settings: Any) -> Any:
        """Return the settings with what the input says, before it is checked.

        What is wrong with the input, beyond what it says of settings, is left to the check.
        """
        return settings

    @abstractmethod
    def read_header(self, file: InputFile, settings: Any) -> Checked:
        """List the faults that a file's footer shows; read no more than what cuts it."""

    @abstractmethod
    def check(self, part: Part, settings: Any) -> tuple[CheckedPiece, ...]:
        """Read a partition's rows, and say what is wrong in them and what they hold.

        `ingest` does so too, as it reads them, and raises `WrongRows`.
        """

    @abstractmethod
    def merge(
        self, file: InputFile, header: Checked, pieces: Sequence[CheckedPiece], settings: Any
    ) -> Checked:
        """Return the check of a whole file: the sum of its pieces, in the order of their rows.

        ``header``: what `read_header` returned.
        """

    @abstractmethod
    def validate_dataset(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[Fault]:
        """List what is wrong between files that are each right."""

    def require_labels(self, files: Sequence[InputFile], checked: Sequence[Checked]) -> list[Fault]:
        """List what a fit lacks in files that are right, such as labels, which scoring does not."""
        return []

    def group_files(
        self, files: Sequence[InputFile], checked: Sequence[Checked]
    ) -> list[list[int]]:
        """Return groups of positions of files; no unit has rows in two groups."""
        return [[position] for position in range(len(files))]

    @abstractmethod
    def plan(
        self, files: Sequence[InputFile], checked: Sequence[Checked], settings: Any
    ) -> list[Part]:
        """Cut the input into partitions."""

    def threads(self, settings: Any) -> bool:
        """Return whether most of the work is in compiled code that releases Python's lock."""
        return False

    @abstractmethod
    def ingest(self, part: Part, settings: Any, paths: RunPaths) -> Ingested:
        """Read, check, clean and store one partition; raise `WrongRows` where some are wrong."""

    @abstractmethod
    def prepare(
        self,
        parts: Sequence[Part],
        settings: Any,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> Prepared:
        """Turn ingested partitions into arrays, with whatever needs all of them at once."""

    @abstractmethod
    def model(self, settings: Any) -> Any:
        """Return the model to fit; None where there is nothing to fit."""

    def model_for_data(self, model: Any, prepared: Prepared) -> Any:
        """Return the model for what these partitions were found to be; ``model``: of `model`."""
        return model

    def warnings_before_fit(self, q: Any, settings: Any) -> Sequence[str]:
        """Return warnings of the report that are known before the fit, beyond `Prepared.warnings`.

        ``q``: where the fit starts; None where there is nothing to fit.
        """
        return ()

    @abstractmethod
    def score(
        self,
        model: Any,
        q: Any,
        batch: Any,
        local: Any,
        index: int,
        *,
        settings: Any,
        paths: RunPaths,
        fitted: RunPaths | None,
    ) -> Any:
        """Write one partition's results; return a small summary of them."""

    def select(
        self,
        model: Any,
        q: Any,
        summaries: Sequence[Any],
        *,
        settings: Any,
        paths: RunPaths,
        fitted: RunPaths | None,
        each: Each,
    ) -> tuple[Sequence[Any], Any]:
        """Write what depends on all summaries; return those for the report, and the posterior.

        The posterior is ``q``, with what only all partitions together determine.
        """
        return summaries, q

    @abstractmethod
    def keep(self, q: Any, settings: Any, paths: RunPaths, fitted: RunPaths | None) -> None:
        """Store with the posterior whatever scoring new data will need."""

    @abstractmethod
    def posterior(self, model: Any, q: Any, paths: RunPaths) -> list[Parameter]:
        """Return every global parameter worth reading."""

    @abstractmethod
    def answer(self, finished: Finished) -> Any:
        """Return everything that a reader of the run may see, as a frozen record.

        `RunSettings.answer` names its module; its words are in templates (`flows.report.render`).
        """

    def page_data(self, finished: Finished) -> Any:
        """Return what the page shows and is too large for the answer, as plain values."""
        return None

    @abstractmethod
    def simulate(self, target: str, rows: int, seed: int) -> list[str]:
        """Draw data from the model and write them with their truth; return the URLs."""


@dataclass(frozen=True)
class Finished:
    """What an answer is made from, once every partition is scored.

    Attributes
    ----------
    model, q
        The model, and its posterior; None where there was nothing to fit.
    summaries, ingested
        What `Family.score` and `Family.ingest` returned of every partition, in order.
    settings, paths
        The settings, and where the published tables are.
    fit
        Of a score: the record of the fit that is applied; `flows.report.answers.of_results` reads
        its answer.
    files, seen
        Input files, and how many of them that fit has read.
    """

    model: Any
    q: Any
    summaries: Sequence[Any]
    ingested: Sequence[Ingested]
    settings: Any
    paths: RunPaths
    fit: RunRecord | None
    files: int
    seen: int
