"""gRPC methods of the Triton extensions."""

from collections.abc import Sequence
from typing import Any, Never

from google.protobuf.message import Message

from inferstream import Settings
from inferstream.errors import InvalidRequest, Unsupported
from inferstream.ext.calls import Action, Caller, ServerModels
from inferstream.ext.rpc import RpcContext, RpcService, caller_of
from inferstream.ext.telemetry import Meters

from . import messages
from .actions import SHARED_MEMORY
from .live_settings import LogValue, TraceValue, build_live_settings
from .model_config import build_config
from .regions import find_regions
from .statistics import collect_statistics

CUDA = 'This server does not have the extension "cuda_shared_memory".'


class AdministrationService(RpcService):
    """The RPCs for statistics, configuration, logging and tracing."""

    descriptor = messages.SERVICE
    actions = {
        "ModelConfig": Action.MODEL_METADATA,
        "ModelStatistics": Action.STATISTICS,
        "LogSettings": Action.SETTINGS,
        "TraceSetting": Action.SETTINGS,
    }

    def __init__(self, dataplane: ServerModels, _: Settings, meters: Meters) -> None:
        self._dataplane = dataplane
        self._meters = meters

    async def ModelStatistics(self, request: messages.ModelRequest, context: RpcContext) -> Message:
        caller, version = caller_of(context, self._dataplane.access), request.version or None
        of = await collect_statistics(self._dataplane, self._meters, caller, request.name or None, version)
        return _fill({"model_stats": of}, messages.ModelStatisticsResponse())

    async def ModelConfig(self, request: messages.ModelRequest, context: RpcContext) -> Message:
        if not request.name:
            raise InvalidRequest('"name" is missing')
        version = request.version or None
        metadata = await self._dataplane.model_metadata(request.name, version)
        config = build_config(self._dataplane.described(request.name, version), metadata)
        return _fill({"config": config}, messages.ModelConfigResponse())

    async def LogSettings(self, request: messages.SettingsRequest, context: RpcContext) -> Message:
        changes = {
            name: getattr(value, value.WhichOneof("parameter_choice") or "string_param")
            for name, value in request.settings.items()
        }
        log = await self._dataplane.of(build_live_settings).update_log(changes)
        settings = {name: {_choice(value): value} for name, value in log.items()}
        return _fill({"settings": settings}, messages.LogSettingsResponse())

    async def TraceSetting(self, request: messages.TraceRequest, context: RpcContext) -> Message:
        if request.model_name:
            self._dataplane.model_ready(request.model_name)  # Raises an error if the model is missing.
        live = self._dataplane.of(build_live_settings)
        now = live.read_trace()
        changes = {
            name: _convert_values(now.get(name), value.value) for name, value in request.settings.items()
        }
        settings = {
            name: {"value": value if isinstance(value, list) else [value]}
            for name, value in live.update_trace(changes).items()
        }
        return _fill({"settings": settings}, messages.TraceSettingResponse())


def _fill(fields: dict[str, Any], message: Message) -> Message:
    """Return the message with these fields. Fields that it does not have are ignored."""
    from google.protobuf.json_format import ParseDict  # imported lazily: these calls are rare

    return ParseDict(fields, message, ignore_unknown_fields=True)


class SharedMemoryService(RpcService):
    """Registers, unregisters and lists regions of shared memory."""

    descriptor = messages.SERVICE
    actions = {
        f"{kind}SharedMemory{verb}": SHARED_MEMORY
        for kind in ("System", "Cuda")
        for verb in ("Status", "Register", "Unregister")
    }
    of_models = False

    def __init__(self, dataplane: ServerModels, *_: object) -> None:
        self._dataplane = dataplane

    def _owner(self, context: RpcContext) -> Caller:
        """Return the client, whose principal owns the regions."""
        caller = caller_of(context, self._dataplane.access)
        self._dataplane.access.check(SHARED_MEMORY, caller)
        return caller

    async def SystemSharedMemoryStatus(self, request: messages.RegionRequest, context: RpcContext) -> Message:
        regions = await find_regions(self._dataplane).status(request.name, self._owner(context))
        return _fill(
            {"regions": {str(each["name"]): each for each in regions}},
            messages.SystemSharedMemoryStatusResponse(),
        )

    async def SystemSharedMemoryRegister(
        self, request: messages.RegionRegistration, context: RpcContext
    ) -> Message:
        place = request.key, request.offset, request.byte_size
        await find_regions(self._dataplane).register(request.name, *place, self._owner(context))
        return messages.SystemSharedMemoryRegisterResponse()

    async def SystemSharedMemoryUnregister(
        self, request: messages.RegionRequest, context: RpcContext
    ) -> Message:
        await find_regions(self._dataplane).unregister(request.name, self._owner(context))
        return messages.SystemSharedMemoryUnregisterResponse()

    async def CudaSharedMemoryStatus(self, request: object, context: RpcContext) -> Never:
        raise Unsupported(CUDA)

    CudaSharedMemoryRegister = CudaSharedMemoryUnregister = CudaSharedMemoryStatus


def _choice(value: LogValue) -> str:
    if isinstance(value, bool):
        return "bool_param"
    return "uint32_param" if isinstance(value, int) else "string_param"


def _convert_values(now: TraceValue | None, values: Sequence[str]) -> TraceValue | None:
    """Convert the values of a setting to the type of its current value.

    Returns None, which requests the default, if the client sends no values.
    """
    if not values:
        return None
    return [*values] if isinstance(now, list) else ", ".join(values)
