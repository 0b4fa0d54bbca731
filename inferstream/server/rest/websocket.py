"""Inference over WebSockets: the route of `stream`, the upgrade, and the compression of messages from clients."""

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
from ..connections import below
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
"""Browsers offer it beside a subprotocol with their key, because they insist on an answer."""


class WebSocketDoor:
    """`stream` of every model, and the limits of its sockets."""

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
        """Begin a conversation with the model of a decoded path. `request_id` is the id of the upgrade.

        Raises InferstreamError for a refusal.
        """
        return self._begin(socket, below(self._prefix, path) or path, headers, request_id)

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
            self._dataplane.refused(caller, "stream", name, error)
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


def chosen(offered: Sequence[str]) -> str | None:
    """The subprotocol of the answer to an upgrade: never the one with a key."""
    return SUBPROTOCOL if SUBPROTOCOL in offered else None


class Inflating(ServerPerMessageDeflateFactory):
    """permessage-deflate (RFC 7692) for messages from clients.

    Accepts compressed messages without context takeover, so that an idle connection keeps no window.
    """

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
