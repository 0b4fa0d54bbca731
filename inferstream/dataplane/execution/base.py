"""What the dataplane needs of a loaded model, wherever its code runs."""

from collections.abc import Awaitable
from typing import Protocol

from ...settings import ModelSettings
from ...types import MetadataModelResponse, MetadataTensor
from ..call import Call
from ..reply import Reply


class Execution(Protocol):
    """A loaded model: the innermost handler, with what stages and doors ask of it."""

    settings: ModelSettings
    inputs: list[MetadataTensor]
    outputs: list[MetadataTensor]

    @property
    def answers(self) -> str:
        """What the model's author wrote: `predict`, `stream`, or both."""

    @property
    def slots(self) -> int:
        """Calls that may run at once."""

    @property
    def ready(self) -> bool:
        """Whether a call that comes now would be run."""

    def __call__(self, call: Call) -> Awaitable[Reply]: ...

    async def metadata(self) -> MetadataModelResponse:
        """What the model says of itself."""

    async def unload(self) -> None:
        """Run the model's `unload` and let go of what it ran in."""
