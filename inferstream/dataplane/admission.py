"""Access to a model: a door asks for one admission and opens its calls through it."""

from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InferstreamError
from ..protos.generate import tensors_of
from ..protos.ids import check_id
from ..protos.json_requests import build_request, load_request
from ..signature import Signature
from ..types import Headers, InferenceRequest, Parameters, RequestInput
from .access import CallMeter
from .call import Call, Operation, apply_parameters, identify
from .call_group import CallGroup
from .caller import Caller
from .reply import Reply
from .stages.access_log import refused

if TYPE_CHECKING:
    from ..concurrency.outgoing import ByteCount
    from .serving import ServedModel, Serving


async def _paced(opening: Awaitable[Reply], interval: float) -> Reply:
    reply = await opening
    reply.pace(interval)
    return reply


class Admission:
    """Permission of a caller to call one model as it is served now.

    After the model is withdrawn, `open` looks for its successor.
    """

    _call: Call
    """The last one that was opened; not set before."""

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
        """What the model is, for doors that read its requests."""
        self._registry = registry
        self.metering = metering
        """None where nothing is counted, so that doors need no sizes."""
        self.model = model
        self.version = version
        self.caller = caller
        # The caller of a connection changes with its later requests.
        self.key = caller.key
        self.principal = caller.principal
        self.size = 0
        """Bytes of the request, which count with the next call. Doors set it where there is a `metering`."""

    @property
    def signature(self) -> Signature:
        return self.pipeline.execution.signature

    @property
    def predicts(self) -> bool:
        """Whether the model can return a single response."""
        capabilities = self.pipeline.execution.capabilities
        return capabilities.predict or capabilities.gathers

    def read_request(self, body: bytes, id: str | None = None) -> InferenceRequest:
        """A V2 request in JSON; `id` replaces the one that is in it. Raises InvalidRequest."""
        document, text = load_request(body)
        request, _ = build_request(document, text, None, nested=self.pipeline.takes_any)
        if id is not None:
            request.id = check_id(id)
        return request

    def read_tensors(self, values: Mapping[str, Any] | list[Any]) -> list[RequestInput]:
        """The inputs of a request, of JSON values as the model declares the inputs or describes them.

        The values are an object by input, or a list of objects: the rows of a table, whose columns are the inputs.
        Raises InvalidRequest.
        """
        signature = self.signature
        return tensors_of(values, signature.declared_inputs, signature.described)

    @staticmethod
    def model_headers(parameters: Parameters | None) -> Iterator[tuple[str, str]]:
        """The headers that the model has set in the parameters of a response, with names in lower case.

        A model that returns the headers of its request has set none.
        """
        headers: Any = None if parameters is None else parameters.headers
        if headers and not isinstance(headers, Headers):
            for name, value in headers.items():
                yield str(name).lower(), str(value)

    def identify(self, request: InferenceRequest) -> Parameters | None:
        """Set the headers of a later request, and its id if it has none. `open` does this for the first request."""
        parameters = identify(request, self.caller.headers)
        marks = self.pipeline.marks
        if marks is not None:
            marks.add_to(request, self.model)
        return parameters

    def renew(self) -> None:
        """Look for the successor of a model that was withdrawn. Raises ModelNotFound, ModelNotReady, Draining."""
        if self._served.withdrawn:
            self._served = self._registry.serving(self.model, self.version, self.caller)
            self.pipeline = self._served.pipeline

    def group(self) -> CallGroup:
        """Several calls, not open yet, whose responses are one reply."""
        self.caller.task = None  # each call has a task of its own
        return CallGroup(self.open)

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
            refused(self._registry.lines, caller, operation.value, self.model, error, None)
            if self.metering is not None:
                self.metering.refused(operation.value, caller, self.model, error)
            raise
        served = self._served
        if self.metering is None:  # so nobody is a principal
            call.priority = call.priority or served.priority
            opening = served.handler(call)
        else:
            size, self.size = self.size, 0
            opening = self.metering.open(served.handler, call, caller, size, self.key, served.priority)
        if call.pace or served.pace:
            return _paced(opening, max(call.pace, served.pace))
        return opening

    @property
    def usage(self) -> "ByteCount | None":
        """Where bytes of responses are added as `sent`; None without a principal."""
        key = self.key
        if self.metering is None or key is None:
            return None
        return key.use or self.metering.use_of(key)

    def sent(self, size: int) -> None:
        """Count the bytes of a whole response."""
        key = self.key
        if key is not None and self.metering is not None:
            (key.use or self.metering.use_of(key)).sent += size

    def received(self, size: int) -> None:
        """Count the bytes of a later message of a request. Raises LimitExceeded."""
        if self.metering is not None and self.key is not None:
            self.metering.receive(self.key, size)

    def end(self, error: Exception) -> None:
        """End the last call that was opened, if it has not ended."""
        if hasattr(self, "_call"):
            self._call.end(error)

    def left_unopened(self) -> None:
        """Count a call that its client cancelled before `open`."""
        self.pipeline.meters.left_unopened()
