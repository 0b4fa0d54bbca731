"""Access to a model: a door asks for one admission and opens its calls through it."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Literal

from ..codecs.values.flat import FlatInterface
from ..errors import InferstreamError, ModelNotFound
from ..signature import Signature
from ..telemetry.access import AccessLines
from ..text.interface import TextInterface
from ..types import InferenceRequest, MetadataTensor, Parameters
from ..types.values_request import InputsForm
from .call import Call, Operation, identify
from .caller import Caller
from .priority import apply_parameters
from .reply import Reply
from .stages.access_log import record_of_refusal

if TYPE_CHECKING:
    from .cloudevents import CloudEvents
    from .serving import ServedModel, Serving


async def _paced(opening: Awaitable[Reply], interval: float) -> Reply:
    reply = await opening
    reply.pace(interval)
    return reply


class Admission:
    """Permission of a caller to call one model as it is served now.

    After the model is withdrawn, `open` looks for its successor.
    """

    __slots__ = ("_call", "_events", "_registry", "_served", "caller", "model", "version")

    def __init__(
        self,
        served: "ServedModel",
        registry: "Serving",
        model: str,
        version: str | None,
        caller: Caller,
        events: "CloudEvents | None" = None,
    ) -> None:
        self._served = served
        self._registry = registry
        self._events = events
        self._call: Call | None = None
        self.model = model
        self.version = version
        self.caller = caller

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
        if served.pipeline.text is None and served.execution.settings.openai is False:
            raise ModelNotFound(self.model, self.version)
        return served.pipeline.text

    @property
    def flat(self) -> FlatInterface | None:
        """How flat JSON objects become its requests; None if its inputs are not known."""
        return self._served.pipeline.flat

    @property
    def form(self) -> InputsForm | None:
        """The form of requests that need no tensors; None if all need them."""
        return self._served.pipeline.form

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

    def identify(self, request: InferenceRequest) -> Parameters | None:
        """Set the headers of a later request, and its id if it has none. `open` does this for the first request."""
        parameters = identify(request, self.caller.headers)
        if self._events is not None:
            self._events.add_to(request, self.model)
        return parameters

    def renew(self) -> None:
        """Look for the successor of a model that was withdrawn. Raises ModelNotFound, ModelNotReady, Draining."""
        if self._served.withdrawn:
            self._served = self._registry.serving(self.model, self.version)

    def open(
        self,
        operation: Operation,
        request: InferenceRequest,
        more: AsyncIterator[InferenceRequest] | None = None,
    ) -> Awaitable[Reply]:
        """Open the reply to a request; `more` yields the later requests of a bidirectional stream.

        Sets a missing request id, and the caller's headers as `parameters.headers`. The parameters `priority` and
        `items_per_second` override the caller's; the earlier of two deadlines counts.

        Raises InvalidRequest for a wrong one at once, and the errors of `renew`. Raises the errors of stages and
        model when awaited.
        """
        caller = self.caller
        call = self._call = Call(
            operation,
            self.model,
            self.version,
            request,
            caller.headers,
            more,
            caller.deadline,
            caller.task,
            caller.priority,
            caller.principal,
            caller.dialect,
            caller.pace,
        )
        try:
            apply_parameters(call, self.identify(request))
            if self._served.withdrawn:
                self.renew()
        except InferstreamError as error:
            refused(self._registry.lines, caller, operation.value, self.model, error)
            raise
        served = self._served
        call.priority = call.priority or served.priority
        if call.pace or served.pace:
            return _paced(served.handler(call), max(call.pace, served.pace))
        return served.handler(call)

    def fail(self, error: Exception) -> None:
        """End the last call that was opened, if it has not ended."""
        if self._call is not None:
            self._call.fail(error)

    def end(self, error: Exception) -> None:
        """As `fail`, and run the model's `finally`, also while the reader of its stream is slow."""
        if self._call is not None:
            self._call.end(error)

    def left_unopened(self) -> None:
        """Count a call that its client cancelled before `open`."""
        self._served.pipeline.meters.left_unopened()


def refused(
    lines: AccessLines,
    caller: Caller,
    operation: str,
    model: str,
    error: BaseException,
    began: float | None = None,
) -> None:
    """Log a request that ended in an error before it became a call; `began` is on the clock of `perf_counter`."""
    if lines.on:
        began = perf_counter() if began is None else began
        lines.put(record_of_refusal(caller, operation, model, error, began))
