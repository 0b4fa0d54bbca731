"""Admission of a caller to a model. Transports open calls through it."""

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import InferstreamError
from ..protos.generate import encode_tensors
from ..protos.ids import check_id
from ..protos.json_requests import build_request, load_request
from ..signature import Signature
from ..types import Headers, InferenceRequest, Parameters, RequestInput
from .access import CallMeter
from .call import Call, Operation, apply_parameters, identify
from .call_group import CallGroup
from .caller import Caller
from .reply import Reply
from .stages.access_log import log_rejection

if TYPE_CHECKING:
    from ..codecs.values.flat import FlatInterface
    from ..concurrency.outgoing import ByteCount
    from ..protos.json_checks import JsonLimits
    from ..settings import ModelSettings
    from .execution.base import Capabilities
    from .residency import Resident
    from .serving import ServedModel, Serving

T = TypeVar("T")


async def _pace(opening: Awaitable[Reply], interval: float) -> Reply:
    reply = await opening
    reply.pace(interval)
    return reply


class Admission:
    """Permission for a caller to call one model.

    If the model is replaced later, `open` switches to the new version.
    """

    _call: Call
    """The most recent call. Unset before the first."""

    __slots__ = (
        "_call",
        "_registry",
        "_served",
        "caller",
        "key",
        "metering",
        "model",
        "pipeline",
        "principal",
        "size",
        "version",
    )

    def __init__(
        self,
        served: "ServedModel",
        registry: "Serving",
        model: str,
        version: str | None,
        caller: Caller,
        metering: CallMeter | None = None,
    ) -> None:
        self._served = served
        self.pipeline = served.pipeline
        """The model's pipeline, for the core only. Plug-ins use the properties."""
        self._registry = registry
        self.metering = metering
        """The usage meter. If it is None, transports do not have to measure sizes."""
        self.model = model
        self.version = version
        self.caller = caller
        # Copied, because the caller of a connection may change with later requests.
        self.key = caller.key
        self.principal = caller.principal
        self.size = 0
        """Request size in bytes, counted with the next call. Set only if `metering` is set."""

    @property
    def signature(self) -> Signature:
        return self.pipeline.execution.signature

    @property
    def settings(self) -> "ModelSettings":
        return self.pipeline.settings

    @property
    def capabilities(self) -> "Capabilities":
        return self.pipeline.execution.capabilities

    @property
    def flat(self) -> "FlatInterface | None":
        """The named arguments and results of the model, or None if it only accepts tensors."""
        return self.pipeline.flat

    @property
    def limits(self) -> "JsonLimits":
        """The limits for JSON bodies."""
        return self.pipeline.limits

    @property
    def resident(self) -> "Resident | None":
        """The model's residency in memory, or None if the model is never evicted."""
        return self.pipeline.execution.resident

    @property
    def predicts(self) -> bool:
        """Whether the model can return a single response."""
        capabilities = self.capabilities
        return capabilities.predict or capabilities.gathers

    def facet(self, kind: type[T]) -> "T | None":
        """Return the facet of this type that a plug-in computed when the model was loaded, or None."""
        return self.pipeline.facet(kind)

    def read_request(self, body: bytes, id: str | None = None) -> InferenceRequest:
        """Parse a V2 request in JSON. `id` overrides the id in the body. Raises InvalidRequest."""
        document, text = load_request(body)
        request, _ = build_request(document, text, None, nested=self.pipeline.takes_any)
        if id is not None:
            request.id = check_id(id)
        return request

    def read_tensors(self, values: Mapping[str, Any] | list[Any]) -> list[RequestInput]:
        """Convert JSON values to input tensors, according to the model's declared or described inputs.

        `values` is an object whose keys are input names, or a list of such objects, one per row. Raises
        InvalidRequest.
        """
        signature = self.signature
        return encode_tensors(values, signature.declared_inputs, signature.described)

    @staticmethod
    def model_headers(parameters: Parameters | None) -> Iterator[tuple[str, str]]:
        """Yield the response headers that the model has set in the parameters, with names in lower case.

        Request headers that a model passes back are ignored.
        """
        headers: Any = None if parameters is None else parameters.headers
        if headers and not isinstance(headers, Headers):
            for name, value in headers.items():
                yield str(name).lower(), str(value)

    def identify(self, request: InferenceRequest) -> Parameters | None:
        """Attach the headers to a later request of the call, and generate an id if it has none.

        `open` does this for the first request.
        """
        parameters = identify(request, self.caller.headers)
        marks = self.pipeline.marks
        if marks is not None:
            marks.add_to(request, self.model)
        return parameters

    def renew(self) -> None:
        """If the model was withdrawn, switch to its replacement.

        Raises ModelNotFound, ModelNotReady or Draining.
        """
        if self._served.withdrawn:
            self._served = self._registry.serving(self.model, self.version, self.caller)
            self.pipeline = self._served.pipeline

    def group(self) -> CallGroup:
        """Create a group of calls whose responses form one reply. `CallGroup.open` opens the calls."""
        self.caller.task = None  # Each call gets a separate task.
        return CallGroup(self.open)

    def open(
        self,
        operation: Operation,
        request: InferenceRequest,
        more: AsyncIterator[InferenceRequest] | None = None,
    ) -> Awaitable[Reply]:
        """Open the reply to a request. `more` yields the later requests of a bidirectional stream.

        Adds a request id if it is missing, and the caller's headers as `parameters.headers`. The parameters
        `priority` and `items_per_second` override the caller's values. If the parameter `timeout` ends before
        the caller's deadline, it replaces the deadline.

        Immediately raises InvalidRequest for invalid parameters, or the errors of `renew`. Errors of stages
        and of the model are raised when the result is awaited.
        """
        caller = self.caller
        call = self._call = Call(
            operation,
            self.model,
            self.version,
            request,
            self.caller.headers,
            more,
            caller.deadline,
            caller.task,
            caller.priority,
            self.principal,
            caller.dialect,
            caller.pace,
        )
        try:
            apply_parameters(call, self.identify(request))
            if self._served.withdrawn:
                self.renew()
        except InferstreamError as error:
            log_rejection(self._registry.lines, caller, operation.value, self.model, error, None)
            if self.metering is not None:
                self.metering.record_rejection(operation.value, caller, self.model, error)
            raise
        served = self._served
        if self.metering is None:  # Without metering, there are no principals.
            call.priority = call.priority or served.priority
            opening = served.handler(call)
        else:
            size, self.size = self.size, 0
            opening = self.metering.open(served.handler, call, caller, size, self.key, served.priority)
        if call.pace or served.pace:
            return _pace(opening, max(call.pace, served.pace))
        return opening

    @property
    def usage(self) -> "ByteCount | None":
        """The counter for response bytes (`sent`), or None if the client's usage is not metered."""
        key = self.key
        if self.metering is None or key is None:
            return None
        return key.use or self.metering.create_use(key)

    def count_response(self, size: int) -> None:
        """Count the bytes of a complete response."""
        key = self.key
        if key is not None and self.metering is not None:
            (key.use or self.metering.create_use(key)).sent += size

    def count_message(self, size: int) -> None:
        """Count the bytes of a later message of the request. Raises LimitExceeded."""
        if self.metering is not None and self.key is not None:
            self.metering.receive(self.key, size)

    def end(self, error: Exception) -> None:
        """End the most recent call, unless it has already ended."""
        if hasattr(self, "_call"):
            self._call.end(error)

    def count_early_end(self) -> None:
        """Count a call that the client cancelled before `open`."""
        self.pipeline.meters.count_early_end()
