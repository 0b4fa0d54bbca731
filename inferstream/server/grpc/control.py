"""RPCs that load and unload models and cancel requests."""

from ...dataplane.access import Action
from ...dataplane.caller import Caller
from ...dataplane.dataplane import DataPlane
from ...errors import InvalidRequest
from ...protos import dataplane_pb2 as pb
from ...protos import requests_pb2
from ...protos.converters import RepositoryIndexResponseItemConverter
from ...protos.pool import LEGACY_SERVICE
from ...protos.requests_pb2 import CancelRequest, CancelResponse
from .context import RpcContext, caller_of
from .service import RpcService


class RepositoryService(RpcService):
    """The repository RPCs."""

    descriptor = pb.DESCRIPTOR.services_by_name["GRPCInferenceService"]
    aliases = (LEGACY_SERVICE,)
    actions = {
        "RepositoryIndex": Action.REPOSITORY_READ,
        "RepositoryModelLoad": Action.REPOSITORY_WRITE,
        "RepositoryModelUnload": Action.REPOSITORY_WRITE,
    }
    own_checks = tuple(actions)

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane

    async def RepositoryIndex(
        self, request: pb.RepositoryIndexRequest, context: RpcContext
    ) -> pb.RepositoryIndexResponse:
        items = await self._dataplane.index(caller_of(context, self._dataplane.access), request.ready)
        return pb.RepositoryIndexResponse(
            models=[RepositoryIndexResponseItemConverter.from_types(item) for item in items]
        )

    def _read_request(self, request: object, context: RpcContext) -> tuple[str, Caller]:
        """Return the model to load or unload, and the caller.

        Raises PermissionDenied, or InvalidRequest if the caller has access but the name is missing.
        """
        caller = caller_of(context, self._dataplane.access)
        if (name := get_model_name(request)) is None:
            self._dataplane.access.check(Action.REPOSITORY_WRITE, caller)
            raise InvalidRequest('"model_name" is missing')
        return name, caller

    async def RepositoryModelLoad(
        self, request: pb.RepositoryModelLoadRequest, context: RpcContext
    ) -> pb.RepositoryModelLoadResponse:
        name, caller = self._read_request(request, context)
        if request.parameters:
            raise InvalidRequest("a load takes a name only: what a model is, its folder says")
        await self._dataplane.load(name, caller)
        return pb.RepositoryModelLoadResponse(model_name=name, isLoaded=True)

    async def RepositoryModelUnload(
        self, request: pb.RepositoryModelUnloadRequest, context: RpcContext
    ) -> pb.RepositoryModelUnloadResponse:
        name, caller = self._read_request(request, context)
        await self._dataplane.unload(name, caller)
        return pb.RepositoryModelUnloadResponse(model_name=name, isUnloaded=True)


class RequestsService(RpcService):
    """The Requests service, which this server adds to the protocol."""

    descriptor = requests_pb2.DESCRIPTOR.services_by_name["Requests"]
    actions = {"Cancel": Action.CANCEL}
    own_checks = ("Cancel",)

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane

    async def Cancel(self, request: CancelRequest, context: RpcContext) -> CancelResponse:
        caller = caller_of(context, self._dataplane.access)
        self._dataplane.access.check(Action.CANCEL, caller)  # sets the principal of the caller
        if not request.id:
            raise InvalidRequest('"id" is missing')
        return CancelResponse(cancelled=await self._dataplane.cancel(request.id, caller))


def get_model_name(request: object) -> str | None:
    """Return the model name of a request, or None.

    KServe clients send it in `repository_name` (protocol §2.5).
    """
    names = (getattr(request, field, "") for field in ("name", "model_name", "repository_name"))
    return next(filter(None, names), None)
