"""The base of what brings requests by a way of its own, beside the ports: a consumer of messages, for example."""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from ..dataplane.caller import DOORS
from ..dataplane.models import ServerModels
from ..settings import Settings
from ..telemetry.console import TITLES


class Door(ABC):
    """Serves requests from elsewhere. A server has one of each class, however many front ends it has."""

    name: ClassVar[str] = ""
    """The dialect of its callers. `request_timeout` does not end their calls unless a settings file has it."""

    title: ClassVar[str] = ""
    """The name in access lines."""

    def __init_subclass__(cls) -> None:
        if cls.name:
            DOORS.add(cls.name)
            TITLES[cls.name] = cls.title or cls.name

    @classmethod
    @abstractmethod
    def of(cls, dataplane: ServerModels, settings: Settings) -> Self | None:
        """The door to these models; None where the settings want none. Raises InvalidSettings."""

    @abstractmethod
    def start(self) -> None:
        """Serve until `stop`. The models have been loaded."""

    @abstractmethod
    def pause(self) -> None:
        """Take no more requests; calls in progress continue."""

    @abstractmethod
    async def stop(self, grace: float) -> None:
        """Send the last responses, within `grace` seconds for each step."""
