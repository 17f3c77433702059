"""What the pages share: templates in ``pages``, figures of the papers in ``published``."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import matplotlib
import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from matplotlib.figure import Figure

HERE = Path(__file__).parent
NOT_SAID = "–"


@dataclass(frozen=True)
class Page:
    """What a template is filled with.

    Attributes
    ----------
    values
        Figures and tables by their names in the template.
    pictures
        By file name.
    seconds
        CPU seconds, where they are not those of this page alone.
    """

    values: dict[str, object]
    pictures: dict[str, Figure] = field(default_factory=dict)
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
            f"{time.strftime('%-d %B %Y')}, {spent:.0f} CPU seconds of one thread; the load of the "
            f"machine ({os.cpu_count()} cores) was {self.load:.1f} at the start and "
            f"{os.getloadavg()[0]:.1f} at the end."
        )


def versions(*packages: str) -> str:
    """Return the versions of distributions that matter on a page."""
    return ", ".join(f"{package} {version(package)}" for package in packages)


def write(page: Page, name: str, folder: Path, clock: Clock, *, quick: bool) -> Path:
    """Write a page and its pictures; returns the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    for file, figure in page.pictures.items():
        # On opaque white, which can be read on dark pages too.
        figure.savefig(folder / file, dpi=110, facecolor="white", metadata={"Software": None})
    templates = Environment(
        loader=FileSystemLoader(HERE / "pages"), undefined=StrictUndefined, autoescape=False
    )
    templates.globals["versions"] = versions
    templates.filters |= {"number": number, "mean_se": mean_se}
    option = " --quick" if quick else ""
    text = templates.get_template(f"{name}.md").render(
        **page.values,
        command=f"`python -m reproduce {name}{option}`",
        time=clock.said(page.seconds),
    )
    if quick:
        title, _, rest = text.partition("\n")
        text = f"{title}\n\n**A quick run, too small to be quoted.**\n{rest}"
    path = folder / f"{name}.md"
    path.write_text(text.rstrip() + "\n", encoding="utf-8")
    return path


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown: keys first, then "published ...", "ours ...", "rival ..."."""
    lines = [columns, ("---",) * len(columns), *rows]
    wrong = [line for line in lines if len(line) != len(columns)]
    if wrong:
        raise ValueError(f"expected rows of {len(columns)} cells, found {wrong[0]}")
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def quoted(name: str) -> list[str]:
    """Return what a page quotes of the text, as it is there; its first line says of which one."""
    path = HERE / "published" / f"{name}.txt"
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


def published(name: str) -> list[np.ndarray]:
    """Return the published tables of a page, whose figures are between blanks."""
    blocks = "\n".join(line for line in quoted(name) if not line.startswith("#")).split("\n\n")
    return [np.array([line.split() for line in b.strip().split("\n")], float) for b in blocks]


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
