"""One Prefect server for all tests of this folder: a real one, in a home of its own."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory):
    """Start the server that a run by hand starts; yield its address."""
    from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

    from flows.pipelines import server

    home = tmp_path_factory.mktemp("prefect")
    with (
        temporary_settings({PREFECT_HOME: home}, restore_defaults={PREFECT_API_URL}),
        server.running() as url,
        temporary_settings({PREFECT_API_URL: url}),
    ):
        yield url
