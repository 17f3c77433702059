"""One Prefect server for all tests of this folder: a real one, in a home of its own."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory):
    """Start the server that a run by hand starts; yield its address."""
    from prefect.settings import (
        PREFECT_API_URL,
        PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
        PREFECT_HOME,
        temporary_settings,
    )

    from flows.pipelines import server
    from flows.pipelines.flow import drain

    home = tmp_path_factory.mktemp("prefect")
    settings = {PREFECT_HOME: home, PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}  # saves 1 s a flow
    with (
        temporary_settings(settings, restore_defaults={PREFECT_API_URL}),
        server.running() as url,
        temporary_settings({PREFECT_API_URL: url}),
    ):
        with (
            closing(sqlite3.connect(home / "prefect.db")) as made,
            closing(sqlite3.connect(home / "empty.db")) as empty,
        ):
            made.backup(empty)
        yield url
        drain()


@pytest.fixture
def prefect_home(prefect_server, tmp_path):
    """Return a home whose database exists and is empty: making one takes ten seconds."""
    from prefect.settings import PREFECT_HOME

    home = tmp_path / "home"
    home.mkdir()
    shutil.copy(PREFECT_HOME.value() / "empty.db", home / "prefect.db")
    return home
