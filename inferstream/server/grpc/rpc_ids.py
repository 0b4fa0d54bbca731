"""Request ids of RPCs, from the metadata key `x-request-id`."""

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ...context import request_id_var
from ...dataplane.server_parts import ServerParts
from ...errors import InvalidRequest
from ..edge import Edge, ServeBytes
from ..request_ids import NAME, RequestIds, set_request_id

if TYPE_CHECKING:
    from .context import RpcContext  # avoids the import of protobuf in an application without ports


class IdentifiedRpcs(Edge):
    """Sets the request id of each RPC, and returns it as initial metadata."""

    def __init__(self, ids: RequestIds) -> None:
        self._ids = ids

    @classmethod
    def of(cls, parts: ServerParts) -> "IdentifiedRpcs":
        return cls(RequestIds.of(parts.settings))

    def rpc(self, path: str, serve: ServeBytes, infers: bool) -> ServeBytes:
        return with_request_id(self._ids, serve)


def with_request_id(ids: RequestIds, serve: ServeBytes) -> ServeBytes:
    """Wrap `serve` to set the request id. Calls without an id are unchanged, unless all need one."""
    every = ids.every

    def with_id(incoming: bytes | None, context: "RpcContext") -> Awaitable[bytes | None]:
        sent: str | bytes | None = None
        try:
            sent = context.metadata.request_id
        except InvalidRequest:  # `serve` raises the error again and counts it
            return serve(incoming, context)
        if sent is None and not every:
            return serve(incoming, context)
        if not request_id_var.get():  # a gRPC-Web response already has the header
            request_id = ids.choose_id(sent.encode() if isinstance(sent, str) else sent)
            assert request_id is not None
            set_request_id(request_id)
            context.add_initial_metadata(((NAME, request_id.decode()),))
        return serve(incoming, context)

    return with_id
