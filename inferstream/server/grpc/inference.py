"""The unary RPCs of GRPCInferenceService: health, metadata and ModelInfer."""

from typing import Any

from ...dataplane.call import Operation
from ...dataplane.dataplane import DataPlane
from ...errors import ModelNotFound, ModelNotReady
from ...protos.converters import ModelMetadataResponseConverter, ServerMetadataResponseConverter
from ...protos.grpc import request_from, wants_typed
from ...protos.grpc_responses import dump_response
from ...protos.messages import ModelReadyResponse, ServerLiveResponse, ServerReadyResponse
from .context import TrailingHeaders, deadline_of, headers_of, priority_of


class InferenceService:
    """Each method is the RPC of its name."""

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane
        self._headers = TrailingHeaders(dataplane.events)

    async def ServerLive(self, request: Any, context: Any) -> Any:  # noqa: N802  # the RPC's name
        return ServerLiveResponse(live=True)

    async def ServerReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        return ServerReadyResponse(ready=self._dataplane.ready)

    async def ModelReady(self, request: Any, context: Any) -> Any:  # noqa: N802
        try:
            ready = self._dataplane.model_ready(request.name, request.version or None)
        except (ModelNotFound, ModelNotReady):
            # Triton's client polls with this call, and raises on any status but OK.
            ready = False
        return ModelReadyResponse(ready=ready)

    async def ServerMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        return ServerMetadataResponseConverter.from_types(self._dataplane.server_metadata())

    async def ModelMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        metadata = await self._dataplane.model_metadata(request.name, request.version or None)
        return ModelMetadataResponseConverter.from_types(metadata)

    async def ModelInfer(self, request: Any, context: Any) -> Any:  # noqa: N802
        model, version = request.model_name, request.model_version or None
        admission = self._dataplane.admit(model, version)
        metadata = headers_of(context)
        call = admission.call(
            Operation.INFER,
            request_from(request),
            metadata,
            deadline=deadline_of(context),
            priority=priority_of(metadata),
        )
        reply = await admission.open(call)
        response = reply.first
        assert response is not None
        message = dump_response(response, wants_typed(request))
        self._headers.send(context, response, model)
        return message
