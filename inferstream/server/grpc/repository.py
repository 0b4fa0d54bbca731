"""The repository RPCs."""

from ...dataplane.dataplane import DataPlane
from ...errors import InvalidRequest
from ...protos import dataplane_pb2 as pb
from ...protos.converters import RepositoryIndexResponseItemConverter
from .context import RpcContext


class RepositoryService:
    """Each method is the RPC of its name."""

    def __init__(self, dataplane: DataPlane) -> None:
        self._dataplane = dataplane

    async def RepositoryIndex(
        self, request: pb.RepositoryIndexRequest, context: RpcContext
    ) -> pb.RepositoryIndexResponse:
        items = await self._dataplane.index(request.ready)
        return pb.RepositoryIndexResponse(
            models=[RepositoryIndexResponseItemConverter.from_types(item) for item in items]
        )

    async def RepositoryModelLoad(
        self, request: pb.RepositoryModelLoadRequest, context: RpcContext
    ) -> pb.RepositoryModelLoadResponse:
        name = _name(request)
        if request.parameters:
            raise InvalidRequest("a load takes a name only: what a model is, its folder says")
        await self._dataplane.load(name)
        return pb.RepositoryModelLoadResponse(model_name=name, isLoaded=True)

    async def RepositoryModelUnload(
        self, request: pb.RepositoryModelUnloadRequest, context: RpcContext
    ) -> pb.RepositoryModelUnloadResponse:
        name = _name(request)
        await self._dataplane.unload(name)
        return pb.RepositoryModelUnloadResponse(model_name=name, isUnloaded=True)


def _name(request: pb.RepositoryModelLoadRequest | pb.RepositoryModelUnloadRequest) -> str:
    """The model's name, which KServe's clients send as the repository's (protocol §2.5)."""
    return request.model_name or request.repository_name
