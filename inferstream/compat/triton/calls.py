"""Requests and responses as code for Triton's Python backend has them."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ...errors import Abandoned, ModelError
from ...types import InferenceRequest
from .tensor import BackendTensor

SEQUENCE_START, SEQUENCE_END = 1, 2
"""Flags of a request."""

FINAL = 1
"""Flag of the last response to a request."""

RELEASE_ALL, RELEASE_RESCHEDULE = 1, 2
"""Flags of a request that the code returns."""

OF_SERVER = ("priority", "binary_data_output")
"""Parameters of a request that Triton keeps for itself."""

TRACES = "a request has no trace here; the setting tracing_server traces every call"

CALLS = (
    "a model of Triton's Python backend calls no other model here; a function with the setting `calls` does"
)


class TritonModelException(Exception):
    """An error whose message clients get."""


class TritonError:
    """The error of one response, with one of these codes."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    STATUSES = (500, 500, 404, 400, 503, 501, 409, 499)
    """HTTP statuses of the codes, which are those of gRPC too."""

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        if not 0 <= code < len(self.STATUSES):
            raise TritonModelException(f"{code!r} is no code of TritonError")
        self._message, self._code = str(message), code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code

    def raised(self) -> ModelError:
        """The error as the client gets it."""
        return ModelError(self._message, self.STATUSES[self._code])

    def __str__(self) -> str:
        return self._message


class BackendResponse:
    """Tensors, or an error in their place."""

    def __init__(
        self,
        output_tensors: Sequence[BackendTensor] = (),
        error: TritonError | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        self._tensors, self._error = [*output_tensors], error
        self._parameters = parameters or {}

    def output_tensors(self) -> list[BackendTensor]:
        return self._tensors

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error

    def parameters(self) -> str:
        """The parameters as JSON, as Triton gives them."""
        return json.dumps(self._parameters)

    def told(self) -> dict[str, Any]:
        """The parameters."""
        return self._parameters


class Ending(threading.Event):
    """Set by the last response, by an error, and when nobody reads further ones."""

    error: Exception | None = None
    left = False
    """Whether nobody waits for a response any more."""

    def leave(self) -> None:
        """Drop every further response."""
        self.left = True
        self.set()


class BackendSender:
    """Takes the responses to one request, in any thread, also after `execute` has returned."""

    def __init__(self, send: Callable[[BackendResponse, bool], None]) -> None:
        """`send` takes a response, and whether it is the last one."""
        self._send = send
        self.ended = Ending()

    def send(self, response: BackendResponse | None = None, flags: int = 0) -> None:
        """Send a response, or no more than the end. Waits where the client reads slowly.

        A response to a client that has left is dropped. Raises TritonModelException for one behind the last.
        """
        if flags not in (0, FINAL):
            raise TritonModelException(f"{flags!r} are no flags of a response")
        if response is None and not flags:
            raise TritonModelException("without a response, send takes the flag of the last one")
        if self.ended.left:
            return
        if self.ended.is_set():
            raise TritonModelException("the last response to this request has been sent already")
        try:
            if response is not None:
                self._send(response, bool(flags))
        except Abandoned:
            self.ended.leave()
        except Exception as error:  # the client gets every error
            self.ended.error = error
            self.ended.leave()
        if flags:
            self.ended.set()

    def is_cancelled(self) -> bool:
        """Whether nobody waits for a response any more."""
        return self.ended.left

    def __del__(self) -> None:
        # Code that forgets the sender has nothing more to send.
        self.ended.set()


class BackendRequest:
    """One request: the whole batch, where the server has gathered several."""

    def __init__(
        self,
        request_id: str = "",
        correlation_id: int | str = 0,
        inputs: Sequence[BackendTensor] = (),
        requested_output_names: Sequence[str] = (),
        parameters: dict[str, Any] | None = None,
        flags: int = 0,
        timeout: int = 0,
        sender: BackendSender | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        **_: Any,
    ) -> None:
        self._id, self._correlation = request_id, correlation_id
        self._inputs, self._outputs = [*inputs], [*requested_output_names]
        self._parameters = parameters or {}
        self._flags, self._timeout = flags, timeout
        self._sender, self._cancelled = sender, cancelled

    @classmethod
    def of(
        cls,
        payload: InferenceRequest,
        sender: BackendSender,
        outputs: Sequence[str],
        cancelled: Callable[[], bool],
    ) -> "BackendRequest":
        """A request for the code. `outputs` are those of the model, if the client names none."""
        said = dict(payload.parameters.items()) if payload.parameters is not None else {}
        flags = SEQUENCE_START * bool(said.pop("sequence_start", False))
        flags |= SEQUENCE_END * bool(said.pop("sequence_end", False))
        for name in OF_SERVER:
            said.pop(name, None)
        return cls(
            payload.id or "",
            said.pop("sequence_id", 0),
            [BackendTensor.of(tensor) for tensor in payload.inputs],
            [each.name for each in payload.outputs] if payload.outputs else outputs,
            said,
            flags,
            int(said.pop("timeout", 0)),
            sender,
            cancelled,
        )

    def inputs(self) -> list[BackendTensor]:
        return self._inputs

    def request_id(self) -> str:
        return self._id

    def correlation_id(self) -> int | str:
        return self._correlation

    def requested_output_names(self) -> list[str]:
        return self._outputs

    def parameters(self) -> str:
        """The parameters as JSON, as Triton gives them."""
        return json.dumps(self._parameters)

    def flags(self) -> int:
        return self._flags

    def timeout(self) -> int:
        """Microseconds."""
        return self._timeout

    def is_cancelled(self) -> bool:
        """Whether the client has left, or its deadline has passed."""
        return self._cancelled() or (self._sender is not None and self._sender.is_cancelled())

    def get_response_sender(self) -> BackendSender:
        """Where the responses go. Raises TritonModelException for a request that the code has made itself."""
        if self._sender is None:
            raise TritonModelException("only a request of a client has a response sender")
        return self._sender

    def set_release_flags(self, flags: int) -> None:
        """Raise TritonModelException unless the code is done with the request."""
        if flags != RELEASE_ALL:
            raise TritonModelException("a request is not scheduled again here; send responses in one execute")

    def trace(self) -> NoReturn:
        raise TritonModelException(TRACES)

    def exec(self, *_: Any, **__: Any) -> NoReturn:
        raise TritonModelException(CALLS)

    def async_exec(self, *_: Any, **__: Any) -> NoReturn:
        raise TritonModelException(CALLS)


def get_input_tensor_by_name(inference_request: BackendRequest, name: str) -> BackendTensor | None:
    """The input of this name; None without one."""
    return next((tensor for tensor in inference_request.inputs() if tensor.name() == name), None)


def get_output_tensor_by_name(inference_response: BackendResponse, name: str) -> BackendTensor | None:
    """The output of this name; None without one."""
    return next((tensor for tensor in inference_response.output_tensors() if tensor.name() == name), None)
