"""The number of tensors and parameters that a request may have, which is asked before one is read."""

from ..errors import InvalidRequest

MAX_TENSORS = 256
MAX_PARAMETERS = 256


def expect_tensors(count: int, kind: str) -> None:
    """Raise InvalidRequest for too many inputs or outputs, which `kind` says."""
    if count > MAX_TENSORS:
        raise InvalidRequest(f"{count} {kind} are more than the {MAX_TENSORS} allowed")


def expect_parameters(count: int, where: str) -> None:
    """Raise InvalidRequest for too many parameters in one place, which `where` says."""
    if count > MAX_PARAMETERS:
        raise InvalidRequest(f"{where}: {count} are more than the {MAX_PARAMETERS} allowed")
