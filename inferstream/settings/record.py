"""Settings of the recorder."""

from pydantic import ConfigDict, Field, field_validator

from .environment import EnvironmentModel, expanded


class RecordSettings(EnvironmentModel):
    """What is recorded of requests, and where."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(description="File of records; binary parts are in the file of this name and `.bin`.")
    sample: float = Field(1.0, gt=0, le=1, description="Share of the requests.")
    models: list[str] = Field(default_factory=list, description="Models whose requests are recorded; or all.")
    bodies: bool = Field(False, description="Record contents, and not sizes alone.")
    max_bytes: int = Field(
        256 * 2**20, ge=2**16, description="Bytes of all files. The older half is removed."
    )
    redact: list[str] = Field(
        default_factory=list, description="Headers, keys of JSON and tensors whose values are not recorded."
    )

    _paths = field_validator("path")(expanded)
