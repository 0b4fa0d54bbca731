"""Inference over WebSockets: the route, the upgrade, and the compression of client messages."""

import re
from collections.abc import Sequence
from typing import Any

from websockets.extensions import Extension
from websockets.extensions.permessage_deflate import PerMessageDeflate, ServerPerMessageDeflateFactory
from websockets.frames import Frame

from ...dataplane.access import Action
from ...dataplane.call import header_priority, header_timeout
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...dataplane.json_limits import json_limits
from ...errors import InferstreamError, ModelNotReady, NotFound
from ...settings import Settings
from ...telemetry.metrics import Meters
from ...types import Headers
from ..connections import relative_path
from ..edge import Edge, Listener, OpenSocket
from ..request_ids import RequestIds
from ..status import status_of
from .conversation import Conversation, Socket
from .messages import BODY_SETTING, Head
from .origins import Origins

ROUTE = re.compile(r"/v2/models/(.+?)(?:/versions/([^/]+))?/stream")
PLAIN = "/v2/models/{model_name}/stream"
VERSIONED = "/v2/models/{model_name}/versions/{model_version}/stream"

SUBPROTOCOL = "inferstream"
"""The subprotocol that is accepted. Browsers offer it together with another one that contains their API key.

Browsers fail the connection unless the server accepts one of the offered subprotocols.
"""


class WebSocketDoor:
    """Opens WebSockets at `/v2/models/{name}/stream`, with the limits of the settings."""

    def __init__(
        self, dataplane: DataPlane, settings: Settings, meters: Meters, edges: Sequence[Edge] = ()
    ) -> None:
        self.profile = settings.status_profile
        self.max_message = settings.max_body_bytes
        self.too_large = f"A message may have {self.max_message} bytes (setting {BODY_SETTING})."
        self._json = json_limits(settings)
        self.silence = settings.websocket_silence_timeout
        self.stall = settings.stream_stall_timeout
        self.extensions = [Inflating()]
        self.request_ids = RequestIds.of(settings)
        self._dataplane = dataplane
        self._meters = meters
        self.inflight = meters.inflight
        self._origins = Origins(settings)
        self._begin: OpenSocket = self._open
        for edge in edges:
            self._begin = edge.socket(self._begin)
        self._prefix = settings.root_path

    def open(
        self, socket: Socket, path: str, headers: list[tuple[bytes, bytes]], request_id: bytes | None
    ) -> Listener:
        """Start a conversation with the model in a decoded path. `request_id` is the id of the upgrade.

        Raises InferstreamError if the upgrade is rejected.
        """
        return self._begin(socket, relative_path(self._prefix, path) or path, headers, request_id)

    def _open(
        self, socket: Socket, path: str, headers: list[tuple[bytes, bytes]], request_id: bytes | None
    ) -> Conversation:
        match = ROUTE.fullmatch(path)
        if match is None:
            raise NotFound("Not Found")
        name, version = match.groups()
        template = VERSIONED if version else PLAIN
        caller = Caller(Headers(headers, None, socket), "websocket")
        try:
            self._origins.check(headers)
            head = Head(headers)
            limit = None if head.timeout is None else header_timeout(head.timeout)
            caller.priority = header_priority(head.priority)
            self._dataplane.access.check(Action.STREAM, caller, name)
            if not self._dataplane.model_ready(name, version):
                raise ModelNotReady(name, version)
        except InferstreamError as error:
            self._meters.rest.requests["GET", template, str(status_of(error, self.profile).http)].observe(0.0)
            self._dataplane.log_rejection(caller, "stream", name, error)
            raise
        return Conversation(
            self._dataplane,
            self._json,
            self._meters,
            socket,
            (name, version),
            caller,
            limit,
            template,
            request_id,
        )


def choose_subprotocol(offered: Sequence[str]) -> str | None:
    """Return the subprotocol for the upgrade response: `SUBPROTOCOL` if it was offered, else None."""
    return SUBPROTOCOL if SUBPROTOCOL in offered else None


class Inflating(ServerPerMessageDeflateFactory):
    """permessage-deflate (RFC 7692) for client messages.

    Compression contexts are discarded after each message, so that idle connections do not use memory.
    """

    def __init__(self) -> None:
        super().__init__(server_no_context_takeover=True, client_no_context_takeover=True)

    def process_request_params(
        self, params: Sequence[Any], accepted_extensions: Sequence[Extension]
    ) -> tuple[list[Any], Any]:
        agreed, deflate = super().process_request_params(params, accepted_extensions)
        return agreed, Inflate(deflate)


class Inflate(Extension):
    """An extension that decompresses messages and sends uncompressed ones.

    Compression gains little for tokens, and for large tensors it would block the event loop.
    """

    name = ServerPerMessageDeflateFactory.name

    def __init__(self, deflate: PerMessageDeflate) -> None:
        self._deflate = deflate

    def encode(self, frame: Frame) -> Frame:
        return frame

    def decode(self, frame: Frame, *, max_size: int | None = None) -> Frame:
        return self._deflate.decode(frame, max_size=max_size)
