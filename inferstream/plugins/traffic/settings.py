"""Traffic settings of a model: `split` distributes calls over versions, and `shadow` copies them to another
version."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from inferstream.ext.settings import Section

from .tolerance import Tolerance

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Shadow(BaseModel):
    """The version that receives copies of calls, and how its responses are compared."""

    model_config = ConfigDict(extra="forbid")

    to: str = Field(min_length=1)
    percent: float = Field(default=100, gt=0, le=100, allow_inf_nan=False)
    compare: Tolerance | None = Tolerance()


class Split(BaseModel):
    """Weights of the versions for calls without a version. `by` is the header whose value selects the
    version."""

    model_config = ConfigDict(extra="forbid")

    versions: dict[str, Weight] = Field(min_length=1)
    by: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_shares(cls, value: object) -> object:
        """Accept a bare object of weights."""
        return value if isinstance(value, dict) and "versions" in value else {"versions": value}

    @field_validator("by")
    @classmethod
    def _lower(cls, name: str | None) -> str | None:
        return name if name is None else name.lower()

    @model_validator(mode="after")
    def _some_share(self) -> "Split":
        if not any(self.versions.values()):
            raise ValueError("one of the shares must be above 0")
        return self


class TrafficSettings(Section):
    """The field of `settings.json` for shadow traffic."""

    shadow_max_in_flight: int = Field(default=8, ge=1)
    """Maximum number of shadow copies of calls at the same time. Additional copies are dropped."""


class VersionSettings(Section):
    """The fields of `model-settings.json` for traffic between versions."""

    split: Split | None = None
    """Weights of the versions for calls without a version, such as `{"1": 95, "2": 5}`. Set it in the default
    version."""

    shadow: Shadow | None = None
    """Version that receives copies of calls, such as `{"to": "2", "percent": 5}`. Its responses are compared
    and dropped."""

    def named_versions(self) -> Iterable[tuple[str, str]]:
        for version in self.split.versions if self.split else ():
            yield "split", version
        if self.shadow:
            yield "shadow", self.shadow.to
