"""References: parameters of plug-ins by which a tensor names its data, in place of the data."""

from collections.abc import Container
from typing import NoReturn

from ..errors import InvalidRequest
from ..extensions import references


def reference_in(parameters: Container[str] | None) -> str | None:
    """The parameter by which a tensor refers to its data; None if it has none."""
    if parameters:
        for name in references():
            if name in parameters:
                return name
    return None


def refuse_reference(name: str) -> NoReturn:
    """Raise InvalidRequest for a reference in a request whose data no stage brings."""
    raise InvalidRequest(references()[name])
