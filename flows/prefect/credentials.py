"""Reach object stores as the settings say, with a Prefect block's credentials if one is named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flows.data import storage
from flows.faults import RunError
from flows.prefect import server
from flows.settings import S3Access

_CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


@contextmanager
def reached(access: S3Access) -> Iterator[None]:
    """Reach object stores so for the duration of a block.

    Worker processes started meanwhile do as well; those of a running cluster have an
    environment of their own, and no credentials are sent to them.

    Raises
    ------
    RunError
        If the block cannot be read or holds something else.
    """
    credentials = {} if access.block is None else _credentials(access.block)
    with storage.using({**access.environment(), **credentials}):
        yield


def _credentials(block: str) -> dict[str, str]:
    from prefect.blocks.system import Secret
    from prefect.exceptions import PrefectException

    try:
        load: Any = Secret.load  # its signature does not tell that it can be called directly
        with server.running():  # else Prefect starts one that needs no password
            found = load(block, _sync=True).get()
    except server.NoServer as error:
        raise RunError(f"the Prefect Secret block {block!r} cannot be read: {error}") from error
    except (ValueError, OSError, RuntimeError, PrefectException) as error:
        raise RunError(
            f"the Prefect Secret block {block!r} cannot be read ({type(error).__name__}); create "
            "it on Prefect's page, or name another"
        ) from None
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            found = None
    if not isinstance(found, dict) or not {*_CREDENTIALS[:2]} <= set(found):
        raise RunError(
            f"the Prefect Secret block {block!r} holds no credentials: expected JSON with "
            "aws_access_key_id and aws_secret_access_key"
        )
    return {name.upper(): str(found[name]) for name in _CREDENTIALS if found.get(name)}
