"""Server settings for the memory of all models."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from .environment import EnvironmentModel
from .sizes import parse_size


class MemorySettings(EnvironmentModel):
    """Memory limits of all models together, and when models are unloaded."""

    frontends: int = Field(default=1, ge=1, le=64)
    """Number of processes that share the ports. More than 1 requires Linux."""

    event_loop: Literal["auto", "asyncio", "uvloop"] = "auto"
    """Event loop of the server and its workers: `auto` uses uvloop if it is installed, unless an app imports
    `nest_asyncio`. With `asyncio`, every model can use that package."""

    max_memory: int | None = Field(default=None, gt=0)
    """Memory limit for all models together, such as `600MB`, or null for no limit. Above the limit, the least
    recently used model is unloaded until its next call, so each model gets its own worker process."""

    max_device_memory: dict[str, int] = Field(default_factory=dict)
    """Memory limits by device, such as `{"0": "20GB"}`, which work like `max_memory`. Requires `pynvml`."""

    idle_unload: float | None = Field(default=None, gt=0)
    """Seconds without a call after which a model is unloaded until its next call. If null, idle models stay
    loaded."""

    clients_may_evict: bool | None = None
    """Whether calls of all clients may unload other models and use `keep_alive`, not only calls with a key
    that has the scope `repository`. If null: only on a server without keys."""

    spare_workers: int = Field(default=0, ge=0)
    """Number of idle worker processes to keep ready, so that models load faster."""

    @field_validator("max_memory", "max_device_memory", mode="before")
    @classmethod
    def _sizes(cls, value: object) -> object:
        if isinstance(value, dict):
            return {device: parse_size(size) for device, size in value.items()}
        return parse_size(value)

    @model_validator(mode="after")
    def _memory_of_one_front_end(self) -> Self:
        limits = [name for name in ("max_memory", "max_device_memory", "idle_unload") if getattr(self, name)]
        if limits and self.frontends > 1:
            raise ValueError(
                f"{', '.join(limits)}: need frontends 1, because a model that leaves memory "
                "must not be in use in another front end"
            )
        return self

    @property
    def limits_memory(self) -> bool:
        """Whether models leave memory while the server runs."""
        return self.max_memory is not None or bool(self.max_device_memory) or self.idle_unload is not None
