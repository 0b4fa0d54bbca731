"""Triton's extensions that this server does not have: their paths answer 501 and name the extension."""

from collections.abc import Sequence
from functools import partial

from ....dataplane.access import Action
from ....errors import Unsupported
from .base import HttpDialect, ReadClaim, ReadRoute

MISSING = {
    "/v2/cudasharedmemory/{path}": "cuda_shared_memory",
}


class MissingExtensions(HttpDialect):
    """The paths of extensions that are off."""

    name = "triton's missing extensions"

    def reads(self) -> Sequence[ReadClaim]:
        return [
            ReadClaim(path, Action.SETTINGS, partial(_refuse, name), methods=None)
            for path, name in MISSING.items()
        ]


async def _refuse(extension: str, _: ReadRoute) -> tuple[int, bytes]:
    raise Unsupported(f'This server does not have the extension "{extension}".')
