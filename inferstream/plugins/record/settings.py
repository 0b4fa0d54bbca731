"""Settings of the recorder."""

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from inferstream.ext.settings import Section, expand_path


class RecordSettings(BaseModel):
    """Rules for which requests are recorded, and where."""

    model_config = ConfigDict(extra="forbid")

    path: str | None = Field(
        default=None,
        description="File of the records. Binary parts are in a second file with the suffix `.bin`.",
    )
    url: str | None = Field(
        default=None, description="URL that receives requests and responses as CloudEvents."
    )
    mode: Literal["all", "request", "response"] = Field(default="all", description="Events to send.")
    sample: float = Field(default=1.0, gt=0, le=1, description="Share of requests to record, from 0 to 1.")
    models: list[str] = Field(
        default_factory=list, description="Models whose requests are recorded. If empty: all."
    )
    bodies: bool = Field(default=False, description="Record contents in addition to sizes.")
    max_bytes: int = Field(
        default=256 * 2**20,
        ge=2**16,
        description="Maximum bytes of all files. Above it, the older half is removed.",
    )
    redact: list[str] = Field(
        default_factory=list, description="Headers, JSON keys and tensors whose values are not recorded."
    )

    _paths = field_validator("path")(expand_path)

    @field_validator("url")
    @classmethod
    def _check_scheme(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "http://localhost")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError("expected http:// or https:// with a host, and without a user")
        if url is not None and not url.isascii():
            raise ValueError("expected characters of ASCII; others are percent-encoded")
        _ = parts.port  # Raises ValueError if the port is not a number.
        return url

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if not self.path and not self.url:
            raise ValueError("expected a path, a url, or both")
        return self


class RecordSection(Section):
    """The field of `settings.json` for the recorder."""

    record: RecordSettings | None = None
    """Recording of requests, for `server replay`. If null, requests are not recorded."""
