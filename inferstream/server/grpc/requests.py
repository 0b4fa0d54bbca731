"""The service of requests in progress."""

from ...dataplane.dataplane import DataPlane
from ...errors import InvalidRequest
from ...protos.requests_pb2 import CancelRequest, CancelResponse
from .context import RpcContext, caller_of


class RequestsService:
    """Each method is the RPC of its name."""

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane

    async def Cancel(self, request: CancelRequest, context: RpcContext) -> CancelResponse:
        if not request.id:
            raise InvalidRequest('"id" is missing')
        return CancelResponse(cancelled=await self._dataplane.cancel(request.id, caller_of(context)))
