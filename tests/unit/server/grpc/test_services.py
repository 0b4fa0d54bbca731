"""The RPCs of all services, by their paths."""

from collections.abc import Sequence
from typing import Any

import pytest

from inferstream import Application
from inferstream.dataplane.access import Action
from inferstream.errors import InvalidSettings, PermissionDenied
from inferstream.extensions.entries import RPCS, Plugin
from inferstream.protos import health_pb2
from inferstream.server.grpc import services
from inferstream.server.grpc.metadata import CallMetadata
from inferstream.server.grpc.rpc import RpcExchange, RpcFailed
from inferstream.server.grpc.service import RpcService
from inferstream.server.grpc.services import Services

from .test_rpc import app


async def test_rpcs_are_found_by_path() -> None:
    application = Application(app())
    for path in (
        "/inference.GRPCInferenceService/ServerLive",
        "/inference.model_repository.ModelRepositoryService/RepositoryIndex",
        "/grpc.health.v1.Health/Check",
        "/grpc.health.v1.Health/Watch",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    ):
        found = application._backend.rpcs.find(path)
        assert found is not None
        assert found.path == path
    watch = application._backend.rpcs.find("/grpc.health.v1.Health/Watch")
    assert (watch.client_streams, watch.server_streams) == (False, True)
    for path in ("/inference.GRPCInferenceService/Nothing", "ServerLive", "", "/"):
        assert application._backend.rpcs.find(path) is None
    live = application._backend.rpcs.find("/inference.GRPCInferenceService/ServerLive")
    assert application._backend.rpcs.find(live.path) is live


async def test_application_services_are_built_once() -> None:
    application = Application(app())
    assert application._backend.rpcs is application._backend.rpcs
    assert len(application.grpc_services()) == len(application.grpc_services()) == 1


class Joined(RpcService):
    """Two of the three RPCs of a service: one that is checked, and one that checks itself."""

    descriptor = health_pb2.DESCRIPTOR.services_by_name["Health"]
    aliases = ("a.Joined",)
    actions = {"List": Action.STATISTICS, "Watch": Action.INFER}
    own_checks = ("Watch",)
    needs_start = False

    def __init__(self, *_: object) -> None: ...

    @property
    def names(self) -> Sequence[str]:
        return self.aliases

    async def List(self, request: object, context: object) -> bytes:
        return b"listed"

    async def Watch(self, exchange: RpcExchange[object]) -> None:
        await exchange.write(b"watched")

    Check = List


class Taken(Joined):
    names = ("a.Taken", Joined.descriptor.full_name)


class Written:
    metadata, deadline = CallMetadata(()), None

    def __init__(self) -> None:
        self.messages: list[bytes] = []

    async def write(self, message: bytes) -> None:
        self.messages.append(message)


@pytest.fixture
def build(monkeypatch: pytest.MonkeyPatch) -> Any:
    def build(*kinds: object, strict: bool = False) -> Services:
        joining = [(Plugin("p", RPCS, str(kind), "m:x"), kind) for kind in kinds]
        monkeypatch.setattr(services, "load_group", lambda group, strict: joining)
        return Application(app(), strict=strict)._backend.rpcs

    return build


async def test_plugin_rpcs_are_authorized_and_need_an_operation(build: Any) -> None:
    rpcs = build(Joined)
    asked: list[Action] = []

    def refuse(action: Action, *_: object) -> None:
        asked.append(action)
        raise PermissionDenied("closed")

    rpcs._access.check = refuse
    with pytest.raises(RpcFailed, match="closed"):
        await rpcs.find("/a.Joined/List").serve(b"", Written())
    assert asked == [Action.STATISTICS]
    context = Written()
    await rpcs.find("/a.Joined/Watch").serve(None, context)
    assert (context.messages, asked) == ([b"watched"], [Action.STATISTICS])
    assert rpcs.find("/a.Joined/Check") is None


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Taken, "another service has the RPC /grpc.health.v1.Health/List"),
        (dict, "TypeError"),
        (lambda *_: {}, "it gives a dict, not an RpcService"),
    ],
)
def test_unusable_service_is_skipped(
    build: Any, kind: object, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    rpcs = build(kind, Joined, lambda *_: None)
    assert rpcs.find("/a.Joined/List")
    assert rpcs.find("/a.Taken/Watch") is None
    assert reason in caplog.text
    with pytest.raises(InvalidSettings, match="package p"):
        build(kind, strict=True)
