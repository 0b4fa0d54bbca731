"""Settings of the memory of all models, a part of the server's."""

from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from .environment import EnvironmentModel
from .sizes import size_of


class MemorySettings(EnvironmentModel):
    """Limits of what models hold together, and when they leave."""

    frontends: int = Field(default=1, ge=1, le=64)
    """Processes that share the ports; more than 1 needs Linux."""

    event_loop: Literal["auto", "asyncio", "uvloop"] = "auto"
    """Event loop of the server and its workers. `auto` is uvloop if installed, except for an app that imports
    `nest_asyncio`; `asyncio` lets any model use that package."""

    max_memory: int | None = Field(default=None, gt=0)
    """Memory of all models together, as in `600MB`: the least recently used leaves first, and comes back with its next
    call. Each model gets a worker process of its own."""

    max_device_memory: dict[str, int] = Field(default_factory=dict)
    """The same for devices, as in `{"0": "20GB"}`; needs `pynvml`."""

    idle_unload: float | None = Field(default=None, gt=0)
    """Seconds without a call after which a model leaves memory."""

    clients_may_evict: bool | None = None
    """Whether calls may make other models leave memory, and `keep_alive` counts; if absent: without keys. A key with
    the scope `repository` always may."""

    spare_workers: int = Field(default=0, ge=0)
    """Worker processes that wait without a model, so that one loads sooner."""

    @field_validator("max_memory", "max_device_memory", mode="before")
    @classmethod
    def _sizes(cls, value: object) -> object:
        if isinstance(value, dict):
            return {device: size_of(size) for device, size in value.items()}
        return size_of(value)

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
