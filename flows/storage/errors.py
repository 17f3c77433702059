"""What file systems raise, as one sentence for the user."""

from __future__ import annotations

import errno
import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flows.escape import without_secrets
from flows.faults import RunError

_LASTING = {errno.EISDIR, errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP}
_LASTING_IN_WORDS = {
    errno.ENOSPC: "no space is left there; free some or choose another place",
    errno.EROFS: "that file system is read-only; choose another place",
    errno.ENOTDIR: "a file is where a folder is expected",
    errno.EEXIST: "a file is where a folder is expected",
}
_NO_KEYS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or --s3 anonymous=true"
_OF_CREDENTIALS = {
    "CredentialRetrievalError": "check the AWS profile",
    "TokenRetrievalError": "check the AWS profile",
    "NoCredentialsError": _NO_KEYS,
    "ProfileNotFound": _NO_KEYS,
}
"""What to do where a client of S3 has no credentials, by the name of its error."""
_REFUSED = re.compile(
    r"ACCESS_DENIED|AccessDenied|Forbidden|SignatureDoesNotMatch|INVALID_ACCESS_KEY|"
    r"InvalidAccessKeyId|SIGNATURE_DOES_NOT_MATCH|HTTP status 403|\b403\b|ExpiredToken"
)
_NO_BUCKET = re.compile(r"NO_SUCH_BUCKET|NoSuchBucket|bucket does not exist", re.IGNORECASE)
_GONE = re.compile(r"HTTP status 404|RESOURCE_NOT_FOUND|NoSuchKey|NO_SUCH_KEY")

_NOT_PARQUET = re.compile(
    r"(?i)thrift|parquet|corrupt|decompress|zstd|snappy|lz4|brotli|gzip|zlib|"
    r"flatbuffers|malformed levels|unexpected end of stream|page header|dictionary page|"
    r"definition level|repetition level"
)
_OF_A_STORE = re.compile(r"AWS Error|curlCode")  # which answered with an error, or did not answer
_NO_MEMORY = re.compile(r"Failed to launch worker thread|can't start new thread")
_CHECKSUM = re.compile(r"CRC checksum verification failed")
_QUOTED = re.compile(r"'[^']*'")
_CLIENT_ERROR = re.compile(r"HTTP status 4(?!08|29)\d\d")


reason_requests: list[Callable[[str], None]] = []
"""Requests that S3 refuses with the reason that it withheld before; see `access`."""


class StorageError(RunError):
    """Storage could not be read or written; the message is one sentence for the user."""


class TransientStorageError(StorageError):
    """Storage did not answer; the same call may succeed a little later."""


class _FileError(StorageError):
    """What is wrong with one file, whose URL is ``url``."""

    def __init__(self, sentence: str, url: str = "") -> None:
        super().__init__(sentence)
        self.url = url


class DamagedError(_FileError):
    """A file that vbflows wrote is cut short, changed, or of something else."""


class MissingError(_FileError):
    """A file is not there."""


class ChangedError(_FileError):
    """An input file is not what it was when the run began."""


def cannot_read(url: str, why: str, kind: str = "") -> StorageError:
    """Return the error of a file that cannot be read, or not as what it should be."""
    return StorageError(f"cannot read {url}{f' as {kind}' if kind else ''}: {why}")


@contextmanager
def storage_errors(action: str, url: str) -> Iterator[None]:
    """Turn what a file system raises into one sentence."""
    try:
        yield
    except StorageError:
        raise
    except UnicodeError as error:
        raise StorageError(
            f"cannot {action} {url}: its text is not UTF-8; write it again in UTF-8"
        ) from error
    except MemoryError:
        raise  # Arrow's are among its exceptions
    except json.JSONDecodeError as error:
        if not _is_s3(url):
            raise
        raise StorageError(
            f"cannot {action} {url}: the credential process of the AWS profile printed no JSON "
            f"({_line(error)}); run it by hand (credential_process in ~/.aws/config)"
        ) from error
    except (OSError, pa.ArrowException, *_of_clients()) as error:
        short = isinstance(error, OSError) and error.errno == errno.ENOMEM
        if short or _NO_MEMORY.search(str(error)):
            raise MemoryError(f"cannot {action} {url}: {_line(error)}") from error
        if _is_s3(url) and reason_withheld(error):
            with storage_errors(action, url):
                for request in reason_requests:
                    request(url)
        raise _sentence(action, url, error) from error


def _is_s3(url: str) -> bool:
    return url.startswith(("s3://", "s3a://"))


_OF_CLIENTS = {
    "aiohttp": ["ClientError"],
    "azure.core.exceptions": ["AzureError"],
    "botocore.exceptions": ["BotoCoreError", "ClientError"],
    "gcsfs.retry": ["HttpError"],
    "google.auth.exceptions": ["GoogleAuthError"],
}


def _of_clients() -> Iterator[type[Exception]]:
    """Yield what object stores' clients raise; those that are not loaded raise nothing."""
    for module in _OF_CLIENTS.keys() & sys.modules.keys():
        yield from (getattr(sys.modules[module], name) for name in _OF_CLIENTS[module])


def _sentence(action: str, url: str, error: Exception) -> StorageError:
    message = f"cannot {action} {without_secrets(url)}"
    status = getattr(error, "status_code", "")  # of Azure's client
    text = f"{type(error).__name__} {error} HTTP status {status}"
    remote = "://" in url
    if _CHECKSUM.search(text):
        return DamagedError(f"{message}: it is damaged, with another checksum", url)
    if remote and (why := _of_store(url, error, text)) is not None:
        return StorageError(f"{message}: {why}")
    if isinstance(error, FileNotFoundError) or (remote and _GONE.search(text)):
        why = "there is no such file or folder"
        if url.startswith(("http://", "https://")):
            why = "the server does not give it; download it, or use s3://"
        return MissingError(f"{message}: {why}", url)
    if isinstance(error, PermissionError) or (remote and _REFUSED.search(text)):
        keys = "check the access key and its secret, or " if remote else ""
        return StorageError(
            f"{message}: permission denied; {keys}give access or choose another place"
        )
    if url.lower().endswith((".bam", ".cram")):
        what = url[url.rindex(".") + 1 :].upper()
        reads = "which only vbflows variants reads, through a sample sheet"
        return DamagedError(f"{message}: it is a {what} file, {reads}", url)
    if _damage(error, text, remote):
        other = "" if url.lower().endswith((".parquet", ".pq")) else ", as which it is read"
        return DamagedError(
            f"{message}: it is damaged or not a Parquet file{other} ({_line(error)})", url
        )
    number = error.errno if isinstance(error, OSError) else None
    if number in _LASTING_IN_WORDS:
        return StorageError(f"{message}: {_LASTING_IN_WORDS[number]}")
    lasting = number in _LASTING or (remote and _CLIENT_ERROR.search(text))
    kind = StorageError if lasting else TransientStorageError
    refusal = refusal_of(error) if remote else None
    code = f" (the store answered {refusal.code})" if refusal is not None else ""
    return kind(f"{message}: {_line(error)}{code}")


def _of_store(url: str, error: Exception, text: str) -> str | None:
    """Say why a store refused, where it or its client said so."""
    if _NO_BUCKET.search(text) or _NO_BUCKET.search(str(error.__cause__)):
        bucket = url.partition("://")[2].partition("/")[0]
        return (
            f"there is no bucket {bucket!r}; create it, or check its name and the endpoint "
            "(AWS_ENDPOINT_URL)"
        )
    refusal = refusal_of(error)
    if refusal is not None and (why := refusal.sentence(url)) is not None:
        return why
    advice = _OF_CREDENTIALS.get(type(error).__name__)
    return None if advice is None else f"{_line(error).rstrip('.')}; {advice}"


def _damage(error: Exception, text: str, remote: bool) -> bool:
    """Whether Arrow could read the bytes of a file and make nothing of them.

    It says so by an OSError without a number, as it does where a store did not answer.
    """
    if not isinstance(error, OSError):
        return isinstance(error, pa.ArrowException)
    if error.errno is not None or _OF_A_STORE.search(text):
        return False
    # Names are left out: they mostly end with .parquet.
    return not remote or _NOT_PARQUET.search(_QUOTED.sub("", text)) is not None


def _line(error: BaseException) -> str:
    return without_secrets((str(error) or type(error).__name__).splitlines()[0])


_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired"}
_CLOCK = {"RequestTimeTooSkewed", "RequestExpired"}
_KEYS = {"InvalidAccessKeyId", "SignatureDoesNotMatch", "InvalidToken", "InvalidSecurity"}
_DENIED = {"AccessDenied", "AllAccessDisabled", "AccountProblem", "403"}
_BODILESS = {"400", "403"}  # what clients call the code of an answer to HEAD
_ARROW_REFUSED = re.compile(
    r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|REQUEST_\w+"
    r"|UNKNOWN \(HTTP status 40[03]\))"
)


@dataclass(frozen=True)
class Refusal:
    """An answer of S3 that is an error: its code, the operation (``DeleteObject``), its text."""

    code: str
    operation: str
    text: str

    def sentence(self, url: str) -> str | None:
        """Return why a request was refused and what to do; None where it was something else."""
        bucket, _, key = url.partition("://")[2].partition("/")
        message = f"{self.code}: {self.text}" if self.text else self.code
        what = (
            f"S3 refused {self.operation} on {f'key {key!r} of ' if key else ''}bucket "
            f"{bucket!r} ({message})"
        )
        if self.code in _EXPIRED:
            return f"the credentials have expired: {what}; get new ones"
        if self.code in _CLOCK:
            return f"the clock of this machine is wrong: {what}; set it (NTP)"
        if self.code in _KEYS:
            keys = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN"
            return f"permission denied; check the access key and its secret ({keys}): {what}"
        if self.code in _DENIED:
            return (
                f"permission denied: {what}; give these credentials access, or choose another place"
            )
        return None


def refusal_of(error: BaseException) -> Refusal | None:
    """Return what S3 said by an error of s3fs or botocore; None where it said nothing."""
    cause: BaseException | None = error
    while cause is not None:
        response: Any = getattr(cause, "response", None)
        if isinstance(response, dict) and isinstance(response.get("Error"), dict):
            code, text = (str(response["Error"].get(name, "")) for name in ("Code", "Message"))
            text = (text.splitlines() or [""])[0].rstrip(". ")
            return Refusal(code, getattr(cause, "operation_name", "a request"), text)
        cause = cause.__cause__
    return None


def reason_withheld(error: BaseException) -> bool:
    """Whether S3 refused without a reason that can be read: by HEAD, or to Arrow's client."""
    refusal = refusal_of(error)
    if refusal is None:
        return _ARROW_REFUSED.search(str(error)) is not None
    return refusal.code in _BODILESS and refusal.operation.startswith("Head")
