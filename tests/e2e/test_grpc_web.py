"""gRPC-Web at the REST port, with frames made by hand."""

import base64
import gzip
import json
import shutil
import socket
import struct
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import httpx
import pytest
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse

from inferstream.protos.dataplane_pb2 import (
    ModelInferRequest,
    ModelInferResponse,
    RepositoryModelLoadRequest,
    ServerReadyRequest,
    ServerReadyResponse,
)
from tests.grpc_web import BINARY, SERVICE, TEXT, Stream, body_of, call, ended, framed, headers_of
from tests.serving import Running, eventually, write_model
from tests.typed import Reflected

FORMS = pytest.mark.parametrize("media", [BINARY, TEXT], ids=["binary", "text"])
OK, CANCELLED, UNKNOWN, INVALID, DEADLINE, NOT_FOUND, _, DENIED, EXHAUSTED, *_ = range(17)
UNIMPLEMENTED = 12
APP = Path(__file__).with_name("typed_app.py")


def asked(model: str, value: str = "hello", id: str = "1", **parameters: float) -> bytes:
    message = ModelInferRequest(model_name=model, id=id)
    tensor = message.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(value.encode())
    for name, number in parameters.items():
        kind = "int64_param" if isinstance(number, int) else "double_param"
        setattr(message.parameters[name], kind, number)
    return message.SerializeToString()


def said(data: bytes) -> str:
    [output] = ModelInferResponse.FromString(data).outputs
    return output.contents.bytes_contents[0].decode()


def post(server: Running, content: bytes, method: str = "ModelInfer", **headers: str) -> httpx.Response:
    return httpx.post(f"{server.url}/{SERVICE}/{method}", content=content, headers=headers, timeout=20)


@FORMS
def test_unary_response(server: Running, media: str) -> None:
    found = call(server.url, "ModelInfer", asked("echo", "grüße"), media=media)
    assert [said(data) for data in found.messages] == ["grüße"]
    assert found.trailers == {"grpc-status": "0"}
    assert found.headers["content-type"] == media
    assert "transfer-encoding" not in found.headers


@pytest.mark.parametrize(
    "media", ["application/grpc-web", "application/grpc-web-text", f"{BINARY}; charset=utf-8"]
)
def test_other_grpc_web_media_types(server: Running, media: str) -> None:
    found = call(server.url, "ServerReady", ServerReadyRequest().SerializeToString(), media=media)
    assert ServerReadyResponse.FromString(found.messages[0]).ready


def test_accept_header_selects_response_format(server: Running) -> None:
    request = asked("echo")
    for sent, accept, expected in [
        (BINARY, "application/grpc-web-text", TEXT),
        (TEXT, "application/grpc-web+proto", BINARY),
        (TEXT, "*/*", TEXT),
        (BINARY, "*/*", BINARY),
    ]:
        found = call(server.url, "ModelInfer", request, media=sent, accept=accept)
        assert (found.headers["content-type"], said(found.messages[0])) == (expected, "hello")


def test_base64_in_padded_chunks(server: Running) -> None:
    whole = framed(asked("echo"))
    text = b"".join(base64.b64encode(whole[start : start + 7]) for start in range(0, len(whole), 7))
    assert b"=" in text[:-2]
    found = ended(post(server, text, **headers_of(TEXT)))
    assert said(found.messages[0]) == "hello"


@FORMS
def test_stream_arrives_immediately(server: Running, media: str) -> None:
    stream = Stream(
        server.url, "ModelStreamInfer", asked("streaming", id=media, items=3, delay=0.2), media=media
    )
    try:
        assert said(next(stream)) == "item 0"
        assert not server.noted(f"finally {media}")
        assert [said(data) for data in stream] == ["item 1", "item 2"]
        assert stream.trailers == {"grpc-status": "0"}
        assert stream.headers["x-stream-dialect"] == "mlserver"
    finally:
        stream.close()


@pytest.mark.parametrize("model", ["streaming", "spinning", "blocking-stream"])
def test_disconnect_ends_model(server: Running, model: str) -> None:
    request = asked(model, id=f"leaving-{model}", items=10**6, delay=0.01)
    stream = Stream(server.url, "ModelStreamInfer", request)
    next(stream)
    stream.close()
    eventually(lambda: server.noted(f"finally leaving-{model}"))
    server.probe()


def test_disconnect_before_response_ends_model(server: Running) -> None:
    content = body_of(asked("slow", id="web-slow", seconds=60))
    with socket.create_connection(("127.0.0.1", server.http_port)) as client:
        head = f"POST /{SERVICE}/ModelInfer HTTP/1.1\r\nhost: localhost\r\ncontent-type: {BINARY}\r\n"
        client.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        eventually(lambda: server.noted("start web-slow"))
    eventually(lambda: server.noted("finally web-slow"))


def test_all_stream_requests_in_one_body(server: Running) -> None:
    requests = [asked("collecting", f"word{number}") for number in range(5)]
    found = call(server.url, "ModelStreamInfer", *requests)
    assert [said(data) for data in found.messages] == ["word0 word1 word2 word3 word4"]
    found = call(server.url, "ModelStreamInfer", asked("both"), asked("both"), media=TEXT)
    assert [said(data) for data in found.messages] == ["streamed 1", "streamed 1"]


def test_chunked_call_without_content_length(server: Running) -> None:
    content = body_of(asked("echo"), media=TEXT)
    pieces = iter([content[:3], content[3:50], content[50:]])
    response = httpx.post(f"{server.url}/{SERVICE}/ModelInfer", content=pieces, headers=headers_of(TEXT))
    assert said(ended(response).messages[0]) == "hello"


def test_a_deadline(server: Running) -> None:
    found = call(server.url, "ModelInfer", asked("slow", id="web-late", seconds=60), grpc_timeout="200m")
    assert (found.status, found.messages) == (DEADLINE, [])
    assert "deadline" in found.message
    eventually(lambda: server.noted("finally web-late"))


@pytest.mark.parametrize(
    ("headers", "status", "reason"),
    [
        ({"grpc_timeout": "1x"}, INVALID, 'grpc-timeout "1x"'),
        ({"x_some_bin": "not base64"}, INVALID, '"x-some-bin" is not base64'),
        ({"grpc_encoding": "br"}, UNIMPLEMENTED, 'grpc-encoding "br"'),
        ({"content_encoding": "br"}, INVALID, 'content-encoding "br"'),
        ({"x_request_priority": "high"}, INVALID, "riority"),
    ],
    ids=["timeout", "binary", "message-encoding", "body-encoding", "priority"],
)
def test_wrong_headers(server: Running, headers: dict[str, str], status: int, reason: str) -> None:
    found = call(server.url, "ModelInfer", asked("echo"), **headers)
    assert found.status == status
    assert reason in found.message
    assert found.headers["grpc-accept-encoding"] == "identity, deflate, gzip"
    server.probe()


@pytest.mark.parametrize(
    ("content", "media", "reason"),
    [
        (b"", BINARY, "one message"),
        (framed(b"", b""), BINARY, "one message"),
        (framed(b"abc")[:-1], BINARY, "ends within a message"),
        (b"\0\0\0", BINARY, "ends within a message"),
        (framed(b"", flag=0x80), BINARY, "flags of a message are 128"),
        (framed(b"", flag=1), BINARY, "no grpc-encoding"),
        (framed(b"\xff\xff"), BINARY, "not a ModelInferRequest"),
        (b"AAAAAA==\n", TEXT, "not base64"),
        (b"{}{}", TEXT, "not base64"),
    ],
)
def test_body_with_other_than_one_request(server: Running, content: bytes, media: str, reason: str) -> None:
    found = ended(post(server, content, **headers_of(media)))
    assert (found.status, found.messages) == (INVALID, [])
    assert reason in found.message


def packed(data: bytes, encoding: str) -> bytes:
    return framed(gzip.compress(data) if encoding == "gzip" else zlib.compress(data), flag=1)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_messages(server: Running, encoding: str) -> None:
    headers = headers_of(BINARY, grpc_encoding=encoding)
    request = asked("collecting")
    found = ended(post(server, packed(request, encoding) + framed(request), "ModelStreamInfer", **headers))
    assert said(found.messages[0]) == "hello hello"
    found = ended(post(server, packed(bytes(10**8), encoding), **headers))
    assert found.status == EXHAUSTED
    assert "larger than the 4194304 bytes" in found.message


@FORMS
def test_a_compressed_body(server: Running, media: str) -> None:
    headers = headers_of(media, content_encoding="gzip")
    found = ended(post(server, gzip.compress(body_of(asked("echo"), media=media)), **headers))
    assert said(found.messages[0]) == "hello"
    found = ended(post(server, gzip.compress(bytes(10**8)), **headers))
    assert found.status == EXHAUSTED


@pytest.mark.parametrize("size", [4194304, 4194305])
@FORMS
def test_the_largest_request(server: Running, media: str, size: int) -> None:
    room = 2 * (size - 100) - len(asked("echo", " " * (size - 100))) + 100
    request = asked("echo", " " * room)
    assert len(request) == size
    response = post(server, body_of(request, media=media), **headers_of(media))
    found = ended(response)
    if size == 4194304:
        assert said(found.messages[0]) == " " * room
    else:
        assert (found.status, found.messages) == (EXHAUSTED, [])
        assert "larger than the 4194304 bytes allowed" in found.message


def test_declared_oversized_message_is_refused(server: Running) -> None:
    found = ended(post(server, b"\0" + struct.pack(">L", 2**31) + bytes(10), **headers_of(BINARY)))
    assert found.status == EXHAUSTED
    assert "larger than the 4194304 bytes allowed (setting max_body_bytes)" in found.message


def test_grpc_limits_apply_in_both_directions(start, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    write_model(folder, "spinning", "faulty_models.Spinning")
    server = start(folder, INFERSTREAM_GRPC_MAX_MESSAGE_LENGTH="10000")
    found = call(server.url, "ModelInfer", asked("echo", "a" * 11000))
    assert (found.status, "10000 bytes allowed (setting grpc_max_message_length)" in found.message) == (
        EXHAUSTED,
        True,
    )
    found = call(server.url, "ModelStreamInfer", asked("spinning", size=11000))
    assert (found.status, "response of 11" in found.message) == (EXHAUSTED, True)
    assert found.message.endswith("(setting grpc_max_message_length).")


@pytest.mark.parametrize("path", [f"{SERVICE}/Nothing", "no.Such/Method", "nothing", "v2/nothing/at/all"])
def test_an_unknown_rpc(server: Running, path: str) -> None:
    response = httpx.post(f"{server.url}/{path}", content=framed(b""), headers=headers_of(BINARY))
    assert ended(response).status == UNIMPLEMENTED
    assert f'no RPC "/{path}"' in ended(response).message


def test_other_methods_and_media_types(server: Running) -> None:
    url = f"{server.url}/{SERVICE}/ModelInfer"
    for response in (httpx.get(url), httpx.options(url), httpx.put(url, headers=headers_of(BINARY))):
        assert (response.status_code, response.headers["allow"]) == (405, "POST")
    for media in (
        "application/json",
        "application/grpc",
        "application/grpc+proto",
        "application/grpc-web+json",
        "",
    ):
        response = httpx.post(url, content=framed(asked("echo")), headers={"content-type": media})
        assert response.status_code == 415
        assert "application/grpc-web-text" in response.json()["error"]
    assert httpx.get(f"{server.url}/no.Such/Method").status_code == 404
    assert httpx.post(f"{server.url}/no.Such/Method", json={}).status_code == 404


def test_model_errors(server: Running) -> None:
    found = call(server.url, "ModelInfer", asked("nobody"))
    assert found.status == NOT_FOUND
    assert found.message.startswith("Model nobody not found")
    stream = Stream(server.url, "ModelStreamInfer", asked("streaming", items=3, fail_at=2))
    assert [said(data) for data in stream] == ["item 0", "item 1"]
    assert stream.trailers is not None
    assert stream.trailers["grpc-status"] == "13"
    stream.close()


def test_headers_of_request_and_response_are_metadata(server: Running) -> None:
    message = ModelInferRequest.FromString(asked("mirror"))
    message.parameters["set_header"].bool_param = True
    found = call(server.url, "ModelInfer", message.SerializeToString(), x_custom="two words")
    assert said(found.messages[0]) == "two words"
    assert found.trailers["x-from-model"] == "yes"
    assert "x-bad" not in found.trailers
    assert found.status == OK


def test_full_queue_sends_retry_after(server: Running) -> None:
    with ThreadPoolExecutor(6) as pool:
        calls = [
            pool.submit(call, server.url, "ModelInfer", asked("limited", id=f"web-{number}", seconds=1.0))
            for number in range(6)
        ]
    found = [each.result() for each in calls]
    refused = [each for each in found if each.status == EXHAUSTED]
    assert refused
    assert {each.trailers["retry-after"] for each in refused} == {"1"}
    assert {each.status for each in found} == {OK, EXHAUSTED}


def test_health_and_meters(server: Running) -> None:
    before = server.metric("grpc_server_handled_total", grpc_method="Check", grpc_code="OK")
    request = HealthCheckRequest().SerializeToString()
    found = call(server.url, "Check", request, service="grpc.health.v1.Health")
    assert HealthCheckResponse.FromString(found.messages[0]).status == HealthCheckResponse.SERVING
    assert server.metric("grpc_server_handled_total", grpc_method="Check", grpc_code="OK") == before + 1


def test_typed_function_rpcs(serve, tmp_path) -> None:
    app = tmp_path / "app" / "typed_app.py"
    app.parent.mkdir()
    shutil.copy(APP, app)
    server = serve(app)
    with grpc.insecure_channel(server.grpc) as channel:
        service = Reflected(channel).service()

        def sent(method: str, *fields: dict[str, object]) -> list[object]:
            messages = [service.request(method, **each).SerializeToString() for each in fields]
            found = call(server.url, method, *messages, service="inferstream.App", media=TEXT)
            assert found.status == OK, found.message
            kind = GetMessageClass(service.methods[method].output_type)
            return [kind.FromString(data).result for data in found.messages]

        assert sent("PredictAdd", {"a": 2, "b": 3}) == [5]
        assert sent("PredictGenerate", {"prompt": "a b"}) == ["a", "b"]
        assert sent("PredictTotal", {"start": 1}, {"numbers": 2}, {"numbers": 3}) == [6]
        assert sent("PredictDouble", {"numbers": 2}, {"numbers": 3}) == [4, 6]


PAGE = "https://page.example"


def test_listed_origins_are_allowed(start, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "streaming", "faulty_models.Streaming")
    cors = {"allow_origins": [PAGE], "allow_methods": ["POST"], "allow_headers": ["x-own"]}
    (folder / "settings.json").write_text(json.dumps({"cors_settings": cors}))
    server = start(folder)
    url = f"{server.url}/{SERVICE}/ModelStreamInfer"
    wanted = "content-type,grpc-timeout,x-grpc-web,x-own,x-user-agent"
    asking = {
        "origin": PAGE,
        "access-control-request-method": "POST",
        "access-control-request-headers": wanted,
    }

    preflight = httpx.options(url, headers=asking)
    assert preflight.status_code == 200, preflight.text
    assert preflight.headers["access-control-allow-origin"] == PAGE
    allowed = {name.strip().lower() for name in preflight.headers["access-control-allow-headers"].split(",")}
    assert allowed >= {*wanted.split(",")}
    assert httpx.options(url, headers={**asking, "origin": "https://evil.example"}).status_code == 400

    stream = Stream(server.url, "ModelStreamInfer", asked("streaming"), origin=PAGE)
    assert [said(data) for data in stream] == ["item 0", "item 1", "item 2"]
    assert stream.headers["access-control-allow-origin"] == PAGE
    exposed = {name.strip() for name in stream.headers["access-control-expose-headers"].split(",")}
    assert exposed == {"grpc-status", "grpc-message", "grpc-status-details-bin", "retry-after"}
    stream.close()


@pytest.mark.parametrize("headers", [{"origin": "https://evil.example"}, {"host": "evil.example"}], ids=str)
def test_foreign_origin_cannot_change_repository(server: Running, headers: dict[str, str]) -> None:
    request = RepositoryModelLoadRequest(model_name="echo").SerializeToString()
    for service in (SERVICE, "inference.model_repository.ModelRepositoryService"):
        found = call(server.url, "RepositoryModelLoad", request, service=service, **headers)
        assert found.status == DENIED
    assert call(server.url, "RepositoryModelLoad", request).status == OK


def test_can_be_disabled(start, tmp_path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    server = start(folder, INFERSTREAM_GRPC_WEB="false")
    assert post(server, framed(asked("echo")), **headers_of(BINARY)).status_code == 404
    with grpc.insecure_channel(server.grpc) as channel:
        infer = channel.unary_unary(f"/{SERVICE}/ModelInfer")
        assert said(infer(asked("echo"), timeout=20)) == "hello"
