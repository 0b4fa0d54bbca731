"""The request and response classes of the Triton Python backend."""

import json
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from inferstream.errors import Abandoned, ModelError
from inferstream.types import InferenceRequest

from .tensor import BackendTensor

SEQUENCE_START, SEQUENCE_END = 1, 2
"""Request flags."""

FINAL = 1
"""The flag of the last response to a request."""

RELEASE_ALL, RELEASE_RESCHEDULE = 1, 2
"""Flags for `set_release_flags`."""

OF_SERVER = ("priority", "binary_data_output")
"""Request parameters that Triton does not pass to models."""

TRACES = "a request has no trace here; the setting tracing_server traces every call"

CALLS = (
    "a model of Triton's Python backend calls no other model here; a function with the setting `calls` does"
)


class TritonModelException(Exception):
    """An error whose message is sent to clients."""


class TritonError:
    """An error in place of a response, with a Triton error code."""

    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)

    STATUSES = (500, 500, 404, 400, 503, 501, 409, 499)
    """HTTP statuses by code."""

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        if not 0 <= code < len(self.STATUSES):
            raise TritonModelException(f"{code!r} is no code of TritonError")
        self._message, self._code = str(message), code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code

    def to_error(self) -> ModelError:
        """Return the error to raise for the client."""
        return ModelError(self._message, self.STATUSES[self._code])

    def __str__(self) -> str:
        return self._message


class BackendResponse:
    """The tensors of a response, or an error."""

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
        """Return the parameters as JSON, as in Triton."""
        return json.dumps(self._parameters)

    def parameters_as_dict(self) -> dict[str, Any]:
        """Return the parameters as a dictionary."""
        return self._parameters


class Ending(threading.Event):
    """An event that is set by the last response, by an error, or when the client no longer waits."""

    error: Exception | None = None
    left = False
    """Whether the client no longer waits for responses."""

    def leave(self) -> None:
        """Drop all later responses."""
        self.left = True
        self.set()


class BackendSender:
    """Sends the responses to one request, from any thread, even after `execute` has returned."""

    def __init__(self, send: Callable[[BackendResponse, bool], None]) -> None:
        """`send` receives a response and whether it is the last one."""
        self._send = send
        self.ended = Ending()

    def send(self, response: BackendResponse | None = None, flags: int = 0) -> None:
        """Send a response, or only the end of the stream. Blocks while the client reads slowly.

        Responses to a disconnected client are dropped. Raises TritonModelException after the last response.
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
        except Exception as error:  # All errors are reported to the client.
            self.ended.error = error
            self.ended.leave()
        if flags:
            self.ended.set()

    def is_cancelled(self) -> bool:
        """Whether the client no longer waits for responses."""
        return self.ended.left

    def __del__(self) -> None:
        # If the code releases the sender, no more responses follow.
        self.ended.set()


class BackendRequest:
    """One request, or a whole batch if the server has merged several requests."""

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
        """Convert an inference request.

        `outputs` are the names of the model's outputs, for clients that do not request any.
        """
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
        """Return the parameters as JSON, as in Triton."""
        return json.dumps(self._parameters)

    def flags(self) -> int:
        return self._flags

    def timeout(self) -> int:
        """Return the timeout in microseconds."""
        return self._timeout

    def is_cancelled(self) -> bool:
        """Whether the client has disconnected or its deadline has passed."""
        return self._cancelled() or (self._sender is not None and self._sender.is_cancelled())

    def get_response_sender(self) -> BackendSender:
        """Return the sender of the responses.

        Raises TritonModelException if the model code created the request.
        """
        if self._sender is None:
            raise TritonModelException("only a request of a client has a response sender")
        return self._sender

    def set_release_flags(self, flags: int) -> None:
        """Raise TritonModelException unless the flags release the request."""
        if flags != RELEASE_ALL:
            raise TritonModelException("a request is not scheduled again here; send responses in one execute")

    def trace(self) -> NoReturn:
        raise TritonModelException(TRACES)

    def exec(self, *_: Any, **__: Any) -> NoReturn:
        raise TritonModelException(CALLS)

    def async_exec(self, *_: Any, **__: Any) -> NoReturn:
        raise TritonModelException(CALLS)


def get_input_tensor_by_name(inference_request: BackendRequest, name: str) -> BackendTensor | None:
    """Return the input with this name, or None."""
    return next((tensor for tensor in inference_request.inputs() if tensor.name() == name), None)


def get_output_tensor_by_name(inference_response: BackendResponse, name: str) -> BackendTensor | None:
    """Return the output with this name, or None."""
    return next((tensor for tensor in inference_response.output_tensors() if tensor.name() == name), None)
