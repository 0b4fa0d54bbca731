"""Settings of the recorder."""

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from inferstream.ext.settings import Section, expand_path


class RecordSettings(BaseModel):
    """What is recorded of requests, and where."""

    model_config = ConfigDict(extra="forbid")

    path: str | None = Field(
        default=None, description="File of records; binary parts are in the file of this name and `.bin`."
    )
    url: str | None = Field(default=None, description="Where CloudEvents of requests and responses are sent.")
    mode: Literal["all", "request", "response"] = Field(default="all", description="Which events are sent.")
    sample: float = Field(default=1.0, gt=0, le=1, description="Share of the requests.")
    models: list[str] = Field(default_factory=list, description="Models whose requests are recorded; or all.")
    bodies: bool = Field(default=False, description="Record contents, and not sizes alone.")
    max_bytes: int = Field(
        default=256 * 2**20, ge=2**16, description="Bytes of all files. The older half is removed."
    )
    redact: list[str] = Field(
        default_factory=list, description="Headers, keys of JSON and tensors whose values are not recorded."
    )

    _paths = field_validator("path")(expand_path)

    @field_validator("url")
    @classmethod
    def _of_http(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "http://localhost")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ValueError("expected http:// or https:// with a host, and without a user")
        if url is not None and not url.isascii():
            raise ValueError("expected characters of ASCII; others are percent-encoded")
        _ = parts.port  # raises ValueError for one that is no number
        return url

    @model_validator(mode="after")
    def _somewhere(self) -> Self:
        if not self.path and not self.url:
            raise ValueError("expected a path, a url, or both")
        return self


class RecordSection(Section):
    """The field of `settings.json` for the recorder."""

    record: RecordSettings | None = None
    """Record requests, for `server replay`."""
