"""`split` and `shadow` of a model's settings: which version answers, and which other one is tried beside it."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from inferstream.ext.settings import Section
from inferstream.plugins.traffic.tolerance import Tolerance

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Shadow(BaseModel):
    """Which version gets copies of calls, and how its responses are compared."""

    model_config = ConfigDict(extra="forbid")

    to: str = Field(min_length=1)
    percent: float = Field(default=100, gt=0, le=100, allow_inf_nan=False)
    compare: Tolerance | None = Tolerance()


class Split(BaseModel):
    """Shares of the calls without a version, by version; `by` names the header whose value chooses."""

    model_config = ConfigDict(extra="forbid")

    versions: dict[str, Weight] = Field(min_length=1)
    by: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _accept_shares(cls, value: object) -> object:
        """Accept the shares alone."""
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
    """The field of `settings.json` for shadows."""

    shadow_max_in_flight: int = Field(default=8, ge=1)
    """Copies in shadows at once; more are dropped."""


class VersionSettings(Section):
    """The fields of `model-settings.json` for the versions that get calls."""

    split: Split | None = None
    """Shares of the calls that name no version, as `{"1": 95, "2": 5}`. Read from the version that would get them
    all."""

    shadow: Shadow | None = None
    """Another version that gets copies of calls, whose answers nobody waits for: `{"to": "2", "percent": 5}`."""

    def named_versions(self) -> Iterable[tuple[str, str]]:
        for version in self.split.versions if self.split else ():
            yield "split", version
        if self.shadow:
            yield "shadow", self.shadow.to
