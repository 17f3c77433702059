"""How the command line ends: exit codes, one sentence for what is wrong, no traceback."""

from __future__ import annotations

import _thread
import logging
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, NoReturn

import typer

from flows.catalogue import BROKEN, COMMANDS, PIPELINES
from flows.cli.app import app
from flows.cli.output import Escaping, err, print_json
from flows.escape import escaped, without_secrets
from flows.faults import MEMORY_ADVICE, Fault, InputError, RunError

log = logging.getLogger("vbflows.pipeline")

DONE, FAILED, WRONG_INPUT = 0, 1, 2
_INTERRUPTED = 130  # what Typer makes of Ctrl-C


class _Stop:
    """How a command ends that did not do what it was asked for."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def __call__(
        self, sentence: str, code: int, error: BaseException | None, faults: Sequence[Fault] = ()
    ) -> NoReturn:
        """Say why on stderr, and as one JSON object on stdout where that is asked for."""
        if error is not None and os.environ.get("VBFLOWS_DEBUG") == "1":
            traceback.print_exception(error)
        sentence = without_secrets(sentence)
        lines = (f"vbflows: {escaped(line)}" for line in sentence.split("\n"))
        err().print("\n".join(lines), soft_wrap=True)
        self.tell(sentence, code, faults)

    def tell(self, sentence: str, code: int, faults: Sequence[Fault] = ()) -> NoReturn:
        """Exit, after one JSON object on stdout where that is asked for."""
        if self._as_json:
            listed = [_plain(fault) for fault in faults]
            print_json(
                {"error": without_secrets(sentence), "exit": code, "faults": listed, "warnings": []}
            )
        sys.exit(code)


def _of_models() -> tuple[type[Exception], ...]:
    """Return how models say that a fit failed; they are loaded by now, if one has."""
    from vbmodels.core.memoised import StatisticsTooLarge
    from vbmodels.core.protocol import NonFiniteBound

    return NonFiniteBound, StatisticsTooLarge


def _shown(error: Any) -> str:
    """Print what is wrong with a command line, which may hold names of files; return it."""
    sentence = str(error)
    error.message = escaped(without_secrets(error.message))
    error.show()
    return sentence


def _plain(fault: Fault) -> dict[str, Any]:
    """Return a fault as plain values, without secrets of URLs."""
    values = asdict(fault).items()
    return {k: without_secrets(v) if isinstance(v, str) else v for k, v in values}


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


@contextmanager
def _no_interrupt_lost() -> Iterator[None]:
    """Heed a Ctrl-C that met a callback, where nothing can be raised, a moment later.

    Python would print a traceback of it, and the run would go on.
    """
    before = sys.unraisablehook

    def again(unraisable: Any) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            # Not at once: that would meet this callback, and be lost again.
            threading.Timer(0.01, _thread.interrupt_main).start()
        else:
            before(unraisable)

    sys.unraisablehook = again
    try:
        yield
    finally:
        sys.unraisablehook = before


@contextmanager
def _no_wait_at_exit(own: bool) -> Iterator[None]:
    """End a process of our own at once where a library's exit handler would wait for a store."""
    try:
        yield
    except SystemExit as end:
        retry = sys.modules.get("flows.data.storage.retry")
        if own and retry is not None and retry.calls_left():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(end.code if isinstance(end.code, int) else FAILED)
        raise


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 the run failed, 2 input or settings are wrong."""
    signal.signal(signal.SIGTERM, _interrupt)
    if logging.lastResort is not None:  # what prints warnings where no log is set up
        logging.lastResort.setFormatter(Escaping())
    words = sys.argv[1:] if arguments is None else arguments
    stop = _Stop("--json" in words)
    for name, fault in BROKEN:
        if name in {*PIPELINES, *COMMANDS} or name not in words:  # else the command says it
            log.warning("%s; it is left out", fault)
    with _no_wait_at_exit(arguments is None):
        try:
            with _no_interrupt_lost():
                code = app(args=arguments, prog_name="vbflows", standalone_mode=False)
        except typer.TyperException as error:
            stop.tell(_shown(error), WRONG_INPUT)
        except InputError as error:
            stop(str(error), WRONG_INPUT, error, error.faults)
        except RunError as error:
            stop(str(error), FAILED, error)
        except (KeyboardInterrupt, typer.Abort):
            code = _INTERRUPTED
        except MemoryError as error:
            stop(f"memory ran out; {MEMORY_ADVICE}", FAILED, error)
        except Exception as error:
            if isinstance(error, _of_models()):
                stop(str(error), FAILED, error)
            stop(
                f"this should not have happened: {type(error).__name__}: "
                f"{(str(error) or 'no message').splitlines()[0]}; VBFLOWS_DEBUG=1 shows where",
                FAILED,
                error,
            )
        if code == _INTERRUPTED:
            stop("interrupted before anything was computed", FAILED, None)
        sys.exit(code or DONE)
