"""What S3 said when it refused a request: which operation on which key, why, and what to do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

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
        said = f"{self.code}: {self.text}" if self.text else self.code
        what = f"S3 refused {self.operation} on {f'key {key!r} of ' if key else ''}bucket "
        what += f"{bucket!r} ({said})"
        if self.code in _EXPIRED:
            return f"the credentials have expired: {what}; get new ones"
        if self.code in _CLOCK:
            return f"the clock of this machine is wrong: {what}; set it, by NTP for example"
        if self.code in _KEYS:
            keys = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN"
            return f"permission denied; check the access key and its secret ({keys}): {what}"
        if self.code in _DENIED:
            return (
                f"permission denied: {what}; give these credentials access to it, or choose "
                "another place"
            )
        return None


def refusal_of(error: BaseException) -> Refusal | None:
    """Return what S3 said by an error of s3fs or botocore; None where it said nothing."""
    found: BaseException | None = error
    while found is not None:
        response: Any = getattr(found, "response", None)
        if isinstance(response, dict) and isinstance(response.get("Error"), dict):
            code, text = (str(response["Error"].get(name, "")) for name in ("Code", "Message"))
            text = (text.splitlines() or [""])[0].rstrip(". ")
            return Refusal(code, getattr(found, "operation_name", "a request"), text)
        found = found.__cause__
    return None


def reason_withheld(error: BaseException) -> bool:
    """Whether S3 refused without a reason that can be read: by HEAD, or to Arrow's client."""
    refusal = refusal_of(error)
    if refusal is None:
        return _ARROW_REFUSED.search(str(error)) is not None
    return refusal.code in _BODILESS and refusal.operation.startswith("Head")
