"""The RPCs that control models and requests."""

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
    """The RPCs of the repository."""

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

    def _asked(self, request: object, context: RpcContext) -> tuple[str, Caller]:
        """The model to load or unload, and who asks. Raises InvalidRequest to those who may ask it."""
        caller = caller_of(context, self._dataplane.access)
        if (name := model_named(request)) is None:
            self._dataplane.access.check(Action.REPOSITORY_WRITE, caller)
            raise InvalidRequest('"model_name" is missing')
        return name, caller

    async def RepositoryModelLoad(
        self, request: pb.RepositoryModelLoadRequest, context: RpcContext
    ) -> pb.RepositoryModelLoadResponse:
        name, caller = self._asked(request, context)
        if request.parameters:
            raise InvalidRequest("a load takes a name only: what a model is, its folder says")
        await self._dataplane.load(name, caller)
        return pb.RepositoryModelLoadResponse(model_name=name, isLoaded=True)

    async def RepositoryModelUnload(
        self, request: pb.RepositoryModelUnloadRequest, context: RpcContext
    ) -> pb.RepositoryModelUnloadResponse:
        name, caller = self._asked(request, context)
        await self._dataplane.unload(name, caller)
        return pb.RepositoryModelUnloadResponse(model_name=name, isUnloaded=True)


class RequestsService(RpcService):
    """What this server adds to the protocol."""

    descriptor = requests_pb2.DESCRIPTOR.services_by_name["Requests"]
    actions = {"Cancel": Action.CANCEL}
    own_checks = ("Cancel",)

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane

    async def Cancel(self, request: CancelRequest, context: RpcContext) -> CancelResponse:
        caller = caller_of(context, self._dataplane.access)
        self._dataplane.access.check(Action.CANCEL, caller)  # which names the principal
        if not request.id:
            raise InvalidRequest('"id" is missing')
        return CancelResponse(cancelled=await self._dataplane.cancel(request.id, caller))


def model_named(request: object) -> str | None:
    """The model that a request names, if it names one; KServe's clients send the repository's (protocol §2.5)."""
    names = (getattr(request, field, "") for field in ("name", "model_name", "repository_name"))
    return next(filter(None, names), None)
