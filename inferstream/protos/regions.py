"""Tensors that a request leaves in shared memory: their parameters (protocol, Triton's shared memory extension)."""

from collections.abc import Sequence

from ..errors import InvalidRequest
from ..types import Parameters, RequestOutput

REGION, SIZE, OFFSET = "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset"
"""Parameters of an input or a requested output: the name of a registered region, and bytes in it."""


class UsesRegions(InvalidRequest):
    """A request has tensors in shared memory, and its door has not said that it reads those."""

    def __init__(self) -> None:
        super().__init__(
            "Tensors in shared memory are for single requests of V2 over REST, and for gRPC, on a server that has the "
            'extension "system_shared_memory".'
        )


def in_region(parameters: Parameters | None, regions: bool) -> bool:
    """Whether a tensor is in a region. Raises UsesRegions where it is and `regions` are not read."""
    if parameters is None or REGION not in (parameters.__pydantic_extra__ or ()):
        return False
    if not regions:
        raise UsesRegions
    return True


def refuse_regions(outputs: Sequence[RequestOutput]) -> None:
    """Raise UsesRegions if one of these is to be written to a region."""
    for output in outputs:
        in_region(output.parameters, False)
