"""What Serve's gRPC servers are told, against one that replaces handlers as Serve's does."""

import pickle
from types import SimpleNamespace

import pytest

from inferstream import App
from inferstream.ray.rpcs import METHOD_KINDS, RpcPath, add_services
from inferstream.server.application import Application

CANCEL = "/inferstream.control.Requests/Cancel"


class ServerOfServe:
    """Takes a name for the method of a replica from each path, as Ray 2.60 does."""

    def __init__(self) -> None:
        self.services = None

    def _override_method_handler(self, service_method: str, method_handler):
        name = service_method.split("/")[-1]
        return method_handler._replace(unary_unary=name, unary_stream=name, stream_stream=name)

    def add_generic_rpc_handlers(self, handlers) -> None:
        [services] = handlers
        services._method_handlers = {
            path: self._override_method_handler(path, handler)
            for path, handler in services._method_handlers.items()
        }
        self.services = services

    def ask(self, path: str):
        return self.services.service(SimpleNamespace(method=path))


@pytest.fixture
def server() -> ServerOfServe:
    server = ServerOfServe()
    add_services(object(), server)
    return server


@pytest.mark.parametrize("path", METHOD_KINDS)
def test_a_replica_is_asked_for_the_whole_path(server: ServerOfServe, path: str) -> None:
    handler = server.ask(path)
    assert (handler.unary_unary, handler.request_deserializer, handler.response_serializer) == (
        path,
        None,
        None,
    )


async def test_every_rpc_of_a_server_is_there_with_its_kind() -> None:
    application = Application(App(), load_reports="asked")
    rpcs = application._backend.rpcs
    kinds = {path: (each.client_streams, each.server_streams) for path, each in rpcs._rpcs.items()}
    known = {path: (kind.request_streaming, kind.response_streaming) for path, kind in METHOD_KINDS.items()}
    assert known == kinds


@pytest.mark.parametrize("path", ["/inferstream.App/PredictCount", "/blazerpc.InferenceService/Predict"])
def test_what_may_be_a_typed_rpc_is_a_stream_of_the_replica(server: ServerOfServe, path: str) -> None:
    handler = server.ask(path)
    assert (handler.stream_stream, handler.request_streaming, handler.response_streaming) == (
        path,
        True,
        True,
    )


@pytest.mark.parametrize("path", ["/other.Service/Get", "/", "", "/inference.GRPCInferenceService/Other"])
def test_no_other_path_has_a_handler(server: ServerOfServe, path: str) -> None:
    assert server.ask(path) is None


def test_a_path_is_equal_to_its_text_and_gives_the_service() -> None:
    path = RpcPath(CANCEL)
    assert path == CANCEL
    assert path.split("/")[1] == "inferstream.control.Requests"
    assert type(path.split("/")[-1]) is str
    assert pickle.loads(pickle.dumps(path)) == CANCEL
