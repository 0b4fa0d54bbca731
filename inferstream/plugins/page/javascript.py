"""The JavaScript client, which web pages import from the server."""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from inferstream.ext.calls import Action
from inferstream.ext.http import Answer, HttpDialect, ReadClaim

PATH = "/inferstream.js"
SCRIPT = (b"content-type", b"text/javascript; charset=utf-8")


class JavaScriptClient(HttpDialect):
    """Serves the client as a single file."""

    name = "javascript client"

    def reads(self) -> Sequence[ReadClaim]:
        return [ReadClaim(PATH, Action.PAGE, _read)]


async def _read(*_: object) -> Answer:
    return 200, [SCRIPT], _source()


@cache
def _source() -> bytes:
    return (files(__package__) / "client" / "inferstream.js").read_bytes()
