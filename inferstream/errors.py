"""All errors of the package. Each class has one code, for which `statuses.py` has a status on each transport.

InferstreamError
    AlreadyExists, DeadlineExceeded, Draining, NotStarted, PayloadTooLarge, PermissionDenied, Unsupported, Overloaded
        InflightExceeded (telemetry/inflight.py)
    AnsweredMessage (JSON-RPC), OutOfMemory (processes/errors.py), FetchFailed (repository/remote.py)
        FetchEnded (plugins/sources/transfer.py)
    UnsupportedEncoding, Abandoned, Cancelled, StepFailed, AllAnswered (JSON-RPC), WrongMessage (JSON-RPC)
    ModelError
        ModelLoadFailed, ModelNotReady, RowErrors (rows.py)
        Refused
            LimitExceeded (keys/errors.py), Unauthenticated (keys/errors.py)
    InvalidRequest
        InvalidModelURI, UnopenedState (server/rest/dialects/openai)
        CodecError
            CodecNotFound, InputsNotFound, OutputNotFound
    NotFound
        Gone, ModelNotFound
    WorkerLost
        NeverStarted (dataplane/workers), Suspected (dataplane/workers)
    InferenceFailed
        InvalidOutput
    CallFailed
        CallTimedOut, ConnectionFailed
    InvalidSettings
        MissingExtra, ConflictingSettings (settings/sources.py), UndeclaredField (settings/sections.py)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .statuses import Code as Code
from .statuses import code_of_http


class InferstreamError(Exception):
    """Base of every error. `message` may reach a client; it holds no path and no traceback."""

    code = Code.INTERNAL

    told = False
    """Whether the logs have lines of what it stands for."""

    refuses_caller = False
    """Whether the caller has no right to the operation, or has reached a limit of its own. Every API over HTTP shows
    the status then, even one with a status in its bodies."""

    def __init__(self, message: str) -> None:
        # Model code may pass any text, and no transport carries a lone surrogate.
        self.message = str(message).encode(errors="replace").decode()
        super().__init__(self.message)


class ModelError(InferstreamError):
    """Model code raises it. A client gets the message and the HTTP status, or the gRPC status for that."""

    own_status = True
    """Whether a client gets `status_code` and not the status of `code`."""

    def __init__(self, msg: str, status_code: int = 400) -> None:
        super().__init__(msg)
        self.status_code = status_code
        self.code = code_of_http(status_code)


class Refused(ModelError):
    """The error of a middleware that refuses a call. After `retry_after` seconds another attempt may succeed."""

    def __init__(self, message: str, status: int = 403, retry_after: int | None = None) -> None:
        super().__init__(message, status)
        self.retry_after = retry_after
        self.headers: Mapping[str, str] = {}  # further headers of the response over HTTP
        self.fields: Mapping[str, str] = {}  # further fields of its body over V2


def own_status(error: BaseException) -> int | None:
    """The status that model code chose for an error; None without one."""
    return error.status_code if isinstance(error, ModelError) and error.own_status else None


class InvalidRequest(InferstreamError):
    """The request violates the protocol or the model's declaration. `detail` lists the faults."""

    code = Code.INVALID

    def __init__(self, message: str, detail: list[dict[str, object]] | None = None) -> None:
        super().__init__(message)
        self.detail = detail


class CodecError(InvalidRequest, ModelError):
    """A codec cannot decode or encode a payload: one that model code made if `of_output`. Model code may catch it."""

    def __init__(self, msg: str, of_output: bool = False) -> None:
        super().__init__(msg)
        self.of_output = of_output


class CodecNotFound(CodecError):
    """No codec exists for a content type, a payload or a type hint."""

    def __init__(
        self,
        name: str | None = None,
        payload_type: str | None = None,
        is_input: bool = False,
        is_request: bool = False,
    ) -> None:
        part = "response" if is_request else "input" if is_input else "output"
        subject = (f" {name!r}" if name else "") + (f" of type {payload_type}" if payload_type else "")
        super().__init__(f"No codec found for {part}{subject}.", not is_input)


class OutputNotFound(CodecError):
    """A method with `@decode_args` returned a value that no output can hold."""

    def __init__(self, output_idx: int, output_type: type | str, output_hints: Sequence[type | str]) -> None:
        hints = ", ".join(map(_type_name, output_hints))
        super().__init__(
            f"No output type found at position {output_idx} for a payload of type {_type_name(output_type)}; "
            f"the signature declares {len(output_hints)}: {hints or 'none'}.",
            True,
        )


class InputsNotFound(CodecError):
    """The inputs of a request do not match a signature: `inputs` are left over, or `input_hints` have no input."""

    def __init__(self, inputs: Sequence[Any], input_hints: Mapping[str, Any]) -> None:
        if inputs:
            super().__init__(
                f'input "{inputs[0].name}" is not one of the model\'s inputs: {", ".join(input_hints)}'
            )
        else:
            expected = ", ".join(f"{name} ({_type_name(hint)})" for name, hint in input_hints.items())
            super().__init__(f"The request has no input for: {expected}.")


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


class InvalidModelURI(InvalidRequest, ModelError):
    """`parameters.uri` of a model names no file or folder. Model code may catch it."""

    def __init__(self, name: str, model_uri: str | None = None, why: str = "") -> None:
        which = f"{name} ({model_uri})" if model_uri else name
        super().__init__(f"Invalid URI specified for model {which}{why and f': {why}'}")
        self.status_code = 422


class PayloadTooLarge(InferstreamError):
    """A body exceeds the limit in bytes, before or after decompression."""

    code = Code.TOO_LARGE


class UnsupportedEncoding(InferstreamError):
    """No route accepts the content encoding or media type."""

    code = Code.UNSUPPORTED_ENCODING


class NotFound(InferstreamError):
    """No such name exists."""

    code = Code.NOT_FOUND


class ModelNotFound(NotFound, ModelError):
    """No loaded model has this name and version. A ModelError too, as in MLServer. `known` says which there are."""

    def __init__(self, name: str, version: str | None = None, known: str = "") -> None:
        which = (name or '""') + (f" with version {version}" if version else "")
        super().__init__(f"Model {which} not found{known and f'; {known}'}")
        self.name, self.version = name, version
        self.status_code, self.code = 404, Code.NOT_FOUND


class Gone(NotFound, ModelError):
    """A stream, or a part of one, that was here and is not any more."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.status_code, self.code = 410, Code.NOT_FOUND


class AlreadyExists(InferstreamError):
    """The name is already in use."""

    code = Code.ALREADY_EXISTS


class PermissionDenied(InferstreamError):
    """The caller may not perform the operation."""

    code = Code.PERMISSION_DENIED
    refuses_caller = True


class ModelNotReady(ModelError):
    """The model exists and is not ready."""

    own_status = False

    def __init__(self, name: str, version: str | None = None, *, failed: bool = False) -> None:
        which = f"Model {name} with version {version}" if version else f"Model {name}"
        why = "did not load; the server's log says why" if failed else "is not ready yet"
        super().__init__(f"{which} {why}.")
        self.code = Code.NOT_READY


class Overloaded(InferstreamError):
    """The queue is full; `retry_after` is a hint in seconds."""

    code = Code.OVERLOADED

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class WorkerLost(InferstreamError):
    """The worker process of the request has ended, or a front end does not answer."""

    code = Code.WORKER_LOST


class DeadlineExceeded(InferstreamError):
    """The deadline of the caller, or of the settings, has passed."""

    code = Code.DEADLINE_EXCEEDED

    def __init__(self, message: str = "The deadline of the request has passed.") -> None:
        super().__init__(message)


class Draining(InferstreamError):
    """The server is shutting down."""

    code = Code.DRAINING

    def __init__(self, message: str = "The server is shutting down.") -> None:
        super().__init__(message)


class NotStarted(InferstreamError):
    """The models of a mounted application were never loaded."""

    code = Code.DRAINING  # not NOT_READY: a status profile may map that to another status than 503

    def __init__(self) -> None:
        super().__init__(
            "The application has not been started: give its lifespan to the application that it is mounted in, "
            "as in FastAPI(lifespan=application.lifespan), or enter `async with application`."
        )


class Abandoned(InferstreamError):
    """The client left before the end of the reply. Watchers get this error; clients do not."""

    code = Code.CANCELLED

    def __init__(self) -> None:
        super().__init__("The client left before the end of the reply.")


class Cancelled(InferstreamError):
    """The client cancelled one of several requests on its connection."""

    code = Code.CANCELLED

    def __init__(self) -> None:
        super().__init__("The client cancelled the request.")


class Unsupported(InferstreamError, NotImplementedError):
    """The model or the server does not support the operation. It is a NotImplementedError for model code."""

    code = Code.UNSUPPORTED


class InferenceFailed(InferstreamError):
    """Model code raised. The log gets the chained cause; the client does not."""


class InvalidOutput(InferenceFailed):
    """Model code returned an invalid response. The message names the output."""


class StepFailed(InferstreamError):
    """Model code raised in a step of several streams. The log gets one record for all of them."""


class ModelLoadFailed(ModelError):
    """A model failed to load. The message is one line; `status_code` comes from the model's own error."""

    def __init__(self, msg: str, status_code: int | None = None) -> None:
        super().__init__(msg, status_code or 500)
        self.own_status = status_code is not None


class CallFailed(InferstreamError):
    """A call by one of our clients failed.

    `message` is that of the server, `status` its HTTP status or the one that belongs to its gRPC status, None for a
    failure without one. If `retryable`, another attempt may succeed after `retry_after` seconds. If `unreachable`,
    there was no connection.
    """

    def __init__(
        self,
        message: str,
        retryable: bool = False,
        unreachable: bool = False,
        retry_after: float | None = None,
        status: int | None = None,
        status_name: str | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.unreachable = unreachable
        self.retry_after = retry_after
        self.status = status
        self._status_name = status if status_name is None else status_name

    @property
    def status_name(self) -> str:
        """The name or number of the status, as the transport has it; empty without one."""
        return str(self._status_name or "")

    def __str__(self) -> str:
        return f"{self._status_name}: {self.message}" if self._status_name else self.message


class CallTimedOut(CallFailed, TimeoutError):
    """The time limit of a client's call has passed, at the client or on the server."""


class ConnectionFailed(CallFailed, ConnectionError):
    """A client has no connection to the server, or lost it before the end of the response."""


class InvalidSettings(InferstreamError):
    """A settings file, variable or flag is wrong. The message names the source, field and rule. No client gets it."""

    code = Code.INVALID


class MissingExtra(InvalidSettings, ImportError):
    """A package of an extra is not installed."""

    def __init__(self, what: str, extra: str, missing: ModuleNotFoundError) -> None:
        super().__init__(
            f'{what} needs `pip install "inferstream[{extra}]"`: {missing.name} is not installed'
        )
