"""permessage-deflate (RFC 7692), of which the server does the half that clients ask for."""

from collections.abc import Sequence
from typing import Any

from websockets.exceptions import PayloadTooBig
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import Frame


class Inflating(ServerPerMessageDeflateFactory):
    """Offers to read compressed messages, each on its own: an idle connection keeps no window."""

    def __init__(self) -> None:
        super().__init__(server_no_context_takeover=True, client_no_context_takeover=True)

    def process_request_params(
        self, params: Sequence[Any], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[Any], Any]:
        agreed, deflate = super().process_request_params(params, accepted_extensions)
        return agreed, Inflate(deflate)


class Inflate(Extension):
    """Inflates no more than a message may still hold, and compresses nothing.

    Tokens gain nothing by it, and a large tensor would keep the event loop; streams of events are not
    compressed either.
    """

    name = ServerPerMessageDeflateFactory.name

    def __init__(self, deflate: PerMessageDeflate) -> None:
        self._deflate = deflate

    def encode(self, frame: Frame) -> Frame:
        return frame

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        if max_size is None or max_size > 0:
            return self._deflate.decode(frame, max_size=max_size)
        # To zlib a limit of 0 is none, so the last fragment of a message that is full would know none.
        inflated = self._deflate.decode(frame, max_size=1)
        if inflated.data:
            raise PayloadTooBig(len(inflated.data), max_size)
        return inflated
