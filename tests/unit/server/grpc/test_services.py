"""The RPCs of all services, by their paths."""

from inferstream import Application

from .test_rpc import app


async def test_services_find_their_rpcs_by_path() -> None:
    application = Application(app())
    for path in (
        "/inference.GRPCInferenceService/ServerLive",
        "/inference.model_repository.ModelRepositoryService/RepositoryIndex",
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ):
        found = application.rpcs.find(path)
        assert found is not None
        assert found.path == path
    watch = application.rpcs.find("/grpc.health.v1.Health/Watch")
    assert (watch.client_streams, watch.server_streams) == (False, True)
    for path in ("/inference.GRPCInferenceService/Nothing", "ServerLive", "", "/"):
        assert application.rpcs.find(path) is None
    live = application.rpcs.find("/inference.GRPCInferenceService/ServerLive")
    assert application.rpcs.find(live.path) is live


async def test_the_services_of_an_application_are_made_once() -> None:
    application = Application(app())
    assert application.rpcs is application.rpcs
    assert len(application.grpc_services()) == len(application.grpc_services()) == 1
