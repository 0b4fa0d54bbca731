"""permessage-deflate (RFC 7692) for messages from clients."""

from collections.abc import Sequence
from typing import Any

from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import Frame


class Inflating(ServerPerMessageDeflateFactory):
    """Accepts compressed messages without context takeover, so that an idle connection keeps no window."""

    def __init__(self) -> None:
        super().__init__(server_no_context_takeover=True, client_no_context_takeover=True)

    def process_request_params(
        self, params: Sequence[Any], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[Any], Any]:
        agreed, deflate = super().process_request_params(params, accepted_extensions)
        return agreed, Inflate(deflate)


class Inflate(Extension):
    """Reads compressed messages and compresses none: tokens gain little, and large tensors block the event loop."""

    name = ServerPerMessageDeflateFactory.name

    def __init__(self, deflate: PerMessageDeflate) -> None:
        self._deflate = deflate

    def encode(self, frame: Frame) -> Frame:
        return frame

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        return self._deflate.decode(frame, max_size=max_size)
