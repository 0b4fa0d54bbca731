"""Access to a model: a door asks for one admission and opens its calls through it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ..codecs.values.flat import FlatInterface
from ..errors import ModelNotFound
from ..signature import Signature
from ..text.interface import TextInterface
from ..types import InferenceRequest, MetadataTensor, Parameters
from ..types.values_request import InputsForm
from .call import Call, Operation, identify
from .priority import apply_parameters
from .reply import Reply

if TYPE_CHECKING:
    from .cloudevents import CloudEvents
    from .serving import ServedModel


async def _paced(opening: Awaitable[Reply], interval: float) -> Reply:
    reply = await opening
    reply.pace(interval)
    return reply


class Admission:
    """Permission to call one model as it is served now.

    `principal` names the client where the door knows it. After the model is withdrawn, `open` looks for its successor.
    """

    __slots__ = ("_events", "_find", "_served", "model", "principal", "version")

    def __init__(
        self,
        served: "ServedModel",
        find: "Callable[[str, str | None], ServedModel]",
        model: str,
        version: str | None,
        events: "CloudEvents | None" = None,
        principal: str | None = None,
    ) -> None:
        self._served = served
        self._find = find
        self._events = events
        self.model = model
        self.version = version
        self.principal = principal

    @property
    def signature(self) -> Signature:
        return self._served.execution.signature

    @property
    def inputs(self) -> Sequence[MetadataTensor]:
        return self._served.execution.signature.declared_inputs

    @property
    def described(self) -> Sequence[MetadataTensor]:
        """The inputs that a runtime describes where nothing declares inputs."""
        return self._served.execution.signature.described

    @property
    def predicts(self) -> bool:
        """Whether the model can return a single response."""
        capabilities = self._served.execution.capabilities
        return capabilities.predict or capabilities.gathers

    @property
    def streams(self) -> bool:
        """Whether the model has a streaming method of its own."""
        return self._served.execution.capabilities.streams

    @property
    def text(self) -> TextInterface | None:
        """How the model takes text, if it does. Raises ModelNotFound for one that `openai: false` hides."""
        served = self._served
        if served.text is None and served.execution.settings.openai is False:
            raise ModelNotFound(self.model, self.version)
        return served.text

    @property
    def flat(self) -> FlatInterface | None:
        """How flat JSON objects become its requests; None if its inputs are not known."""
        return self._served.flat

    @property
    def form(self) -> InputsForm | None:
        """The form of requests that need no tensors; None if all need them."""
        return self._served.form

    @property
    def hidden(self) -> bool:
        """Whether its settings hide it from clients of texts."""
        return self._served.hidden

    @property
    def takes_any(self) -> bool:
        """Whether requests may hold objects beyond the protocol's texts and numbers."""
        return self._served.takes_any

    @property
    def resumable(self) -> bool | None:
        """Whether clients may resume all its streams; None where the server's settings say so."""
        return self._served.resumable

    @property
    def stream_dialect(self) -> Literal["mlserver", "triton"] | None:
        return self._served.execution.settings.grpc_stream_dialect

    def call(
        self,
        operation: Operation,
        request: InferenceRequest,
        headers: Mapping[str, str],
        more: AsyncIterator[InferenceRequest] | None = None,
        deadline: float | None = None,
        task: asyncio.Task[object] | None = None,
        priority: int = 0,
    ) -> Call:
        """Make a call of the model for `open`. `Call` describes the arguments.

        Sets a missing request id, and `headers` as `parameters.headers`. The parameter `priority` overrides the
        argument; the earlier of two deadlines counts. Raises InvalidRequest for a wrong `priority` or `timeout`.
        """
        call = Call(
            operation,
            self.model,
            self.version,
            request,
            headers,
            more,
            deadline,
            task,
            priority,
            self.principal,
        )
        apply_parameters(call, self.identify(request, headers))
        call.priority = call.priority or self._served.priority
        return call

    def identify(self, request: InferenceRequest, headers: Mapping[str, str]) -> Parameters | None:
        """Set the headers of a later request, and its id if it has none. `call` does this for the first request."""
        parameters = identify(request, headers)
        if self._events is not None:
            self._events.add_to(request, self.model)
        return parameters

    def open(self, call: Call) -> Awaitable[Reply]:
        """Open the reply to a call.

        Raises the errors of stages and model, at once or when awaited. Raises ModelNotFound, ModelNotReady or Draining
        if the model was withdrawn after its admission.
        """
        if self._served.withdrawn:
            self._served = self._find(self.model, self.version)
        served = self._served
        if call.pace or served.pace:
            return _paced(served.handler(call), max(call.pace, served.pace))
        return served.handler(call)

    def left_unopened(self) -> None:
        """Count a call that its client cancelled before `open`."""
        self._served.meters.left_unopened()
