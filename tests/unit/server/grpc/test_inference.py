"""The unary RPCs of the protocol."""

from typing import Any

import pytest

from inferstream import Application
from inferstream.protos import dataplane_pb2 as pb
from inferstream.server.grpc.rpc import RpcFailed
from inferstream.server.grpc.statuses import StatusCode

from .test_rpc import Context, app, infer

SERVICE = "/inference.GRPCInferenceService/"


async def answers(*calls: tuple[str, Any]) -> list[bytes | StatusCode]:
    """The response of each RPC, or the status that it ends with."""
    found: list[bytes | StatusCode] = []
    async with Application(app()) as application:
        for name, message in calls:
            rpc = application._backend.rpcs.find(SERVICE + name)
            assert rpc is not None
            data = message if isinstance(message, bytes) else message.SerializeToString()
            try:
                response = await rpc.serve(data, Context())
                assert response is not None
                found.append(response)
            except RpcFailed as failed:
                found.append(failed.code)
    return found


async def test_missing_model_is_not_ready_without_an_error() -> None:
    ready, version, absent = await answers(
        ("ModelReady", pb.ModelReadyRequest(name="size")),
        ("ModelReady", pb.ModelReadyRequest(name="size", version="9")),
        ("ModelReady", pb.ModelReadyRequest(name="nobody")),
    )
    assert [pb.ModelReadyResponse.FromString(each).ready for each in (ready, version, absent)] == [
        True,
        False,
        False,
    ]


async def test_server_and_model_metadata() -> None:
    server, model, absent = await answers(
        ("ServerMetadata", pb.ServerMetadataRequest()),
        ("ModelMetadata", pb.ModelMetadataRequest(name="size")),
        ("ModelMetadata", pb.ModelMetadataRequest(name="nobody")),
    )
    assert pb.ServerMetadataResponse.FromString(server).name == "inferstream"
    described = pb.ModelMetadataResponse.FromString(model)
    assert (described.name, [tensor.name for tensor in described.inputs]) == ("size", ["text"])
    assert absent is StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    ("model", "version", "code"),
    [
        ("nobody", "", StatusCode.NOT_FOUND),
        ("size", "9", StatusCode.NOT_FOUND),
        ("", "", StatusCode.INVALID_ARGUMENT),
    ],
)
async def test_inference_without_its_model_is_refused(model: str, version: str, code: StatusCode) -> None:
    request = pb.ModelInferRequest.FromString(infer("a"))
    request.model_name, request.model_version = model, version
    assert await answers(("ModelInfer", request)) == [code]


async def test_request_without_model_name_is_refused() -> None:
    async with Application(app(), allow_open_repository=True) as application:
        for service, name, message, field in (
            (SERVICE, "ModelInfer", pb.ModelInferRequest(), "model_name"),
            (SERVICE, "ModelMetadata", pb.ModelMetadataRequest(), "name"),
            (SERVICE, "ModelConfig", pb.ModelConfigRequest(), "name"),
            (SERVICE, "RepositoryModelLoad", pb.RepositoryModelLoadRequest(), "model_name"),
            (SERVICE, "RepositoryModelUnload", pb.RepositoryModelUnloadRequest(), "model_name"),
        ):
            rpc = application._backend.rpcs.find(service + name)
            assert rpc is not None
            with pytest.raises(RpcFailed, match=f'"{field}" is missing') as refused:
                await rpc.serve(message.SerializeToString(), Context())
            assert refused.value.code is StatusCode.INVALID_ARGUMENT


async def test_output_has_the_representation_of_the_request() -> None:
    raw = pb.ModelInferRequest(model_name="size", raw_input_contents=[b"\1\0\0\0a"], id="i")
    raw.inputs.add(name="text", datatype="BYTES", shape=[1])
    answered = [pb.ModelInferResponse.FromString(each) for each in await answers(("ModelInfer", infer("a")), ("ModelInfer", raw))]  # fmt: skip
    assert [bool(each.raw_output_contents) for each in answered] == [False, True]
    assert (answered[1].id, answered[1].model_name) == ("i", "size")
