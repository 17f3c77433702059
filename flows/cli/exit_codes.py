"""How the command line ends: exit codes, one sentence for what is wrong, no traceback."""

from __future__ import annotations

import _thread
import gc
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
from flows.faults import MEMORY_ADVICE, Fault, InputError, RunError, install_command, no_space

log = logging.getLogger("vbflows.pipeline")

DONE, FAILED, WRONG_INPUT = 0, 1, 2
_INTERRUPTED = 130  # what Typer makes of Ctrl-C


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 the run failed, 2 input or settings are wrong."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if logging.lastResort is not None:  # what prints warnings where no log is set up
        logging.lastResort.setFormatter(Escaping())
    words = (sys.argv[1:] if arguments is None else list(arguments)) or ["--help"]
    for name, fault in BROKEN:
        if name in {*PIPELINES, *COMMANDS} or name not in words:  # else the command says it
            log.warning("%s; it is left out", fault)
    try:
        with _no_interrupt_lost():
            code = app(args=words, prog_name="vbflows", standalone_mode=False)
        if code == _INTERRUPTED:
            raise KeyboardInterrupt
    except BaseException as error:
        code = _explain(error, "--json" in words)
    _leave(code or DONE, at_once=arguments is None)


def _explain(error: BaseException, as_json: bool) -> int:
    """Print what is wrong on stderr, and as one JSON object on stdout on request; return the code.

    What only ends the process is raised again.
    """
    if isinstance(error, SystemExit | GeneratorExit):
        raise error
    sentence, code = _sentence(error)
    faults = error.faults if isinstance(error, InputError) else ()
    if isinstance(error, typer.TyperException):
        wrong: Any = error  # it may hold names of files
        wrong.message = escaped(without_secrets(wrong.message))
        wrong.show()
    else:
        if os.environ.get("VBFLOWS_DEBUG") == "1" and isinstance(error, Exception):
            traceback.print_exception(error)
        lines = (f"vbflows: {escaped(line)}" for line in without_secrets(sentence).split("\n"))
        _print_error("\n".join(lines))
    if as_json:
        answer = {"error": without_secrets(sentence), "exit": code}
        print_json({**answer, "faults": [_plain(fault) for fault in faults], "warnings": []})
    return code


def _print_error(text: str) -> None:
    try:
        err().print(text, soft_wrap=not err().is_terminal)
    except MemoryError:  # there is none left to import the console with
        sys.stderr.write(f"{text}\n")


def _sentence(error: BaseException) -> tuple[str, int]:
    """Return what an error says, and the exit code of its kind."""
    if isinstance(error, InputError | typer.TyperException):
        return str(error), WRONG_INPUT
    if isinstance(error, KeyboardInterrupt | typer.Abort):
        return "interrupted before anything was computed", FAILED
    if isinstance(error, MemoryError):
        return f"memory ran out; {MEMORY_ADVICE}", FAILED
    from vbmodels.core.algorithm import NonFiniteBound

    if isinstance(error, RunError | NonFiniteBound):
        return str(error), FAILED
    if (full := no_space(error)) is not None:
        return full, FAILED
    if isinstance(error, ModuleNotFoundError) and (command := install_command(error)):
        package = str(error.name).partition(".")[0]
        return f"this needs the package {package}; install it with: {command}", WRONG_INPUT
    what = f"{type(error).__name__}: {(str(error) or 'no message').splitlines()[0]}"
    return f"this should not have happened: {what}; VBFLOWS_DEBUG=1 shows where", FAILED


def _plain(fault: Fault) -> dict[str, Any]:
    """Return a fault as plain values, without secrets of URLs."""
    values = asdict(fault).items()
    return {k: without_secrets(v) if isinstance(v, str) else v for k, v in values}


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


def _leave(code: int, at_once: bool) -> NoReturn:
    """Exit; at once where a library's exit handler would wait for a store or a Prefect server."""
    retry = sys.modules.get("flows.storage.objects.retry")
    prefect = sys.modules.get("flows.prefect")
    waits = (retry is not None and retry.calls_left()) or (prefect is not None and prefect.lost)
    if at_once and waits:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    if at_once:
        gc.freeze()  # what is left ends with the process: looking through it takes .4 CPU s
    sys.exit(code)
