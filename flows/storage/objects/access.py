"""How object stores are reached: the file systems behind a URL, made from the environment.

The environment decides, so that worker processes decide alike: ``AWS_ACCESS_KEY_ID``,
``AWS_SECRET_ACCESS_KEY``, ``AWS_SESSION_TOKEN``, ``AWS_PROFILE``, ``AWS_REGION``,
``AWS_ENDPOINT_URL`` (or ``AWS_ENDPOINT_URL_S3``), ``AWS_CA_BUNDLE``, and as elsewhere
``AWS_NO_SIGN_REQUEST=YES`` (anonymous) and ``AWS_REQUEST_PAYER=requester``; how the store encrypts
what is written has no such name elsewhere: ``VBFLOWS_S3_SSE``, ``VBFLOWS_S3_SSE_KMS_KEY_ID``. The
settings `flows.settings.S3Access` become these variables.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import fsspec
from pyarrow.fs import (
    AwsStandardS3RetryStrategy,
    FileSystem,
    FSSpecHandler,
    LocalFileSystem,
    PyFileSystem,
    S3FileSystem,
)

from flows.escape import without_secrets
from flows.faults import first_line, install_command
from flows.storage.errors import (
    StorageError,
    cannot_read,
    reason_requests,
    refusal_of,
    storage_errors,
)
from flows.storage.objects.urls import absolute, is_local, shown

SSE, SSE_KMS_KEY_ID = "VBFLOWS_S3_SSE", "VBFLOWS_S3_SSE_KMS_KEY_ID"
ATTEMPTS = 3  # of Arrow's client, with growing pauses, within one of ours
AT_ONCE = 32  # requests
CONNECT, READ = 5.0, 15.0  # seconds without a byte; of a whole call see `retry.SILENCE`
_CHECKSUMS = ("AWS_REQUEST_CHECKSUM_CALCULATION", "AWS_RESPONSE_CHECKSUM_VALIDATION")


@contextmanager
def using(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the duration of a block, for this process and its children.

    Parameters
    ----------
    variables
        Such as ``AWS_ENDPOINT_URL``.
    """
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def filesystem(url: str) -> tuple[Any, str]:
    """Return fsspec's file system of a URL, without old listings, and the path on it."""
    fs, path = _filesystem(url)
    fs.invalidate_cache()
    return fs, path


def _filesystem(url: str) -> tuple[Any, str]:
    url = absolute(url)
    scheme, _, rest = url.partition("://")
    if scheme in ("s3", "s3a") and rest:
        return _s3fs(_environment()), rest
    try:
        return fsspec.core.url_to_fs(url)
    except ImportError as error:
        command = install_command(error.__cause__ or error)
        needs = command or f"a package ({error})"
        raise cannot_read(shown(url), f"{scheme}:// needs {needs}") from error
    except ValueError as error:
        why = without_secrets(first_line(error))  # what the package of a protocol lacks
        if "Protocol not known" in why:
            known = "expected a path, s3:// or another protocol of fsspec"
            why = f"nothing installed knows {scheme}://; {known}"
        raise cannot_read(shown(url), why) from error


def arrow(url: str) -> tuple[FileSystem, str]:
    """Return Arrow's file system of a URL, and the path on it."""
    if is_local(url):
        return LocalFileSystem(), absolute(url)
    scheme, _, rest = url.partition("://")
    # Arrow's own client cannot say that the requester pays.
    if scheme in ("s3", "s3a") and not os.environ.get("AWS_REQUEST_PAYER"):
        with storage_errors("reach", url):
            return _arrow_s3(_environment()), rest
    fs, path = filesystem(url)
    return PyFileSystem(FSSpecHandler(fs)), path


def _environment() -> tuple[tuple[str, str], ...]:
    """Return all that decides how S3 is reached; another environment means another client."""
    if endpoint := _endpoint(dict(os.environ)):
        if not endpoint.lower().startswith(("http://", "https://")):
            raise StorageError(
                f"the endpoint {endpoint!r} (AWS_ENDPOINT_URL or --s3 endpoint_url) has no scheme; "
                f"write http://{endpoint} or https://{endpoint}"
            )
        # Many stores do not know the checksums that Amazon's clients send by default.
        for name in _CHECKSUMS:
            os.environ.setdefault(name, "when_required")
    ours = ("AWS_", "VBFLOWS_S3_")
    return tuple(sorted((k, v) for k, v in os.environ.items() if k.startswith(ours)))


def _endpoint(env: Mapping[str, str]) -> str | None:
    return env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or None


def _anonymous(env: Mapping[str, str]) -> bool:
    return env.get("AWS_NO_SIGN_REQUEST", "").lower() in ("yes", "true", "1")


def _encryption(env: Mapping[str, str]) -> dict[str, str]:
    """Return how the store encrypts what is written: parameters of S3's own requests."""
    names = {"ServerSideEncryption": SSE, "SSEKMSKeyId": SSE_KMS_KEY_ID}
    return {parameter: env[name] for parameter, name in names.items() if env.get(name)}


@lru_cache(maxsize=8)
def _s3fs(environment: tuple[tuple[str, str], ...]) -> Any:
    env = dict(environment)
    client = {"verify": env["AWS_CA_BUNDLE"]} if env.get("AWS_CA_BUNDLE") else {}
    fs: Any = fsspec.get_filesystem_class("s3")(
        anon=_anonymous(env),
        endpoint_url=_endpoint(env),
        s3_additional_kwargs=_encryption(env),
        requester_pays=env.get("AWS_REQUEST_PAYER", "").lower() == "requester",
        client_kwargs=client,
        config_kwargs={
            "retries": {"total_max_attempts": 1, "mode": "standard"},  # s3fs repeats itself
            "connect_timeout": CONNECT,
            "read_timeout": READ,
            "max_pool_connections": AT_ONCE,
        },
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    return fs


@lru_cache(maxsize=8)
def _arrow_s3(environment: tuple[tuple[str, str], ...]) -> FileSystem:
    env = dict(environment)
    return S3FileSystem(
        anonymous=_anonymous(env),
        endpoint_override=_endpoint(env),
        region=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION"),
        tls_ca_file_path=env.get("AWS_CA_BUNDLE"),
        connect_timeout=CONNECT,
        request_timeout=READ,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )


def _request_reason(url: str) -> None:
    """Request a byte of an object: unlike HEAD, GET is refused with a reason."""
    fs, path = filesystem(url)
    try:
        fs.cat_file(path, start=0, end=1)
    except OSError as error:
        refusal = refusal_of(error)
        if refusal is not None and refusal.sentence(url) is not None:
            raise


reason_requests.append(_request_reason)
