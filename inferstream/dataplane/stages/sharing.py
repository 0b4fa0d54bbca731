"""The parts of requests that must be equal to share a response."""

from collections.abc import Hashable, Mapping

import msgspec

from ...types import Parameters
from ..priority import PACE, PRIORITY, TIMEOUT

canonical = msgspec.msgpack.Encoder(order="deterministic").encode
"""Distinguishes 1, 1.0 and true, which are equal in Python and may differ for a model."""

UNENCODABLE = (TypeError, ValueError, OverflowError, msgspec.MsgspecError)
"""Raised by `canonical` for values that exist only in this process and cannot be compared."""

EACH_ITS_OWN = frozenset((PACE, PRIORITY, TIMEOUT))
"""Parameters that the dataplane has applied; they may differ between callers that share a response."""


def common(parameters: Parameters | None, without: frozenset[str] = frozenset()) -> Hashable:
    """A form of the parameters that is equal only if they are. Raises one of `UNENCODABLE`."""
    if parameters is None:
        return None
    free = parameters.__pydantic_extra__
    if free and not without.isdisjoint(free):
        free = {name: value for name, value in free.items() if name not in without}
    return (parameters.content_type, canonical(free)) if free else parameters.content_type


def copied(
    parameters: Parameters | None,
    headers: Mapping[str, str] | None = None,
    without: frozenset[str] = frozenset(),
) -> Parameters:
    """A copy with these headers, and without entries of codecs, which belong to one tensor or request."""
    if parameters is None:
        return Parameters.aside(headers)
    free = parameters.__pydantic_extra__ or {}
    rest = {name: value for name, value in free.items() if name not in without}
    return Parameters.of(rest, parameters.content_type, headers)
