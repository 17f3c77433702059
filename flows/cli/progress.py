"""How a run goes, on a terminal: a bar, or plain lines where there is none."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from flows.escape import escaped
from flows.events import Event, Line, Pace, PartDone, Stage, Sweep


class Lines:
    """Plain lines, at most one sweep in five seconds."""

    def __init__(self, console: Console, every: float = 5.0) -> None:
        self._console, self._pace = console, Pace(every)

    def on_event(self, event: Event) -> None:
        """Print stages and lines; of sweeps and parts those that are due."""
        match event:
            case Stage(name):
                self._print(name)
            case Line(text):
                self._print(text)
            case Sweep() if self._pace.due():
                self._print(_in_words(event))
            case PartDone(stage, done, total) if done < total and self._pace.due():
                self._print(f"{stage}: {done} of {total}")

    def close(self) -> None:
        """Leave the lines."""

    def _print(self, text: str) -> None:
        self._console.print(escaped(text), markup=False, highlight=False, soft_wrap=True)


class Bar:
    """A bar with stage, sweep, bound, change and time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[detail]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._progress.start()
        self._task = self._progress.add_task("start", total=None, detail="")

    def on_event(self, event: Event) -> None:
        """Move the bar, which fills as the estimate of the sweeps to come shrinks."""
        match event:
            case Stage(name):
                self._progress.update(self._task, description=name, detail="", total=None)
            case Line(text):
                self._console.print(escaped(text), markup=False, highlight=False)
            case Sweep(iteration, _, _, left):
                done = iteration + 1
                self._progress.update(
                    self._task,
                    completed=done,
                    total=None if left is None else done + left,
                    detail=_in_words(event),
                )
            case PartDone(_, done, total):
                detail = f"{done} of {total}"
                self._progress.update(self._task, completed=done, total=total, detail=detail)

    def close(self) -> None:
        """Take the bar away."""
        self._progress.stop()


def _in_words(sweep: Sweep) -> str:
    text = f"sweep {sweep.iteration + 1}: bound {sweep.elbo:,.4f}"
    return text if sweep.change is None else f"{text}, change {sweep.change:+.3g}"
