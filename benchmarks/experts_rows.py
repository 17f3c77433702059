"""One split of a table, fitted by several forms: a printed row each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from sklearn.metrics import log_loss

HEAD = "table | seed | form | log loss | CPU s\n"


def print_rows(
    name: str, seed: int, forms: Iterable[tuple[str, Callable[[], Any]]],
    fitted: tuple[Any, Any], held_out: tuple[Any, Any],
) -> None:  # fmt: skip
    """Print the held-out log loss and the CPU of every form.

    Parameters
    ----------
    name, seed
        The table and its split.
    forms
        What is compared, by name.
    fitted, held_out
        Cells and labels of the rows.
    """
    new, truth = held_out
    for form, make in forms:
        clock = time.process_time()
        p = make().fit(*fitted).predict_proba(new)
        seconds = time.process_time() - clock
        sys.stdout.write(f"{name} | {seed} | {form} | {log_loss(truth, p):.4f} | {seconds:.1f}\n")
        sys.stdout.flush()
