"""Calls over REST."""

import asyncio
import math
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager, suppress
from typing import TypeVar

import httpx
import orjson
from pydantic import BaseModel, ValidationError

from ..concurrency.tasks import Tasks
from ..errors import CallFailed, ConnectionFailed, InvalidRequest
from ..protos.json_client import HEADER_LENGTH, dump_request, load_response
from ..types import InferenceResponse, MetadataModelResponse, RepositoryIndexResponse
from .events import EventParser
from .failures import in_band, no_response, of_http, too_late
from .transport import ModelName, OutgoingCall, Target

LAST = "last-event-id"

RELEASE = 2.0
"""Seconds that the release of a stream may take."""

Model = TypeVar("Model", bound=BaseModel)


class RestTransport:
    """One pool of connections to a server."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client = httpx.AsyncClient(
            headers=dict(target.headers),
            verify=target.verifies,
            # `_ask` limits the whole attempt. A failed connection has an error of its own.
            timeout=httpx.Timeout(None, connect=target.timeout),
            limits=httpx.Limits(max_connections=target.connections),
        )
        self._releasing = Tasks()

    async def infer(self, call: OutgoingCall) -> InferenceResponse:
        headers, body = self.encode(call)
        response = await self._ask("POST", f"{self._url(call.model)}/infer", call.timeout, body, headers)
        return _response_in(response.content, response.headers.get(HEADER_LENGTH))

    def encode(self, call: OutgoingCall) -> tuple[dict[str, str], bytes]:
        """The headers and the body of the request. Raises InvalidRequest."""
        body, blobs = dump_request(call.request, call.binary)
        headers = {"content-type": "application/json", **call.http_headers()}
        if call.binary:
            headers |= {"content-type": "application/octet-stream", HEADER_LENGTH: str(len(body))}
        return headers, b"".join((body, *blobs))

    async def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        if call.more is not None:
            from .websocket import converse  # late: few clients stream in both directions

            async with aclosing(converse(self._target, call)) as answers:
                async for answer in answers:
                    yield answer
            return
        headers, body = self.encode(call)
        url = f"{self._url(call.model)}/infer_stream"
        parser, ended = EventParser(), False
        try:
            with _failures():
                async with self._client.stream("POST", url, content=body, headers=headers) as response:
                    if response.status_code != 200:
                        raise _failure(response, await response.aread())
                    async for chunk in response.aiter_bytes():
                        for name, data in parser.feed(chunk):
                            ended = name in ("error", "end")
                            if name == "error":
                                raise in_band(data)
                            if ended:  # a stream that may be resumed
                                return
                            yield _response_in(data)
        finally:
            if parser.last_id and not ended:
                # The server makes all streams resumable, and would wait for us.
                self._releasing.start(self._release(url, {**call.headers, LAST: parser.last_id.decode()}))

    async def _release(self, url: str, headers: Mapping[str, str]) -> None:
        """Tell the server that nobody resumes a stream. It would end the stream by itself, later."""
        with suppress(CallFailed):
            await self._ask("DELETE", url, RELEASE, headers=headers)

    async def metadata(self, model: ModelName, timeout: float) -> MetadataModelResponse:
        response = await self._ask("GET", self._url(model), timeout)
        return _validated(MetadataModelResponse, response.content, "a model's metadata")

    async def index(self, timeout: float) -> RepositoryIndexResponse:
        url = f"{self._target.base}/v2/repository/index"
        response = await self._ask("POST", url, timeout, orjson.dumps({"ready": True}))
        return _validated(RepositoryIndexResponse, response.content, "an index of models")

    async def ready(self, model: ModelName | None, timeout: float) -> bool:
        url = f"{self._target.base}/v2/health/ready" if model is None else f"{self._url(model)}/ready"
        try:
            await self._ask("GET", url, timeout)
        except CallFailed as error:
            if error.status is None:
                raise
            return False
        return True

    async def aclose(self) -> None:
        await self._releasing.all_ended()
        await self._client.aclose()

    def _url(self, model: ModelName) -> str:
        return self._target.base + model.path

    async def _ask(
        self,
        method: str,
        url: str,
        timeout: float,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        try:
            async with asyncio.timeout(None if timeout == math.inf else timeout):
                with _failures():
                    response = await self._client.request(method, url, content=body, headers=headers)
        except TimeoutError as error:
            if isinstance(error, CallFailed):
                raise
            raise too_late(timeout) from None
        if response.status_code != 200:
            raise _failure(response, response.content)
        return response


def _response_in(data: bytes, header_length: str | None = None) -> InferenceResponse:
    try:
        return load_response(data, header_length)
    except InvalidRequest as error:
        raise no_response(error) from None


def _validated(kind: type[Model], content: bytes, what: str) -> Model:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise CallFailed(f"The server's answer is not {what}: {error}") from None


@contextmanager
def _failures() -> Iterator[None]:
    """Raise CallFailed in place of the errors of httpx."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ConnectionFailed(f"no connection: {error}", retryable=True, unreachable=True) from None
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        reason = str(error) or type(error).__name__
        raise ConnectionFailed(f"the connection ended: {reason}", retryable=True) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CallFailed(str(error) or type(error).__name__) from None


def _failure(response: httpx.Response, body: bytes) -> CallFailed:
    return of_http(response.status_code, body, response.reason_phrase, response.headers.get("retry-after"))
