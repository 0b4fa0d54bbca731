"""Calls over REST: what they tell a server, and how they fail."""

import math

import httpx
import pytest

from inferstream.clients.rest import RestTransport
from inferstream.clients.retries import never_started
from inferstream.clients.transport import ModelName, OutgoingCall, Target
from inferstream.errors import CallFailed, CallTimedOut, ConnectionFailed
from inferstream.types import InferenceRequest

MODEL = ModelName("a/b", "1")


BODY = b'{"model_name":"m","outputs":[]}'


def rest(response: httpx.Response | Exception, seen: list[httpx.Request] | None = None) -> RestTransport:
    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        if isinstance(response, Exception):
            raise response
        return response

    transport = RestTransport(Target("http://host:1/"))
    transport._client = httpx.AsyncClient(transport=httpx.MockTransport(handle))
    return transport


def call(timeout: float = 5, tells_timeout: bool = True) -> OutgoingCall:
    return OutgoingCall(
        MODEL, InferenceRequest(inputs=[]), {"x-a": "1"}, timeout, tells_timeout=tells_timeout
    )


async def test_rest_request_has_model_and_time_limit() -> None:
    seen: list[httpx.Request] = []
    transport = rest(httpx.Response(200, content=BODY), seen)
    for outgoing in (call(), call(math.inf), call(tells_timeout=False)):
        await transport.infer(outgoing)
    assert str(seen[0].url) == "http://host:1/v2/models/a%2Fb/versions/1/infer"
    assert [request.headers.get("x-request-timeout") for request in seen] == ["5.000", None, None]
    assert seen[0].headers["x-a"] == "1"


@pytest.mark.parametrize(
    ("status", "headers", "kind", "repeats"),
    [
        (429, {"retry-after": "3"}, CallFailed, True),
        (503, {"retry-after": "3"}, CallFailed, True),
        (503, {}, CallFailed, False),
        (500, {"retry-after": "3"}, CallFailed, False),
        (504, {}, CallTimedOut, False),
    ],
)
async def test_rest_errors_are_mapped(status: int, headers: dict, kind: type, repeats: bool) -> None:
    response = httpx.Response(status, headers=headers, json={"error": "why"})
    for failing in (rest(response).infer(call()), anext(rest(response).stream(call()))):
        with pytest.raises(kind) as caught:
            await failing
        error = caught.value
        assert (error.status, error.message, str(error)) == (status, "why", f"{status}: why")
        assert never_started(error) == repeats


@pytest.mark.parametrize(
    ("raised", "unreachable"),
    [(httpx.ConnectError("refused"), True), (httpx.ConnectTimeout(""), True), (httpx.ReadError(""), False)],
)
async def test_rest_connection_failure(raised: Exception, unreachable: bool) -> None:
    for failing in (rest(raised).infer(call()), anext(rest(raised).stream(call()))):
        with pytest.raises(ConnectionFailed) as caught:
            await failing
        assert (caught.value.unreachable, caught.value.status) == (unreachable, None)
        assert isinstance(caught.value, ConnectionError)
