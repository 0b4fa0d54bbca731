"""All errors of the package, as one tree. Each class has one code that is independent of a transport.

    InferstreamError
    ├── ModelError                 model code raises it with a message and a status of its own
    │   ├── ModelNotReady
    │   └── ModelLoadFailed
    ├── InvalidRequest             the request is wrong
    │   ├── CodecError             payload and codec do not fit; a ModelError too, as in MLServer
    │   │   ├── CodecNotFound
    │   │   ├── OutputNotFound
    │   │   └── InputsNotFound
    │   └── InvalidModelURI        likewise
    ├── PayloadTooLarge
    ├── UnsupportedEncoding
    ├── NotFound                   a name is unknown
    │   └── ModelNotFound          a ModelError too
    ├── AlreadyExists
    ├── PermissionDenied
    ├── Overloaded                 the queue of the model is full
    ├── WorkerLost                 the process that ran the request has ended
    ├── DeadlineExceeded
    ├── Draining                   the server is shutting down
    ├── NotStarted                 the models of a mounted application were never loaded
    ├── Abandoned                  the client left before the end
    ├── Cancelled                  the client cancelled one request and stays connected
    ├── Unsupported                the model or the server does not support an operation
    ├── InferenceFailed            model code raised
    │   └── InvalidOutput          model code returned an invalid response
    ├── StepFailed                 model code raised in a step that many streams shared
    ├── CallFailed                 a call by one of our own clients failed
    └── InvalidSettings            never reaches a client: the process does not start

No class knows a transport: `server/status.py` maps codes to HTTP, gRPC and SSE.
"""

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any


class Code(Enum):
    """Kinds of failure. Each transport maps a code to its own status."""

    INVALID = "invalid"
    TOO_LARGE = "too_large"
    UNSUPPORTED_ENCODING = "unsupported_encoding"
    NOT_FOUND = "not_found"
    ALREADY_EXISTS = "already_exists"
    PERMISSION_DENIED = "permission_denied"
    NOT_READY = "not_ready"
    OVERLOADED = "overloaded"
    DEADLINE_EXCEEDED = "deadline_exceeded"
    WORKER_LOST = "worker_lost"
    DRAINING = "draining"
    CANCELLED = "cancelled"
    UNSUPPORTED = "unsupported"
    INTERNAL = "internal"


class InferstreamError(Exception):
    """Base of every error. `message` may reach the client; it has no path and no traceback."""

    code = Code.INTERNAL

    def __init__(self, message: str) -> None:
        # Model code raises these with whatever it has at hand, and no transport carries a lone surrogate.
        self.message = str(message).encode(errors="replace").decode()
        super().__init__(self.message)


class ModelError(InferstreamError):
    """Raised by model code. The client gets the message and the HTTP status, or gRPC's status for it."""

    code = Code.INVALID

    own_status = True
    """Whether a client gets `status_code`, or the status of `code`."""

    def __init__(self, msg: str, status_code: int = 400) -> None:
        super().__init__(msg)
        self.status_code = status_code
        self.code = _code_of_status(status_code)


def own_status(error: BaseException) -> int | None:
    """The status that model code has chosen for an error; None if it has chosen none."""
    return error.status_code if isinstance(error, ModelError) and error.own_status else None


def _code_of_status(status: int) -> Code:
    known = {
        401: Code.PERMISSION_DENIED,
        403: Code.PERMISSION_DENIED,
        404: Code.NOT_FOUND,
        409: Code.ALREADY_EXISTS,
        413: Code.TOO_LARGE,
        415: Code.UNSUPPORTED_ENCODING,
        429: Code.OVERLOADED,
        501: Code.UNSUPPORTED,
        503: Code.NOT_READY,
        504: Code.DEADLINE_EXCEEDED,
    }
    return known.get(status, Code.INVALID if status < 500 else Code.INTERNAL)


class InvalidRequest(InferstreamError):
    """The request violates the protocol or the model's declaration. `detail` lists single faults."""

    code = Code.INVALID

    def __init__(self, message: str, detail: list[dict[str, object]] | None = None) -> None:
        super().__init__(message)
        self.detail = detail


class CodecError(InvalidRequest, ModelError):
    """The chosen codec cannot decode or encode a payload. Model code may catch it."""

    def __init__(self, msg: str) -> None:
        super().__init__(msg)


class CodecNotFound(CodecError):
    """No codec exists for a content type, a payload or a type hint."""

    def __init__(
        self,
        name: str | None = None,
        payload_type: str | None = None,
        is_input: bool = False,
        is_request: bool = False,
    ) -> None:
        part = "request" if is_request else "input" if is_input else "output"
        subject = f" {name!r}" if name else ""
        kind = f" of type {payload_type}" if payload_type else ""
        super().__init__(f"No codec found for {part}{subject}{kind}.")


class OutputNotFound(CodecError):
    """A method with `@decode_args` returned a value for which no output can be built."""

    def __init__(self, output_idx: int, output_type: type | str, output_hints: Sequence[type | str]) -> None:
        hints = ", ".join(map(_type_name, output_hints))
        super().__init__(
            f"No output type found at position {output_idx} for a payload of type {_type_name(output_type)}; "
            f"the signature declares {len(output_hints)}: {hints or 'none'}."
        )


class InputsNotFound(CodecError):
    """The inputs of a request are not those of a signature: `inputs` has no place in it, or `input_hints` no input."""

    def __init__(self, inputs: Sequence[Any], input_hints: Mapping[str, Any]) -> None:
        if inputs:
            names = ", ".join(input_hints)
            super().__init__(f'input "{inputs[0].name}" is not one of the model\'s inputs: {names}')
        else:
            expected = ", ".join(f"{name} ({_type_name(hint)})" for name, hint in input_hints.items())
            super().__init__(f"The request has no input for: {expected}.")


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)


class InvalidModelURI(InvalidRequest, ModelError):
    """`parameters.uri` of a model names nothing that exists; raised into model code."""

    def __init__(self, name: str, model_uri: str | None = None) -> None:
        super().__init__(f"Invalid URI specified for model {name}" + (f" ({model_uri})" if model_uri else ""))
        self.status_code = 422


class PayloadTooLarge(InferstreamError):
    """A body, before or after decompression, is over the limit in bytes."""

    code = Code.TOO_LARGE


class UnsupportedEncoding(InferstreamError):
    """A content encoding or media type that no route accepts."""

    code = Code.UNSUPPORTED_ENCODING


class NotFound(InferstreamError):
    """The name is unknown."""

    code = Code.NOT_FOUND


class ModelNotFound(NotFound, ModelError):
    """No loaded model has this name and version. A ModelError too, as in MLServer."""

    def __init__(self, name: str, version: str | None = None) -> None:
        super().__init__(
            f"Model {name} with version {version} not found" if version else f"Model {name} not found"
        )
        self.name = name
        self.version = version
        self.status_code = 404
        self.code = Code.NOT_FOUND


class AlreadyExists(InferstreamError):
    """Two things claim one name."""

    code = Code.ALREADY_EXISTS


class PermissionDenied(InferstreamError):
    """The caller may not perform the operation."""

    code = Code.PERMISSION_DENIED


class ModelNotReady(ModelError):
    """The model is known and not ready."""

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
    """The worker process of the request has ended."""

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
    """The application is there, and nobody has loaded its models."""

    code = (
        Code.DRAINING
    )  # as then, no request is taken, whatever the profile of statuses calls a model not ready

    def __init__(self) -> None:
        super().__init__(
            "The application has not been started: give its lifespan to the application that it is mounted in, "
            "as in FastAPI(lifespan=application.lifespan), or enter `async with application`."
        )


class Abandoned(InferstreamError):
    """The reader of a reply left before its end. Watchers see this error; clients do not."""

    code = Code.CANCELLED

    def __init__(self) -> None:
        super().__init__("The client left before the end of the reply.")


class Cancelled(InferstreamError):
    """The client cancelled one of several requests on its connection."""

    code = Code.CANCELLED

    def __init__(self) -> None:
        super().__init__("The client cancelled the request.")


class Unsupported(InferstreamError, NotImplementedError):
    """The model or the server does not support the operation. Model code may catch it as NotImplementedError."""

    code = Code.UNSUPPORTED


class InferenceFailed(InferstreamError):
    """Model code raised. The cause is chained for the log and not sent to the client."""

    code = Code.INTERNAL


class InvalidOutput(InferenceFailed):
    """Model code returned an invalid response. The message names the output."""


class StepFailed(InferstreamError):
    """A step failed for all its streams. It is logged once for all of them."""


class ModelLoadFailed(ModelError):
    """A model failed to load. The message gives the reason in one line; `status_code` is that of the model's error."""

    def __init__(self, msg: str, status_code: int | None = None) -> None:
        super().__init__(msg, status_code or 500)
        self.own_status = status_code is not None


class CallFailed(InferstreamError):
    """A call by one of our clients failed. `retryable`: another attempt may succeed, after `retry_after` seconds."""

    code = Code.INTERNAL

    def __init__(
        self,
        message: str,
        retryable: bool = False,
        unreachable: bool = False,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.unreachable = unreachable
        self.retry_after = retry_after


class InvalidSettings(InferstreamError):
    """A settings file, variable or flag is wrong. The message names the source, field and rule."""

    code = Code.INVALID
