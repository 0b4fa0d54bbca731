"""Base classes and tags of the frames between processes, encoded as typed MessagePack and never pickled."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, get_args

import msgspec
import numpy as np

from ..errors import (
    Code,
    InferstreamError,
    InvalidRequest,
    ModelError,
    Overloaded,
    Refused,
    own_status,
)
from ..telemetry.tracebacks import RaisedElsewhere, describe_cause
from .errors import OutOfMemory

_FRAMES = """
Frame Query Answer Logged Registered
Start LoadInstance UnloadInstance Unloaded Ping Stop Readiness MeterChanges Describe CallRoute Free
Open More Wanted Credit Full Cancel Form Item ItemOf Ended Failed Partly ReadBody LeaveRoute
Configure Prepare Serve Withdraw Release Tell OpenPorts Drain Shutdown Retired Lost Replace
LoadVersions UnloadVersions ListModels SumMeters Count Counted SendRecords Subscribed Records
Forward
"""
TAGS = {name: tag for tag, name in enumerate(_FRAMES.split())}
"""Tags of all frames, by class name."""

A = TypeVar("A")


class Part(msgspec.Struct, array_like=True, gc=False):
    """A part of a frame."""


class Frame(Part, tag=TAGS.__getitem__):
    """A message between two processes: an event, unless it is a `Query`."""


class Query(Frame, Generic[A], kw_only=True):
    """A frame that requests a result of type `A`."""

    number: int = 0
    """Set by the process that sends the query."""


class PeerQuestion(Part, Generic[A]):
    """A query between front-end processes. It is defined by the module that sends it."""


def answer_type(question: Query[A] | PeerQuestion[A]) -> type[A]:
    (base,) = type(question).__orig_bases__  # type: ignore[union-attr]
    (answer,) = get_args(base)
    return answer  # type: ignore[no-any-return]


class Failure(Part):
    """An error with its code and all fields that a transport may send to a client."""

    code: str
    message: str
    status_code: int | None = None
    detail: list[dict[str, Any]] | None = None
    retry_after: int | None = None
    explanation: str | None = None
    """Additional information for the log or for developers."""
    headers: dict[str, str] | None = None
    """HTTP response headers."""


class Answer(Frame):
    """The result of the query with this number, or its failure."""

    number: int
    value: Any = None
    failure: Failure | None = None


class Logged(Frame):
    model: str
    version: str
    values: dict[str, float]


class Registered(Frame):
    name: str
    description: str


UNENCODABLE = (TypeError, ValueError, OverflowError, NotImplementedError, msgspec.MsgspecError)
"""Errors raised for values that cannot be packed or encoded because they exist only within a process."""


def encode_foreign(value: Any) -> Any:
    """Encode NumPy numbers, arrays and mappings, which the JSON encoder supports but MessagePack does not."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"a {type(value).__name__}")


def pack_failure(error: InferstreamError) -> Failure:
    return Failure(
        error.code.value,
        error.message,
        own_status(error),
        error.detail if isinstance(error, InvalidRequest) else None,
        error.retry_after if isinstance(error, Overloaded | Refused) else None,
        _explain(error),
        dict(error.headers) if isinstance(error, Refused) else None,
    )


def _explain(error: InferstreamError) -> str | None:
    """Return the exception behind a failure of a model. For errors of clients, finding it costs too much."""
    if error.code is Code.INTERNAL or isinstance(error.__cause__, RaisedElsewhere):
        return describe_cause(error)
    return None


def unpack_failure(failure: Failure) -> InferstreamError:
    """Recreate an error from another process, as if it had been raised in this one."""
    error = _unpack(failure)
    if failure.explanation is not None:
        error.__cause__ = RaisedElsewhere(failure.explanation)
    return error


def _unpack(failure: Failure) -> InferstreamError:
    if failure.status_code is not None:
        if failure.headers is None:
            return ModelError(failure.message, failure.status_code)
        refused = Refused(failure.message, failure.status_code, failure.retry_after)
        refused.headers = failure.headers
        return refused
    if failure.retry_after is not None:
        return Overloaded(failure.message, failure.retry_after)
    code = Code(failure.code)
    if code is Code.INVALID:
        return InvalidRequest(failure.message, failure.detail)
    if code is Code.OUT_OF_MEMORY:
        return OutOfMemory(failure.message)
    error = InferstreamError(failure.message)
    error.code = code
    return error
