"""The table of the contract suite: one row a model.

Write ``tests/contract/case_<model>.py`` with ``CASE = Case(...)`` (or ``CASES = [...]``);
it is collected by its name and nothing else needs an edit. ``case_toy.py`` is a complete
example, `vbmodels.testing.case` says what each item needs. Models must be picklable and their
batches a `State`: they are also fitted on two worker processes of a real Dask cluster.
Calibrations are many fits: those of every row are ``thorough``.

Run one model alone with ``pytest tests/contract -k <name>``. Put the items that take more
than a few seconds in ``slow`` and run them with ``-m slow``; those in ``thorough``, and every
item of a form that is no default (`EVERY`), run with ``-m thorough``.
"""

import importlib
from dataclasses import replace
from pathlib import Path

from vbmodels.testing.case import Case


def cases() -> list[Case]:
    """Return every row: the ``CASE`` or ``CASES`` of each case_*.py in this folder."""
    found: list[Case] = []
    for path in sorted(Path(__file__).parent.glob("case_*.py")):
        module = importlib.import_module(f"{__package__}.{path.stem}")
        found += getattr(module, "CASES", None) or [module.CASE]
    names = [case.name for case in found]
    if len(set(names)) != len(names):
        raise ValueError(f"two rows of the contract table share a name: {sorted(names)}")
    return [replace(case, thorough=case.thorough | {"calibration"}) for case in found]
