"""The base class of a stream's dialects, and their requests, each with the admission to its model."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Generic, Self, TypeVar

from ....dataplane.access import Action
from ....dataplane.admission import Admission
from ....dataplane.caller import Caller
from ....dataplane.dataplane import DataPlane
from ....dataplane.first_calls import NotLoaded
from ....errors import InferstreamError
from ....protos.dialects import HEADER
from ....protos.grpc import request_from
from ....protos.grpc_messages import MessageWriter
from ....protos.grpc_requests import InferMessage, size_of
from ....protos.grpc_responses import WRITERS, length
from ....types import Headers, InferenceRequest
from ....types.inference import ResponseVisitor
from ...status import Profile
from ..context import of_name
from ..rpc import RpcExchange, outcome

StreamExchange = RpcExchange[InferMessage]

Message = TypeVar("Message")


class LaterRequests(Generic[Message]):
    """The requests after the first of a stream that is one call; one without an id has that of the first."""

    is_read = False
    """Whether the model has asked for a later request."""

    def __init__(
        self,
        admission: Admission,
        exchange: RpcExchange[Message],
        first: InferenceRequest,
        read: Callable[[Message], InferenceRequest],
        size: Callable[[Message], int],
    ) -> None:
        self._admission = admission
        self._exchange = exchange
        self._first = first
        self._read = read
        self._size = size

    def __aiter__(self) -> Self:
        return self

    def close(self) -> None:
        """Let go of the call, which refers to its requests."""
        del self._admission, self._read

    async def __anext__(self) -> InferenceRequest:
        self.is_read = True
        message = await anext(self._exchange)
        if self._admission.metering is not None:
            self._admission.received(self._size(message))
        request = self._read(message)
        request.id = request.id or self._first.id
        self._admission.identify(request)
        return request


class StreamRequest:
    """One request of a stream, and the admission to its model, or None if the dataplane refuses it.

    `admitted` raises the refusal, because each dialect sends refusals in its own form.
    """

    __slots__ = ("_refusal", "admission", "message")

    def __init__(
        self,
        message: InferMessage,
        dataplane: DataPlane,
        caller: Caller,
        refusal: InferstreamError | None = None,
    ) -> None:
        """`refusal` is that of a model which did not load for its first call. Raises NotLoaded."""
        self.message = message
        self.admission: Admission | None = None
        try:
            if refusal is not None:
                raise refusal
            version = message.model_version or None
            self.admission = dataplane.admit(message.model_name, version, caller, Action.STREAM)
            if self.admission.metering is not None:
                self.admission.size = size_of(message)
        except InferstreamError as error:
            self._refusal = of_name(error)
            dataplane.refused(caller, "stream", message.model_name, self._refusal)

    @classmethod
    async def admitted_of(cls, message: InferMessage, dataplane: DataPlane, caller: Caller) -> Self:
        """The request in a message, after the load of its model if this is its first call."""
        try:
            return cls(message, dataplane, caller)
        except NotLoaded:
            again = partial(cls, message, dataplane, caller)
        try:
            return await dataplane.when_loaded(again, caller.deadline)
        except InferstreamError as refusal:
            return cls(message, dataplane, caller, refusal)

    def parse(self) -> InferenceRequest:
        """The request, whose tensors may refer to their data. Raises InvalidRequest."""
        return request_from(self.message, references=True)

    def admitted(self) -> Admission:
        """The admission. Raises the refusal: ModelNotFound, ModelNotReady, Draining, Overloaded."""
        if self.admission is None:
            raise self._refusal
        return self.admission


class StreamDialect(ABC):
    """A form of requests, responses and errors on a stream. One object serves every stream of the server."""

    name: ClassVar[str]
    aliases: ClassVar[Sequence[str]] = ()
    """Other names by which clients may request it."""

    header: ClassVar[str] = HEADER
    """The metadata by which clients request a dialect."""

    raw_writer: ClassVar[ResponseVisitor[bytes]] = WRITERS[False]
    """Makes the bytes of a ModelInferResponse with raw contents of a response, by `response.accept(raw_writer)`."""

    length = staticmethod(length)
    """The bytes of the length of a field, for messages around such bytes."""

    def __init__(self, dataplane: DataPlane, profile: Profile) -> None:
        self._dataplane = dataplane
        self._profile = profile

    @staticmethod
    @abstractmethod
    def is_certain(first: StreamRequest, metadata: Headers) -> bool:
        """Whether the first request of a stream has a mark that no other dialect has."""

    @staticmethod
    def is_likely(first: StreamRequest, metadata: Headers) -> bool:
        """Whether the first request looks like this dialect, for a stream of which no dialect is certain."""
        return False

    @abstractmethod
    async def serve(self, first: StreamRequest, exchange: StreamExchange, caller: Caller) -> None:
        """Serve a stream to its end. An error ends the stream with its status."""

    async def next_request(self, exchange: StreamExchange, caller: Caller) -> StreamRequest | None:
        """The next request; None when the client has half-closed. Raises InvalidRequest."""
        message = await exchange.read()
        return None if message is None else await StreamRequest.admitted_of(message, self._dataplane, caller)

    @staticmethod
    def raw_stream_writer() -> ResponseVisitor[bytes]:
        """The `raw_writer` of one stream, which is faster for responses that are alike."""
        return MessageWriter(typed=False)

    def message_of(self, error: Exception) -> str:
        """The text of an error for clients. One outside our tree is logged, and its text has no details."""
        return outcome(error, self._profile)[1]

    async def announce(self, exchange: StreamExchange) -> None:
        """Send the initial metadata with the dialect of the responses."""
        await exchange.context.send_initial_metadata(((HEADER, self.name),))
