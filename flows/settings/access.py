"""How object stores are reached, as settings."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class S3Access(BaseModel):
    """How object stores are reached; what is empty is taken from the environment (AWS_*)."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    endpoint_url: str | None = Field(
        None, description="Address of a store other than Amazon's, such as https://host:9000."
    )
    ca_file: str | None = Field(
        None, description="Certificates (PEM) that the store's own is checked against."
    )
    region: str | None = Field(None, description="Region of the buckets.")
    profile: str | None = Field(
        None, description="Profile of the AWS configuration files whose credentials are used."
    )
    anonymous: bool = Field(False, description="Read public buckets without credentials.")
    requester_pays: bool = Field(
        False, description="Pay for what is read from buckets that ask for it."
    )
    block: str | None = Field(
        None,
        description="Name of a Prefect Secret block with the credentials as JSON: "
        "aws_access_key_id, aws_secret_access_key and, where needed, aws_session_token.",
    )

    def environment(self) -> dict[str, str]:
        """Return these settings as environment variables."""
        found = {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ENDPOINT_URL_S3": self.endpoint_url,
            "AWS_CA_BUNDLE": self.ca_file,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_PROFILE": self.profile,
            "AWS_NO_SIGN_REQUEST": "YES" if self.anonymous else None,
            "AWS_REQUEST_PAYER": "requester" if self.requester_pays else None,
        }
        return {name: value for name, value in found.items() if value is not None}
