"""The unary RPCs of GRPCInferenceService: health, metadata and ModelInfer."""

from ...dataplane.access import Action
from ...dataplane.call import INFER
from ...dataplane.dataplane import DataPlane
from ...dataplane.first_calls import NotLoaded
from ...errors import InferstreamError, ModelNotFound, ModelNotReady
from ...protos import dataplane_pb2 as pb
from ...protos.converters import ModelMetadataResponseConverter, ServerMetadataResponseConverter
from ...protos.grpc import parse_request, wants_typed_contents
from ...protos.grpc_requests import InferMessage, message_size
from ...protos.grpc_responses import WRITERS
from .context import RpcContext, TrailingHeaders, caller_of, name_missing_field
from .service import RpcService


class InferenceService(RpcService):
    """Health, metadata and unary inference."""

    descriptor = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    actions = {
        "ServerLive": Action.HEALTH,
        "ServerReady": Action.HEALTH,
        "ModelReady": Action.HEALTH,
        "ServerMetadata": Action.SERVER_METADATA,
        "ModelMetadata": Action.MODEL_METADATA,
        "ModelInfer": Action.INFER,
    }
    own_checks = ("ModelInfer",)

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane
        self._headers = TrailingHeaders()

    async def ServerLive(self, request: pb.ServerLiveRequest, context: RpcContext) -> pb.ServerLiveResponse:
        return pb.ServerLiveResponse(live=True)

    async def ServerReady(
        self, request: pb.ServerReadyRequest, context: RpcContext
    ) -> pb.ServerReadyResponse:
        return pb.ServerReadyResponse(ready=self._dataplane.ready)

    async def ModelReady(self, request: pb.ModelReadyRequest, context: RpcContext) -> pb.ModelReadyResponse:
        try:
            ready = self._dataplane.model_ready(request.name, request.version or None)
        except (ModelNotFound, ModelNotReady):
            # The Triton client polls this RPC, and raises an error for every status except OK.
            ready = False
        return pb.ModelReadyResponse(ready=ready)

    async def ServerMetadata(
        self, request: pb.ServerMetadataRequest, context: RpcContext
    ) -> pb.ServerMetadataResponse:
        return ServerMetadataResponseConverter.from_types(self._dataplane.server_metadata())

    async def ModelMetadata(
        self, request: pb.ModelMetadataRequest, context: RpcContext
    ) -> pb.ModelMetadataResponse:
        try:
            metadata = await self._dataplane.model_metadata(request.name, request.version or None)
        except ModelNotFound as error:
            raise name_missing_field(error, "name") from None
        return ModelMetadataResponseConverter.from_types(metadata)

    async def ModelInfer(self, request: InferMessage, context: RpcContext) -> bytes:
        model, caller = request.model_name, caller_of(context, self._dataplane.access)
        try:
            version = request.model_version or None
            try:
                admission = self._dataplane.admit(model, version, caller)
            except NotLoaded:
                admission = await self._dataplane.load_and_admit(model, version, caller)
            if admission.metering is not None:
                admission.size = message_size(request)
            inputs = parse_request(request, admission.pipeline.form, references=True)
        except InferstreamError as failure:
            error = name_missing_field(failure)
            self._dataplane.log_rejection(caller, "infer", model, error)
            raise error from failure.__cause__
        reply = await admission.open(INFER, inputs)
        response = reply.first
        assert response is not None
        message = response.accept(WRITERS[wants_typed_contents(request)])
        if admission.metering is not None:
            admission.count_response(len(message))
        self._headers.send(context, admission, response.id, response.parameters)
        return message
