"""Prefect: flows of pipelines, tasks of stages, the page of a run, schedules, credentials.

Importing it takes seconds, so nothing here is imported where no run is recorded.
"""

from __future__ import annotations

import sys
from typing import Any


def in_flow_run() -> bool:
    """Whether this code runs inside a Prefect flow run; does not import Prefect."""
    context = sys.modules.get("prefect.context")
    return context is not None and context.FlowRunContext.get() is not None


def page(reports: str | None) -> list[Any]:
    """Return what shows a run on the page of this flow run; empty outside of one.

    Parameters
    ----------
    reports
        The address under which a browser finds the target.
    """
    if not in_flow_run():
        return []
    from flows.prefect.recorder import Recorder

    return [Recorder(reports)]
