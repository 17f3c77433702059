"""One page of a reproduced table or figure: what it holds, and how it is written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

GROUPS = ("published", "ours", "rival")
NOT_SAID = "–"


@dataclass(frozen=True)
class Table:
    """A table whose columns after the first ones begin with the name of their group.

    Attributes
    ----------
    caption
        What the table shows, one or two sentences.
    columns
        Headings: keys first ("level"), then "published ...", "ours ...", "rival ...".
    rows
        Cells as they are shown, one tuple a row.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        if wrong:
            raise ValueError(f"expected rows of {len(self.columns)} cells, found {wrong[0]}")

    def groups(self) -> set[str]:
        """Return which of the three groups have a column."""
        return {c.split()[0].rstrip(",:") for c in self.columns if c} & set(GROUPS)

    def markdown(self) -> str:
        """Return the table in Markdown, its caption first."""
        rows = [self.columns, ("---",) * len(self.columns), *self.rows]
        return "\n".join([self.caption, "", *("| " + " | ".join(row) + " |" for row in rows)])


@dataclass(frozen=True)
class Page:
    """Everything that a page says apart from its date, its command and the versions.

    Attributes
    ----------
    source
        The published table: paper, number, and its lines in the text version.
    says
        What came out, in a few sentences or list items.
    differences
        Where our figures differ from the published ones, one sentence each why.
    seeds
        Which seeds, and what a standard error in brackets is over.
    packages
        Distributions whose versions matter here.
    figures
        File name, picture, description.
    seconds
        CPU seconds, where they are not those of this page alone.
    """

    title: str
    source: str
    says: str
    tables: tuple[Table, ...]
    differences: tuple[str, ...]
    seeds: str
    packages: tuple[str, ...] = ("numpy", "scipy", "scikit-learn")
    figures: tuple[tuple[str, Figure, str], ...] = field(default=())
    seconds: float | None = None


@dataclass
class Clock:
    """CPU seconds and load since it was made."""

    begin: float = field(default_factory=time.process_time)
    load: float = field(default_factory=lambda: os.getloadavg()[0])

    def said(self, seconds: float | None = None) -> str:
        """Return one sentence on what the run took."""
        spent = time.process_time() - self.begin if seconds is None else seconds
        return (
            f"{spent:.0f} CPU seconds of one thread; the load of the machine ({os.cpu_count()} "
            f"cores) was {self.load:.1f} at the start and {os.getloadavg()[0]:.1f} at the end"
        )


def write(page: Page, name: str, folder: Path, clock: Clock, *, quick: bool) -> Path:
    """Write a page and its pictures; returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = [f"# {page.title}", f"Published: {page.source}.", page.says]
    for file, figure, alt in page.figures:
        draw(figure, folder / file)
        parts.append(f"![{alt}]({file})")
    parts += [table.markdown() for table in page.tables]
    parts.append("## Where we differ, and why")
    parts.append("\n".join(f"- {line}" for line in page.differences))
    versions = ", ".join(f"{package} {version(package)}" for package in page.packages)
    parts += [
        "## How this was made",
        "\n".join(
            [
                f"- Command: `python -m reproduce {name}{' OPTIONS=--quick' if quick else ''}`",
                f"- Seeds and standard errors: {page.seeds}",
                f"- Time: {time.strftime('%-d %B %Y')}, {clock.said(page.seconds)}.",
                f"- Versions: {versions}.",
            ]
        ),
    ]
    if quick:
        parts.insert(1, "**A quick run, too small to be quoted.**")
    path = folder / f"{name}.md"
    path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return path


def draw(figure: Figure, path: Path) -> None:
    """Save a picture on opaque white, which can be read on dark pages too."""
    figure.savefig(path, dpi=110, facecolor="white", metadata={"Software": None})


def canvas(columns: int = 1, rows: int = 1, width: float = 4.2, height: float = 3.2) -> Figure:
    """Return an empty figure with axes, drawn without a display."""
    matplotlib.use("Agg")
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    figure.subplots(rows, columns, squeeze=False)
    return figure


def number(value: float, digits: int = 3) -> str:
    """Return a figure without its leading zero, or a dash for what there is none of."""
    if not np.isfinite(value):
        return NOT_SAID
    shown = f"{value:.{digits}f}"
    return shown.replace("0.", ".", 1) if abs(value) < 1.0 and digits else shown


def mean_se(values: Iterable[float], digits: int = 3) -> str:
    """Return mean and standard error over seeds; the mean alone of one seed."""
    found = np.array([v for v in values if np.isfinite(v)], dtype=float)
    if not found.size:
        return NOT_SAID
    if found.size == 1:
        return number(float(found[0]), digits)
    error = float(found.std(ddof=1) / np.sqrt(found.size))
    return f"{number(float(found.mean()), digits)} ({number(error, digits)})"


def figures_of(text: str) -> tuple[tuple[float, ...], ...]:
    """Read a published table from its lines, copied as they stand: blanks between figures."""
    return tuple(tuple(map(float, line.split())) for line in text.strip().splitlines())


def rows_of(*columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return rows from columns of cells."""
    return tuple(zip(*columns, strict=True))
