"""Gives each RPC the `x-request-id` of its metadata as initial metadata."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ...context import request_id_var
from ...dataplane.server_parts import ServerParts
from ...errors import InvalidRequest
from ..edge import Edge, ServeBytes
from ..request_ids import NAME, RequestIds, enter

if TYPE_CHECKING:
    from .context import RpcContext  # an application without ports needs no protobuf


class IdentifiedRpcs(Edge):
    """Gives each RPC its id."""

    def __init__(self, ids: RequestIds) -> None:
        self._ids = ids

    @classmethod
    def of(cls, parts: ServerParts) -> "IdentifiedRpcs":
        return cls(RequestIds.of(parts.settings))

    def rpc(self, path: str, serve: ServeBytes, infers: bool) -> ServeBytes:
        return identified(self._ids, serve)


def identified(ids: RequestIds, serve: ServeBytes) -> ServeBytes:
    """Calls without an id pass as they are, and cost a look at their metadata."""
    every = ids.every

    def with_id(incoming: bytes | None, context: "RpcContext") -> Awaitable[bytes | None]:
        sent: str | bytes | None = None
        try:
            sent = context.metadata.request_id
        except InvalidRequest:  # `serve` raises it again, and counts it
            return serve(incoming, context)
        if sent is None and not every:
            return serve(incoming, context)
        if not request_id_var.get():  # a response of gRPC-Web has the header already
            request_id = ids.id(sent.encode() if isinstance(sent, str) else sent)
            assert request_id is not None
            enter(request_id)
            context.add_initial_metadata(((NAME, request_id.decode()),))
        return serve(incoming, context)

    return with_id
