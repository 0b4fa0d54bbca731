"""The error of a process that has run out of memory."""

from ..errors import Code, InferstreamError


class OutOfMemory(InferstreamError):
    """Out of memory: in a model or its worker during a call, or no room to load a model."""

    code = Code.OUT_OF_MEMORY
