"""permessage-deflate (RFC 7692) as a server of tokens and tensors wants it."""

from collections.abc import Sequence
from typing import Any

from websockets.exceptions import PayloadTooBig
from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import Frame


class Deflate(ServerPerMessageDeflateFactory):
    """Compresses each message on its own, so that an idle connection keeps no window of either direction."""

    def __init__(self, smallest: int) -> None:
        super().__init__(
            server_no_context_takeover=True,
            client_no_context_takeover=True,
            compress_settings={"level": 1},
        )
        self._smallest = smallest

    def process_request_params(
        self, params: Sequence[Any], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[Any], Any]:
        found, deflate = super().process_request_params(params, accepted_extensions)
        return found, LargeOnly(deflate, self._smallest)


class LargeOnly(Extension):
    """Compresses what has `smallest` bytes or more, and inflates no more than a message may still hold."""

    name = ServerPerMessageDeflateFactory.name

    def __init__(self, deflate: PerMessageDeflate, smallest: int) -> None:
        self._deflate = deflate
        self._smallest = smallest

    def encode(self, frame: Frame) -> Frame:
        return frame if len(frame.data) < self._smallest else self._deflate.encode(frame)

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        if max_size is None or max_size > 0:
            return self._deflate.decode(frame, max_size=max_size)
        # To zlib a limit of 0 is none, so the last fragment of a message that is full would know none.
        inflated = self._deflate.decode(frame, max_size=1)
        if inflated.data:
            raise PayloadTooBig(len(inflated.data), max_size)
        return inflated
