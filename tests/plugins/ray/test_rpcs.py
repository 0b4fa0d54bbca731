"""What Serve's gRPC servers are told, against one that replaces handlers as Serve's does."""

import pickle
from types import SimpleNamespace

import pytest

from inferstream import App, Application
from inferstream.ext.rpc import SERVICE
from inferstream.plugins.ray.rpcs import METHOD_KINDS, RpcPath, add_services

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
def test_replica_receives_full_path(server: ServerOfServe, path: str) -> None:
    handler = server.ask(path)
    assert (handler.unary_unary, handler.request_deserializer, handler.response_serializer) == (
        path,
        None,
        None,
    )


async def test_each_rpc_has_its_kind() -> None:
    [services] = Application(App()).grpc_services()
    found = {path: services.service(SimpleNamespace(method=path)) for path in METHOD_KINDS}
    served = {path: handler for path, handler in found.items() if handler is not None}
    assert f"/{SERVICE}/ModelInfer" in served
    for path, handler in served.items():
        assert handler.response_streaming == METHOD_KINDS[path].response_streaming
        if METHOD_KINDS[path].request_streaming:
            assert handler.request_streaming  # also that of an RPC with one request and a stream of responses


@pytest.mark.parametrize("path", ["/inferstream.App/PredictCount", "/blazerpc.InferenceService/Predict"])
def test_potential_typed_rpc_is_a_replica_stream(server: ServerOfServe, path: str) -> None:
    handler = server.ask(path)
    assert (handler.stream_stream, handler.request_streaming, handler.response_streaming) == (
        path,
        True,
        True,
    )


@pytest.mark.parametrize("path", ["/other.Service/Get", "/", "", "/inference.GRPCInferenceService/Other"])
def test_other_paths_have_no_handler(server: ServerOfServe, path: str) -> None:
    assert server.ask(path) is None


def test_path_equals_its_string_and_gives_service() -> None:
    path = RpcPath(CANCEL)
    assert path == CANCEL
    assert path.split("/")[1] == "inferstream.control.Requests"
    assert type(path.split("/")[-1]) is str
    assert pickle.loads(pickle.dumps(path)) == CANCEL
