"""The base class of transports other than the ports, for example a Kafka consumer."""

from abc import ABC, abstractmethod
from typing import ClassVar, Self

from ..dataplane.caller import DOORS
from ..dataplane.models import ServerModels
from ..settings import Settings
from ..telemetry.console import TITLES


class Door(ABC):
    """Serves requests that do not arrive at the ports.

    A server has one instance of each subclass, however many front-end processes it runs.
    """

    name: ClassVar[str] = ""
    """The dialect of its callers. `request_timeout` applies to them only if a settings file sets it."""

    title: ClassVar[str] = ""
    """The name in the access log."""

    def __init_subclass__(cls) -> None:
        if cls.name:
            DOORS.add(cls.name)
            TITLES[cls.name] = cls.title or cls.name

    @classmethod
    @abstractmethod
    def of(cls, dataplane: ServerModels, settings: Settings) -> Self | None:
        """Create the door for these models, or return None if the settings do not enable it.

        Raises InvalidSettings.
        """

    @abstractmethod
    def start(self) -> None:
        """Start serving requests. The server calls it after the models have been loaded."""

    @abstractmethod
    def pause(self) -> None:
        """Stop accepting requests. Calls in progress continue."""

    @abstractmethod
    async def stop(self, grace: float) -> None:
        """Send the last responses. Each step may take up to `grace` seconds."""
