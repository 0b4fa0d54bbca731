"""The reflection service answers what the library's own answers, out of the same pool."""

import pytest
from grpc_reflection.v1alpha import reflection, reflection_pb2

from inferstream.protos.pool import HEALTH, POOL, REFLECTION, REQUESTS, SERVICE
from inferstream.protos.reflection_pb2 import ServerReflectionRequest
from inferstream.server.grpc.control import RepositoryService, RequestsService
from inferstream.server.grpc.health import Health
from inferstream.server.grpc.inference import InferenceService
from inferstream.server.grpc.reflection import Reflection

SERVICES = (SERVICE, REQUESTS, HEALTH, *REFLECTION)
DESCRIBED = [kind.__new__(kind) for kind in (InferenceService, RepositoryService, RequestsService, Health)]


class NoTypedServices:
    names = pools = ()


class ParsedRequest:
    """An exchange in which these requests have come."""

    def __init__(self, *requests) -> None:
        self._requests = iter(requests)
        self.written: list[bytes] = []

    def __aiter__(self):
        return self

    async def __anext__(self):
        for request in self._requests:
            return request
        raise StopAsyncIteration

    async def write(self, data: bytes) -> None:
        self.written.append(data)


@pytest.mark.parametrize(
    "asked",
    [
        {"list_services": ""},
        {"host": "here", "list_services": "*"},
        {"file_by_filename": "dataplane.proto"},
        {"file_by_filename": "grpc/health/v1/health.proto"},
        {"file_by_filename": "nothing.proto"},
        *(
            {"file_containing_symbol": name}
            for name in (
                "inference.GRPCInferenceService",
                "inference.ModelInferRequest.InferInputTensor",
                "grpc.health.v1.HealthCheckResponse.ServingStatus",
                "grpc.reflection.v1.ServerReflection",
                "grpc.reflection.v1alpha.ServerReflection",
                "nothing",
                "",
            )
        ),
        {"file_containing_extension": {"containing_type": "inference.InferParameter", "extension_number": 1}},
        {"file_containing_extension": {"containing_type": "nothing", "extension_number": 1}},
        {"all_extension_numbers_of_type": "inference.InferParameter"},
        {"all_extension_numbers_of_type": "nothing"},
        {},
    ],
)
async def test_reflection_matches_the_grpcio_library(asked: dict) -> None:
    theirs = ParsedRequest(reflection_pb2.ServerReflectionRequest(**asked))
    library = reflection.aio.ReflectionServicer(SERVICES, pool=POOL)
    expected = [answer.SerializeToString() async for answer in library.ServerReflectionInfo(theirs, None)]

    ours = ParsedRequest(ServerReflectionRequest(**asked))
    await Reflection(NoTypedServices(), DESCRIBED).ServerReflectionInfo(ours)

    assert ours.written == expected


async def test_method_is_a_symbol() -> None:
    """As the protocol's comments have it; the library's own servicer does not find methods."""
    files = []
    for symbol in ("inference.GRPCInferenceService.ModelInfer", "inference.GRPCInferenceService"):
        exchange = ParsedRequest(ServerReflectionRequest(file_containing_symbol=symbol))
        await Reflection(NoTypedServices(), DESCRIBED).ServerReflectionInfo(exchange)
        found = reflection_pb2.ServerReflectionResponse.FromString(exchange.written[0])
        files.append(found.file_descriptor_response.file_descriptor_proto[0])
    assert files[0] == files[1]
    missing = ParsedRequest(
        ServerReflectionRequest(file_containing_symbol="inference.GRPCInferenceService.Nothing")
    )
    await Reflection(NoTypedServices(), DESCRIBED).ServerReflectionInfo(missing)
    assert (
        reflection_pb2.ServerReflectionResponse.FromString(missing.written[0]).error_response.error_code == 5
    )
