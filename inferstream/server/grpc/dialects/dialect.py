"""The base class of stream dialects, and the requests of a stream."""

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
from ....protos.grpc import parse_request
from ....protos.grpc_messages import MessageWriter
from ....protos.grpc_requests import InferMessage, message_size
from ....protos.grpc_responses import WRITERS, encode_varint
from ....types import Headers, InferenceRequest
from ....types.inference import ResponseVisitor
from ...status import Profile
from ..context import name_missing_field
from ..rpc import RpcExchange, describe_failure

StreamExchange = RpcExchange[InferMessage]

Message = TypeVar("Message")


class LaterRequests(Generic[Message]):
    """The requests that follow the first one on a stream that is a single call.

    A request without an id receives the id of the first request.
    """

    is_read = False
    """Whether the model has read a later request."""

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
        """Drop the references to the call, which in turn refers to this object."""
        del self._admission, self._read

    async def __anext__(self) -> InferenceRequest:
        self.is_read = True
        message = await anext(self._exchange)
        if self._admission.metering is not None:
            self._admission.count_message(self._size(message))
        request = self._read(message)
        request.id = request.id or self._first.id
        self._admission.identify(request)
        return request


class StreamRequest:
    """One request of a stream and its admission.

    If the request is rejected, the error is stored and raised by `admitted`, because each dialect has its own
    error format.
    """

    __slots__ = ("_refusal", "admission", "message")

    def __init__(
        self,
        message: InferMessage,
        dataplane: DataPlane,
        caller: Caller,
        refusal: InferstreamError | None = None,
    ) -> None:
        """Admit the request. Raises NotLoaded if the model has to be loaded first.

        `refusal` is the error of a model that failed to load on demand.
        """
        self.message = message
        self.admission: Admission | None = None
        try:
            if refusal is not None:
                raise refusal
            version = message.model_version or None
            self.admission = dataplane.admit(message.model_name, version, caller, Action.STREAM)
            if self.admission.metering is not None:
                self.admission.size = message_size(message)
        except InferstreamError as error:
            self._refusal = name_missing_field(error)
            dataplane.log_rejection(caller, "stream", message.model_name, self._refusal)

    @classmethod
    async def admitted_of(cls, message: InferMessage, dataplane: DataPlane, caller: Caller) -> Self:
        """Create the request for a message. Loads its model on demand first."""
        try:
            return cls(message, dataplane, caller)
        except NotLoaded:
            again = partial(cls, message, dataplane, caller)
        try:
            return await dataplane.when_loaded(again, caller.deadline)
        except InferstreamError as refusal:
            return cls(message, dataplane, caller, refusal)

    def parse(self) -> InferenceRequest:
        """Parse the request. Its tensors may be views of the message. Raises InvalidRequest."""
        return parse_request(self.message, references=True)

    def admitted(self) -> Admission:
        """Return the admission. Raises the stored error, for example ModelNotFound or Overloaded."""
        if self.admission is None:
            raise self._refusal
        return self.admission


class StreamDialect(ABC):
    """A format of requests, responses and errors on a stream. One object serves all streams."""

    name: ClassVar[str]
    aliases: ClassVar[Sequence[str]] = ()
    """Alternative names in the dialect header."""

    header: ClassVar[str] = HEADER
    """The metadata key that selects a dialect."""

    raw_writer: ClassVar[ResponseVisitor[bytes]] = WRITERS[False]
    """Encodes a response as a ModelInferResponse with raw contents: `response.accept(raw_writer)`."""

    length = staticmethod(encode_varint)
    """Encodes the length of a field, for messages that embed such bytes."""

    def __init__(self, dataplane: DataPlane, profile: Profile) -> None:
        self._dataplane = dataplane
        self._profile = profile

    @staticmethod
    @abstractmethod
    def is_certain(first: StreamRequest, metadata: Headers) -> bool:
        """Whether the first request of a stream has a feature that no other dialect has."""

    @staticmethod
    def is_likely(first: StreamRequest, metadata: Headers) -> bool:
        """Whether the first request looks like this dialect. Called if no dialect is certain."""
        return False

    @abstractmethod
    async def serve(self, first: StreamRequest, exchange: StreamExchange, caller: Caller) -> None:
        """Serve a stream to its end. An exception becomes the status of the RPC."""

    async def next_request(self, exchange: StreamExchange, caller: Caller) -> StreamRequest | None:
        """Receive the next request, or None if the client has half-closed. Raises InvalidRequest."""
        message = await exchange.read()
        return None if message is None else await StreamRequest.admitted_of(message, self._dataplane, caller)

    @staticmethod
    def raw_stream_writer() -> ResponseVisitor[bytes]:
        """Return a `raw_writer` for one stream. It is faster if successive responses are alike."""
        return MessageWriter(typed=False)

    def message_of(self, error: Exception) -> str:
        """Return the error message for clients. Details of unexpected errors are only logged."""
        return describe_failure(error, self._profile)[1]

    async def announce(self, exchange: StreamExchange) -> None:
        """Send the name of the dialect as initial metadata."""
        await exchange.context.send_initial_metadata(((HEADER, self.name),))
