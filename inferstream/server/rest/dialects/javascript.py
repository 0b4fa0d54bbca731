"""The JavaScript client, which pages of this server import from it."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from ....dataplane.access import Action
from .base import HttpDialect, ReadClaim, ReadRoute

PATH = "/inferstream.js"
CONTENT_TYPE = b"text/javascript; charset=utf-8"


class JavaScriptClient(HttpDialect):
    """The client as one file."""

    name = "javascript client"

    def reads(self) -> Sequence[ReadClaim]:
        return [ReadClaim(PATH, Action.PAGE, _read, content_type=CONTENT_TYPE)]


async def _read(_: ReadRoute) -> tuple[int, bytes]:
    return 200, _source()


@cache
def _source() -> bytes:
    return (files("inferstream") / "javascript" / "inferstream.js").read_bytes()
