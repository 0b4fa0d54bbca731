"""Limits on the number of tensors and parameters in a request, checked before they are parsed."""

from ..errors import InvalidRequest

MAX_TENSORS = 256
MAX_PARAMETERS = 256


def expect_tensors(count: int, kind: str) -> None:
    """Raise InvalidRequest for too many tensors. `kind` is "inputs" or "outputs"."""
    if count > MAX_TENSORS:
        raise InvalidRequest(f"{count} {kind} are more than the {MAX_TENSORS} allowed")


def expect_parameters(count: int, where: str) -> None:
    """Raise InvalidRequest for too many parameters. `where` names their location."""
    if count > MAX_PARAMETERS:
        raise InvalidRequest(f"{where}: {count} are more than the {MAX_PARAMETERS} allowed")
