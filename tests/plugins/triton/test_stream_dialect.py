"""Triton's dialect: each request of a stream is a call of its own, and an error is a response."""

import logging
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from grpc.aio import EOF  # type: ignore[attr-defined]  # missing from the stubs

from inferstream import App, Application
from inferstream.ext.rpc import RpcFailed, StatusCode, StreamRequest
from inferstream.ext.telemetry import get_logger
from inferstream.plugins.triton.stream_dialect import FINAL, WANTS_EMPTY_FINAL, TritonDialect
from inferstream.types import Headers
from tests.plugins.triton.messages import message_of

ACCESS = get_logger("access").name
STREAM = "/inference.GRPCInferenceService/ModelStreamInfer"

ModelInferRequest, ModelStreamInferResponse = map(
    message_of, ("ModelInferRequest", "ModelStreamInferResponse")
)


def app() -> App:
    made = App()

    @made.model
    def size(text: str) -> int:
        return len(text)

    @made.model
    async def words(text: str) -> AsyncIterator[str]:
        for word in text.split():
            yield word

    return made


class Asking:
    """A call in a `grpc.aio` server, of a client that names the dialect and has sent these messages."""

    def __init__(self, *messages: bytes, **metadata: str) -> None:
        self._messages = iter(messages)
        self._metadata = (("x-stream-dialect", "triton"), *metadata.items())
        self.written: list[bytes] = []

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def time_remaining(self) -> None: ...

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    def peer_identities(self) -> None: ...

    async def read(self) -> Any:
        return next(self._messages, EOF)

    async def write(self, message: bytes) -> None:
        self.written.append(message)

    async def send_initial_metadata(self, metadata: Any) -> None: ...

    def set_trailing_metadata(self, metadata: Any) -> None: ...

    async def abort(self, code: grpc.StatusCode, details: str, trailing: Any = ()) -> None:
        raise RpcFailed(StatusCode[code.name], details)


async def ask(application: Application, context: Asking) -> None:
    """Let an application serve a call."""
    [services] = application.grpc_services()
    await services.service(SimpleNamespace(method=STREAM)).stream_stream(None, context)


def first_of(message: Any) -> StreamRequest:
    """The request in a message, which nobody has admitted."""
    first = StreamRequest.__new__(StreamRequest)
    first.message = message
    return first


def request(text: str, id: str, model: str = "size", **parameters: bool) -> bytes:
    message = ModelInferRequest(model_name=model, id=id)
    for name, value in parameters.items():
        message.parameters[name].bool_param = value
    tensor = message.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(text.encode())
    return message.SerializeToString()


async def served(*messages: bytes, apps: App | None = None, **metadata: str) -> list[tuple[str, bool, str]]:
    """Id, whether it is final, and error of each response."""
    context = Asking(*messages, **metadata)
    async with Application(apps or app()) as application:
        await ask(application, context)
    responses = [ModelStreamInferResponse.FromString(each) for each in context.written]
    return [
        (each.infer_response.id, each.infer_response.parameters[FINAL].bool_param, each.error_message)
        for each in responses
    ]


async def test_responses_keep_request_order() -> None:
    assert await served(request("ab", "1"), request("c", "2"), request("", "3")) == [
        ("1", True, ""),
        ("2", True, ""),
        ("3", True, ""),
    ]


async def test_error_is_a_response_and_stream_continues() -> None:
    first, second, third = await served(request("a", "1"), request("a", "2", "nobody"), request("a", "3"))
    assert (first, third) == (("1", True, ""), ("3", True, ""))
    assert second[:2] == ("2", True)
    assert "nobody not found" in second[2]


async def test_client_can_request_that_errors_end_stream() -> None:
    with pytest.raises(RpcFailed) as failed:
        await served(request("a", "1", "nobody"), request("a", "2"), triton_grpc_error="true")
    assert failed.value.code is StatusCode.NOT_FOUND


@pytest.mark.parametrize(("wanted", "empty"), [({WANTS_EMPTY_FINAL: True}, [("1", True, "")]), ({}, [])])
async def test_streaming_model_sends_final_response_on_request(
    wanted: dict[str, bool], empty: list[Any]
) -> None:
    found = await served(request("a b", "1", "words", **wanted))
    assert found == [("1", False, ""), ("1", False, ""), *empty]


async def test_reserved_parameter_is_refused() -> None:
    [(_, _, error)] = await served(request("a", "1", triton_other=True))
    assert error == 'parameter "triton_other" is reserved'


@pytest.mark.parametrize(("model", "operation"), [("size", "infer"), ("words", "stream")])
async def test_each_refusal_is_logged_once(
    model: str, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = ModelInferRequest(model_name=model)
    wrong.inputs.add(name="text", datatype="BYTES", shape=[1]).parameters[
        "shared_memory_region"
    ].int64_param = 1
    sent = (
        request("a", "1", model, triton_other=True),
        wrong.SerializeToString(),
        request("a", "2", "nobody"),
    )
    with caplog.at_level(logging.INFO, ACCESS):
        async with Application(app(), access_log=True) as application:
            await ask(application, Asking(*sent))
    records: list[Any] = [record for record in caplog.records if record.name == ACCESS]
    fields = [record.fields for record in records]
    assert len(fields) == 3
    assert {(each["model"], each["operation"], each["status"]) for each in fields} == {
        ("nobody", "stream", "not_found"),
        (model, "stream", "invalid"),
        (model, operation, "unsupported"),
    }


def test_markers_are_parameters_and_metadata() -> None:
    marked: Any = ModelInferRequest()
    marked.parameters["triton_x"].bool_param = True
    assert TritonDialect.is_certain(first_of(marked), Headers(()))
    fatal = Headers([("triton_grpc_error", "true")])
    assert TritonDialect.is_certain(first_of(ModelInferRequest()), fatal)
    hinted: Any = ModelInferRequest()
    hinted.outputs.add(name="y").parameters["classification"].int64_param = 1
    assert not TritonDialect.is_certain(first_of(hinted), Headers(()))
    assert TritonDialect.is_likely(first_of(hinted), Headers(()))
