"""The exceptions of inferstream. `statuses.py` maps the code of each class to its HTTP and gRPC statuses.

InferstreamError
    AlreadyExists, DeadlineExceeded, Draining, NotStarted, PayloadTooLarge, PermissionDenied, Unsupported, Overloaded
        InflightExceeded (telemetry/inflight.py)
    AnsweredMessage (JSON-RPC), OutOfMemory (processes/errors.py), FetchFailed (repository/remote.py)
        FetchEnded (plugins/sources/transfer.py)
    UnsupportedEncoding, Abandoned, Cancelled, StepFailed, AllAnswered (JSON-RPC), WrongMessage (JSON-RPC)
    ModelError
        ModelLoadFailed, ModelNotReady, RowErrors (rows.py), ScoringError (plugins/kubernetes)
        Refused
            LimitExceeded (keys/errors.py), Unauthenticated (keys/errors.py)
    InvalidRequest
        InvalidModelURI, UnopenedState (server/rest/dialects/openai)
        CodecError
            CodecNotFound, InputsNotFound, OutputNotFound
    NotFound
        Gone, ModelNotFound
    WorkerLost
        NeverStarted (dataplane/workers), Suspected (dataplane/workers), WorkerRestarting
    InferenceFailed
        InvalidOutput
    CallFailed
        CallTimedOut, ConnectionFailed
    InvalidSettings
        MissingExtra, ConflictingSettings (settings/sources.py), UndeclaredField (settings/sections.py)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .extras import install_command as install_command
from .statuses import Code as Code
from .statuses import find_code

HINT = "; hint: "
"""The separator between a message and its hint, the next step."""


def describe_failure(message: str) -> str:
    """Format a message as commands print it: `error: MESSAGE`, with its hint on a second line."""
    return f"error: {message}".replace(HINT, "\nhint: ")


class InferstreamError(Exception):
    """Base class of all errors.

    `message` may be sent to a client, so it contains no path and no traceback.
    """

    code = Code.INTERNAL

    told = False
    """Whether the error has already been logged."""

    refuses_caller = False
    """Whether the caller lacks a permission or has exceeded its own limit.

    Every HTTP API then returns the error's status, even an API that otherwise reports errors in the body of a
    200.
    """

    def __init__(self, message: str) -> None:
        # Model code may pass any text, and no transport carries a lone surrogate.
        self.message = str(message).encode(errors="replace").decode()
        super().__init__(self.message)


class ModelError(InferstreamError):
    """An error that model code raises.

    The client receives its message and its HTTP status, or the matching gRPC status.
    """

    own_status = True
    """Whether the client receives `status_code` instead of the status of `code`."""

    def __init__(self, msg: str, status_code: int = 400) -> None:
        super().__init__(msg)
        self.status_code = status_code
        self.code = find_code(status_code)


class Refused(ModelError):
    """Raised by middleware to reject a call.

    `retry_after` is the time in seconds after which a retry may succeed.
    """

    def __init__(self, message: str, status: int = 403, retry_after: int | None = None) -> None:
        super().__init__(message, status)
        self.retry_after = retry_after
        self.headers: Mapping[str, str] = {}  # additional headers of the HTTP response
        self.fields: Mapping[str, str] = {}  # additional fields of the V2 error body


def own_status(error: BaseException) -> int | None:
    """Return the HTTP status that model code chose for an error, or None."""
    return error.status_code if isinstance(error, ModelError) and error.own_status else None


class InvalidRequest(InferstreamError):
    """The request violates the protocol or the model's signature. `detail` lists the violations."""

    code = Code.INVALID

    def __init__(self, message: str, detail: list[dict[str, object]] | None = None) -> None:
        super().__init__(message)
        self.detail = detail


class CodecError(InvalidRequest, ModelError):
    """A codec cannot decode or encode a payload. Model code may catch it.

    `of_output` is true if model code produced the payload, so that the client is not at fault.
    """

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
    """A method with `@decode_args` returned a value that no codec can encode."""

    def __init__(self, output_idx: int, output_type: type | str, output_hints: Sequence[type | str]) -> None:
        hints = ", ".join(map(_type_name, output_hints))
        super().__init__(
            f"No output type found at position {output_idx} for a payload of type {_type_name(output_type)}; "
            f"the signature declares {len(output_hints)}: {hints or 'none'}.",
            True,
        )


class InputsNotFound(CodecError):
    """The inputs of a request do not match a signature.

    Either `inputs` are unexpected, or those in `input_hints` are missing.
    """

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
    """The `parameters.uri` of a model does not name a file or folder. Model code may catch it."""

    def __init__(self, name: str, model_uri: str | None = None, why: str = "") -> None:
        which = f"{name} ({model_uri})" if model_uri else name
        super().__init__(f"Invalid URI specified for model {which}{why and f': {why}'}")
        self.status_code = 422


class PayloadTooLarge(InferstreamError):
    """A body exceeds the size limit, before or after decompression."""

    code = Code.TOO_LARGE


class UnsupportedEncoding(InferstreamError):
    """The content encoding or media type of a request is not supported."""

    code = Code.UNSUPPORTED_ENCODING


class NotFound(InferstreamError):
    """The name does not exist."""

    code = Code.NOT_FOUND


class ModelNotFound(NotFound, ModelError):
    """No loaded model has this name and version. `known` is a phrase that lists the available ones.

    It is also a ModelError, as in MLServer.
    """

    def __init__(self, name: str, version: str | None = None, known: str = "") -> None:
        which = (name or '""') + (f" with version {version}" if version else "")
        super().__init__(f"Model {which} not found{known and f'; {known}'}")
        self.name, self.version = name, version
        self.status_code, self.code = 404, Code.NOT_FOUND


class Gone(NotFound, ModelError):
    """The stream, or a part of it, existed but has been discarded."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.status_code, self.code = 410, Code.NOT_FOUND


class AlreadyExists(InferstreamError):
    """The name is already in use."""

    code = Code.ALREADY_EXISTS


class PermissionDenied(InferstreamError):
    """The caller is not allowed to perform the operation."""

    code = Code.PERMISSION_DENIED
    refuses_caller = True


class ModelNotReady(ModelError):
    """The model exists but is not ready."""

    own_status = False

    def __init__(self, name: str, version: str | None = None, *, failed: bool = False) -> None:
        which = f"Model {name} with version {version}" if version else f"Model {name}"
        why = "did not load; the server's log says why" if failed else "is not ready yet"
        super().__init__(f"{which} {why}.")
        self.code = Code.NOT_READY


class Overloaded(InferstreamError):
    """The server has no room for the request, for example in a queue. `retry_after` is in seconds."""

    code = Code.OVERLOADED

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class WorkerLost(InferstreamError):
    """The worker process that ran the request has exited, or a front-end process does not respond."""

    code = Code.WORKER_LOST


class WorkerRestarting(WorkerLost):
    """No worker process runs the model at the moment, and one is being started."""


class DeadlineExceeded(InferstreamError):
    """The deadline of the request, set by the client or by the settings, has passed."""

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

    code = Code.DRAINING  # not NOT_READY, which a status profile may map to another status than 503

    def __init__(self) -> None:
        super().__init__(
            "The application has not been started: give its lifespan to the application that it is mounted in, "
            "as in FastAPI(lifespan=application.lifespan), or enter `async with application`."
        )


class Abandoned(InferstreamError):
    """The client disconnected before the end of the response. Only observers receive this error."""

    code = Code.CANCELLED

    def __init__(self) -> None:
        super().__init__("The client left before the end of the reply.")


class Cancelled(InferstreamError):
    """The client cancelled one of several requests on a shared connection."""

    code = Code.CANCELLED

    def __init__(self) -> None:
        super().__init__("The client cancelled the request.")


class Unsupported(InferstreamError, NotImplementedError):
    """The model or the server does not support the operation.

    Model code can catch it as a NotImplementedError.
    """

    code = Code.UNSUPPORTED


class InferenceFailed(InferstreamError):
    """Model code raised an exception. The chained cause is logged but not sent to the client."""


class InvalidOutput(InferenceFailed):
    """Model code returned an invalid response. The message names the output."""


class StepFailed(InferstreamError):
    """Model code raised an exception in a step shared by several streams.

    It is logged once for all of them.
    """


class ModelLoadFailed(ModelError):
    """A model failed to load.

    The message is a single line. `status_code` is the HTTP status of the model's error, if it has one.
    """

    def __init__(self, msg: str, status_code: int | None = None) -> None:
        super().__init__(msg, status_code or 500)
        self.own_status = status_code is not None


class CallFailed(InferstreamError):
    """A client's call failed.

    `message` is the server's message. `status` is the HTTP status, or the HTTP equivalent of the gRPC status.
    It is None if the server sent no status. If `retryable`, another attempt may succeed, after `retry_after`
    seconds if set. If `unreachable`, no connection was established.
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
        """The status as the transport spells it: a gRPC name or an HTTP number. Empty without a status."""
        return str(self._status_name or "")

    def __str__(self) -> str:
        return f"{self._status_name}: {self.message}" if self._status_name else self.message


class CallTimedOut(CallFailed, TimeoutError):
    """A call exceeded its time limit, at the client or on the server."""


class ConnectionFailed(CallFailed, ConnectionError):
    """A client could not connect to the server, or lost the connection before the end of the response."""


class InvalidSettings(InferstreamError):
    """A settings file, variable or flag is invalid.

    The message names the source, field and rule. Never sent to clients.
    """

    code = Code.INVALID


class MissingExtra(InvalidSettings, ImportError):
    """A package of an optional extra is not installed."""

    def __init__(self, what: str, extra: str, missing: ModuleNotFoundError) -> None:
        super().__init__(f"{what} needs {missing.name}, which is not installed{HINT}{install_command(extra)}")
