"""Authorization: the base class of authorities."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..dataplane.access import Authority as Authority

__all__ = [
    "Authority",
]

_NAMES = {
    "dataplane.access": "Authority",
}

__getattr__ = export(__name__, _NAMES)
