"""References: plug-in parameters that locate the data of a tensor, which the request then omits."""

from collections.abc import Container
from typing import NoReturn

from ..errors import InvalidRequest
from ..extensions.discovery import references


def find_reference(parameters: Container[str] | None) -> str | None:
    """Return the name of the parameter with which a tensor refers to its data, or None."""
    if parameters:
        for name in references():
            if name in parameters:
                return name
    return None


def reject_reference(name: str) -> NoReturn:
    """Raise InvalidRequest for a reference, in a request whose stages do not fetch the data."""
    raise InvalidRequest(references()[name])
