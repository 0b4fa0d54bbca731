"""Settings of CORS: the rules for web pages of other origins."""

from pydantic import ConfigDict, Field

from .environment import EnvironmentModel


class CORSSettings(EnvironmentModel):
    """Rules for web pages of other origins. By default, these pages cannot use the server."""

    model_config = ConfigDict(extra="ignore")

    allow_origins: list[str] = Field(default_factory=list)
    allow_origin_regex: str | None = None
    allow_credentials: bool = False
    allow_methods: list[str] = Field(default_factory=lambda: ["GET"])
    allow_headers: list[str] = Field(default_factory=list)
    expose_headers: list[str] = Field(default_factory=list)
    max_age: int = 600
