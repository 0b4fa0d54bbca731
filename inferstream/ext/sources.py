"""Model sources: remote URIs and reading from them."""

from typing import TYPE_CHECKING

from ._names import export

if TYPE_CHECKING:
    from ..repository.remote import FetchFailed as FetchFailed
    from ..repository.remote import RemoteFile as RemoteFile
    from ..repository.remote import RemoteSource as RemoteSource
    from ..repository.remote import shown as hide_credentials

__all__ = [
    "FetchFailed",
    "RemoteFile",
    "RemoteSource",
    "hide_credentials",
]

_NAMES = {
    "repository.remote": "FetchFailed RemoteFile RemoteSource shown=hide_credentials",
}

__getattr__ = export(__name__, _NAMES)
