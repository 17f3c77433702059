"""Prefect: flows of pipelines, tasks of stages, the page of a run, schedules, Secret blocks.

Importing it takes seconds, so nothing here is imported where no run is recorded.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from flows.faults import InputError, RunError
from flows.settings import S3Access


def flow_run_id() -> str:
    """Return the id of the Prefect flow run that this code is part of; empty outside of one.

    It does not import Prefect.
    """
    context = sys.modules.get("prefect.context")
    run = None if context is None else context.FlowRunContext.get()
    return "" if run is None else str(run.flow_run.id)


def page(reports: str | None) -> list[Any]:
    """Return what shows a run on the page of this flow run, and nothing outside of one.

    ``reports`` is the address under which a browser finds the target.
    """
    if not flow_run_id():
        return []
    from flows.prefect.recorder import Recorder

    return [Recorder(reports)]


def names_server() -> bool:
    """Whether ``PREFECT_API_URL`` is set, in the environment or in Prefect's active profile."""
    return bool(os.environ.get("PREFECT_API_URL") or _active().get("PREFECT_API_URL"))


lost: list[str] = []
"""Why the end of a run could not be recorded: Prefect would wait for its server at the exit."""


def unanswered(url: str) -> str | None:
    """Say why a Prefect server does not answer; None where it does."""
    import httpx

    try:
        httpx.get(f"{url.rstrip('/')}/health", timeout=5.0).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"no answer from {url}: {str(error) or type(error).__name__}"
    return None


def require_server() -> str:
    """Return the address of the configured Prefect server; refuse where none answers."""
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    if not (found := unanswered(url) if url else "none"):
        return url
    raise InputError.of(
        "PREFECT_API_URL",
        "a Prefect server",
        found,
        remedy="prefect server start starts one, for PREFECT_API_URL=http://127.0.0.1:4200/api",
    )


def _active() -> dict[str, object]:
    """Return the active profile; empty where there is none that can be read."""
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect").expanduser()
    path = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml").expanduser()
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        name = os.environ.get("PREFECT_PROFILE") or content["active"]
        return dict(content["profiles"][name])
    except (OSError, ValueError, LookupError, TypeError):  # Prefect says so where it is used
        return {}


_CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


@contextmanager
def reached(access: S3Access) -> Iterator[None]:
    """Reach object stores so for the duration of a block.

    Worker processes started meanwhile do as well; those of a running cluster have an
    environment of their own, and no credentials are sent to them. Raises `RunError` where the
    block cannot be read or holds something else.
    """
    from flows import storage

    credentials = {} if access.block is None else _credentials(access.block)
    with storage.using({**access.environment(), **credentials}):
        yield


def _credentials(block: str) -> dict[str, str]:
    from prefect.blocks.system import Secret
    from prefect.exceptions import PrefectException

    try:
        require_server()  # else Prefect starts one that needs no password
        load: Any = Secret.load  # its signature does not show that it can be called directly
        secret = load(block, _sync=True).get()
    except InputError as error:
        raise RunError(f"the Prefect Secret block {block!r} cannot be read: {error}") from error
    except (ValueError, OSError, RuntimeError, PrefectException) as error:
        raise RunError(
            f"the Prefect Secret block {block!r} cannot be read ({type(error).__name__}); create "
            "it on Prefect's page, or name another"
        ) from None
    if isinstance(secret, str):
        with suppress(ValueError):
            secret = json.loads(secret)
    if not isinstance(secret, dict) or not {*_CREDENTIALS[:2]} <= set(secret):
        raise RunError(
            f"the Prefect Secret block {block!r} holds no credentials: expected JSON with "
            "aws_access_key_id and aws_secret_access_key"
        )
    return {name.upper(): str(secret[name]) for name in _CREDENTIALS if secret.get(name)}
