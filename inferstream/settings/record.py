"""Settings of the recorder."""

from pydantic import ConfigDict, Field, field_validator

from .environment import EnvironmentModel, expanded


class RecordSettings(EnvironmentModel):
    """What is recorded of requests, and where."""

    model_config = ConfigDict(extra="forbid")

    path: str
    """The file of records. Binary parts are in the file of this name and `.bin`."""
    sample: float = Field(1.0, gt=0, le=1)
    """Share of the requests."""
    models: list[str] = Field(default_factory=list)
    """Only requests to these; empty for all."""
    bodies: bool = False
    """Record the bytes of requests and responses too, and not their sizes alone."""
    max_bytes: int = Field(256 * 2**20, ge=2**16)
    """Bytes of all files. The older half is removed when they have as many."""
    redact: list[str] = Field(default_factory=list)
    """Headers and keys of JSON whose values are not recorded, and names of tensors."""

    _paths = field_validator("path")(expanded)
