"""Errors of processes."""

from ..errors import Code, InferstreamError


class OutOfMemory(InferstreamError):
    """A model or its worker has no memory left for a call, or there is no room for the model."""

    code = Code.OUT_OF_MEMORY
