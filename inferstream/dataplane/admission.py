"""The one way to a model: a door asks for admission once, and opens its calls through it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from ..signature import Signature
from ..text.interface import TextInterface
from ..types import InferenceRequest, MetadataTensor, Parameters
from .call import Call, Operation, identify
from .priority import apply_parameters
from .reply import Reply

if TYPE_CHECKING:
    from .cloudevents import CloudEvents
    from .serving import ServedModel


class Admission:
    """Permission to call one model, as it is served at this moment.

    `principal` names the client, where a door knows one. Where the model has been withdrawn since, `open` asks
    for what serves in its place.
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
        """What the model takes and returns."""
        return self._served.execution.signature

    @property
    def inputs(self) -> Sequence[MetadataTensor]:
        """The inputs that the model declares."""
        return self._served.execution.signature.declared_inputs

    @property
    def streams(self) -> bool:
        """Whether the model makes streams of its own."""
        return self._served.execution.capabilities.streams

    @property
    def text(self) -> TextInterface | None:
        """How the model takes text, if it does."""
        return self._served.text

    @property
    def takes_any(self) -> bool:
        """Whether requests may hold objects where the protocol has texts and numbers."""
        return self._served.takes_any

    @property
    def stream_dialect(self) -> Literal["mlserver", "triton"] | None:
        """The dialect that the model's settings name for gRPC streams."""
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
        """A call of the model, for `open`; the parameters of `Call` say what each argument is.

        The request gets an id if it has none, and `headers` as `parameters.headers`. Of the request's own
        parameters `priority` wins over the argument, and the earlier of two deadlines counts.
        Raises InvalidRequest for a wrong `priority` or `timeout`.
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

    def identify(self, request: InferenceRequest, headers: Mapping[str, str]) -> Parameters:
        """Give a later request of a call an id if it has none, and its headers; `call` does so for the first."""
        parameters = identify(request, headers)
        if self._events is not None:
            self._events.add_to(request, self.model)
        return parameters

    def open(self, call: Call) -> Awaitable[Reply]:
        """Open the reply to a call.

        Raises what a stage or the model refuses with, at once or when awaited. Raises ModelNotFound,
        ModelNotReady or Draining where the model has been withdrawn since its admission.
        """
        if self._served.withdrawn:
            self._served = self._find(self.model, self.version)
        return self._served.handler(call)

    def left_unopened(self) -> None:
        """Count a call that its client has cancelled before `open` was reached."""
        self._served.meters.left_unopened()
