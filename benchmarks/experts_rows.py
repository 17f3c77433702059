"""One split of a table, fitted by several forms: a printed row each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from sklearn.metrics import log_loss

HEAD = "table | seed | form | log loss | CPU s\n"


def print_rows(
    name: str, seed: int, forms: Iterable[tuple[str, Callable[[], Any]]],
    fitted: tuple[Any, Any], held_out: tuple[Any, Any],
) -> None:  # fmt: skip
    """Print the held-out log loss and the CPU of every form, by cells and labels of rows."""
    new, truth = held_out
    for form, make in forms:
        clock = time.process_time()
        p = make().fit(*fitted).predict_proba(new)
        seconds = time.process_time() - clock
        print(f"{name} | {seed} | {form} | {log_loss(truth, p):.4f} | {seconds:.1f}", flush=True)
