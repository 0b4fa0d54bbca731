"""What a dialect of a stream is, and what it gets: the requests, each with admission to its model."""

from abc import ABC, abstractmethod
from typing import ClassVar

from ....dataplane.admission import Admission
from ....dataplane.dataplane import DataPlane
from ....errors import InferstreamError
from ....protos.dialects import HEADER
from ....protos.grpc_requests import InferMessage
from ....types import Headers
from ...status import Profile
from ..rpc import RpcExchange

StreamExchange = RpcExchange[InferMessage]


class StreamRequest:
    """One request of a stream, and the admission to the model that it names; None where it is refused.

    A refusal is raised when a dialect asks for it, because each dialect sends refusals in its own form.
    """

    __slots__ = ("_refusal", "admission", "message")

    def __init__(self, message: InferMessage, dataplane: DataPlane) -> None:
        self.message = message
        self.admission: Admission | None = None
        try:
            self.admission = dataplane.admit(message.model_name, message.model_version or None)
        except InferstreamError as refusal:
            self._refusal = refusal

    def admitted(self) -> Admission:
        """The admission. Raises the refusal: ModelNotFound, ModelNotReady, Draining, Overloaded."""
        if self.admission is None:
            raise self._refusal
        return self.admission


class StreamDialect(ABC):
    """A form of requests, responses and errors on a stream. One object serves every stream of the server."""

    name: ClassVar[str]
    other_names: ClassVar[tuple[str, ...]] = ()
    """Names that a client may use instead to ask for the dialect."""

    def __init__(self, dataplane: DataPlane, profile: Profile) -> None:
        self._dataplane = dataplane
        self._profile = profile

    @staticmethod
    @abstractmethod
    def is_certain(message: InferMessage, metadata: Headers) -> bool:
        """Whether the first request of a stream has what only this dialect has."""

    @staticmethod
    def is_likely(message: InferMessage, metadata: Headers) -> bool:
        """Whether the first request looks like this dialect; asked when no dialect is certain."""
        return False

    @abstractmethod
    async def serve(self, first: StreamRequest, exchange: StreamExchange, metadata: Headers) -> None:
        """Serve a stream to its end. Whatever is raised ends the stream with a status."""

    async def announce(self, exchange: StreamExchange) -> None:
        """Send the initial metadata, which names the dialect of the responses."""
        await exchange.context.send_initial_metadata(((HEADER, self.name),))
