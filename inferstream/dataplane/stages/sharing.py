"""What requests must have in common to share an answer, and what of them is each caller's own."""

from collections.abc import Hashable

import msgspec

from ...types import Parameters
from ..priority import PRIORITY, TIMEOUT

canonical = msgspec.msgpack.Encoder(order="deterministic").encode
"""Tells 1 from 1.0 and from true, which compare as equal in Python, and the model may tell apart."""

UNENCODABLE = (TypeError, ValueError, OverflowError, msgspec.MsgspecError)
"""What `canonical` raises for a value that only lives inside this process: no telling whether it is equal."""

EACH_ITS_OWN = frozenset((PRIORITY, TIMEOUT))
"""What the dataplane has understood already, and what may differ between callers that share an answer."""


def common(parameters: Parameters | None, without: frozenset[str] = frozenset()) -> Hashable:
    """The parameters in a form that is equal only if they are. Raises one of `UNENCODABLE`."""
    if parameters is None:
        return None
    free = parameters.__pydantic_extra__
    if free and not without.isdisjoint(free):
        free = {name: value for name, value in free.items() if name not in without}
    return (parameters.content_type, canonical(free)) if free else parameters.content_type


def copied(
    parameters: Parameters | None, fields: dict[str, object], without: frozenset[str] = frozenset()
) -> Parameters:
    """Parameters without what codecs have kept there, which belongs to one tensor or request."""
    if parameters is None:
        return Parameters.trusted(fields, {})
    if parameters.content_type is not None:
        fields["content_type"] = parameters.content_type
    free = parameters.__pydantic_extra__ or {}
    return Parameters.trusted(fields, {name: value for name, value in free.items() if name not in without})
