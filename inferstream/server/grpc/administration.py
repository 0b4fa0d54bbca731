"""Triton's RPCs beside inference: statistics, configuration, logging and tracing."""

from collections.abc import Sequence
from typing import Never

from google.protobuf.json_format import ParseDict

from inferstream import Settings
from inferstream.ext.calls import Action, Caller
from inferstream.ext.rpc import RpcContext, RpcService, caller_of
from inferstream.ext.telemetry import Meters

from ...dataplane.dataplane import DataPlane
from ...dataplane.live_settings import LogValue, TraceValue
from ...errors import ModelNotFound, Unsupported
from ...protos import dataplane_pb2 as pb
from ..statistics import statistics_of
from .context import of_name

CUDA = 'This server does not have the extension "cuda_shared_memory".'


SERVICE = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]


class AdministrationService(RpcService):
    """Statistics, configuration, logging and tracing."""

    descriptor = SERVICE
    actions = {
        "ModelConfig": Action.MODEL_METADATA,
        "ModelStatistics": Action.STATISTICS,
        "LogSettings": Action.SETTINGS,
        "TraceSetting": Action.SETTINGS,
    }

    def __init__(self, dataplane: DataPlane, _: Settings, meters: Meters) -> None:
        self._dataplane = dataplane
        self._meters = meters

    async def ModelStatistics(
        self, request: pb.ModelStatisticsRequest, context: RpcContext
    ) -> pb.ModelStatisticsResponse:
        caller, version = caller_of(context, self._dataplane.access), request.version or None
        of = await statistics_of(self._dataplane, self._meters, caller, request.name or None, version)
        return ParseDict({"model_stats": of}, pb.ModelStatisticsResponse(), ignore_unknown_fields=True)

    async def ModelConfig(
        self, request: pb.ModelConfigRequest, context: RpcContext
    ) -> pb.ModelConfigResponse:
        try:
            config = await self._dataplane.model_config(request.name, request.version or None)
        except ModelNotFound as error:
            raise of_name(error, "name") from None
        return ParseDict({"config": config}, pb.ModelConfigResponse(), ignore_unknown_fields=True)

    async def LogSettings(
        self, request: pb.LogSettingsRequest, context: RpcContext
    ) -> pb.LogSettingsResponse:
        changes = {
            name: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
            for name, value in request.settings.items()
        }
        response = pb.LogSettingsResponse()
        for name, value in (await self._dataplane.live.update_log(changes)).items():
            setattr(response.settings[name], _choice(value), value)
        return response

    async def TraceSetting(
        self, request: pb.TraceSettingRequest, context: RpcContext
    ) -> pb.TraceSettingResponse:
        if request.model_name:
            self._dataplane.model_ready(request.model_name)  # raises for one that is not there
        live = self._dataplane.live
        now = live.trace()
        changes = {name: _as(now.get(name), value.value) for name, value in request.settings.items()}
        response = pb.TraceSettingResponse()
        for name, value in live.update_trace(changes).items():
            response.settings[name].value.extend(value if isinstance(value, list) else [value])
        return response


class SharedMemoryService(RpcService):
    """Registers regions, forgets them, and lists them."""

    descriptor = SERVICE
    actions = {
        f"{kind}SharedMemory{verb}": Action.SHARED_MEMORY
        for kind in ("System", "Cuda")
        for verb in ("Status", "Register", "Unregister")
    }
    of_models = False

    def __init__(self, dataplane: DataPlane, *_: object) -> None:
        self._dataplane = dataplane

    def _owner(self, context: RpcContext) -> Caller:
        """The client with its principal, whose the regions are."""
        caller = caller_of(context, self._dataplane.access)
        self._dataplane.access.check(Action.SHARED_MEMORY, caller)
        return caller

    async def SystemSharedMemoryStatus(
        self, request: pb.SystemSharedMemoryStatusRequest, context: RpcContext
    ) -> pb.SystemSharedMemoryStatusResponse:
        regions = await self._dataplane.regions().status(request.name, self._owner(context))
        return ParseDict(
            {"regions": {str(each["name"]): each for each in regions}}, pb.SystemSharedMemoryStatusResponse()
        )

    async def SystemSharedMemoryRegister(
        self, request: pb.SystemSharedMemoryRegisterRequest, context: RpcContext
    ) -> pb.SystemSharedMemoryRegisterResponse:
        place = request.key, request.offset, request.byte_size
        await self._dataplane.regions().register(request.name, *place, self._owner(context))
        return pb.SystemSharedMemoryRegisterResponse()

    async def SystemSharedMemoryUnregister(
        self, request: pb.SystemSharedMemoryUnregisterRequest, context: RpcContext
    ) -> pb.SystemSharedMemoryUnregisterResponse:
        await self._dataplane.regions().unregister(request.name, self._owner(context))
        return pb.SystemSharedMemoryUnregisterResponse()

    async def CudaSharedMemoryStatus(self, request: object, context: RpcContext) -> Never:
        raise Unsupported(CUDA)

    CudaSharedMemoryRegister = CudaSharedMemoryUnregister = CudaSharedMemoryStatus


def _choice(value: LogValue) -> str:
    if isinstance(value, bool):
        return "bool_param"
    return "uint32_param" if isinstance(value, int) else "string_param"


def _as(now: TraceValue | None, values: Sequence[str]) -> TraceValue | None:
    """The values of a setting, in the form in which it stands here; None asks for the default."""
    if not values:
        return None
    return [*values] if isinstance(now, list) else ", ".join(values)
