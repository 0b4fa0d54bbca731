"""The REST transport of the clients."""

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
from .failures import (
    build_invalid_response_error,
    build_timeout_error,
    http_error,
    parse_stream_error,
    unreachable,
)
from .transport import ModelName, OutgoingCall, Target

LAST = "last-event-id"

RELEASE = 2.0
"""The time limit for releasing a resumable stream, in seconds."""

Model = TypeVar("Model", bound=BaseModel)


class RestTransport:
    """A transport over one connection pool."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._client = httpx.AsyncClient(
            headers=dict(target.headers),
            verify=target.verifies,
            # `_ask` limits the whole attempt. Only a failure to connect needs a separate error.
            timeout=httpx.Timeout(None, connect=target.timeout),
            limits=httpx.Limits(max_connections=target.connections),
        )
        self._releasing = Tasks()

    async def infer(self, call: OutgoingCall) -> InferenceResponse:
        headers, body = self.encode(call)
        response = await self._send("POST", f"{self._url(call.model)}/infer", call.timeout, body, headers)
        return _parse_response(response.content, response.headers.get(HEADER_LENGTH))

    def encode(self, call: OutgoingCall) -> tuple[dict[str, str], bytes]:
        """Return the headers and the body of the request. Raises InvalidRequest."""
        body, blobs = dump_request(call.request, call.binary)
        headers = {"content-type": "application/json", **call.http_headers()}
        if call.binary:
            headers |= {"content-type": "application/octet-stream", HEADER_LENGTH: str(len(body))}
        return headers, b"".join((body, *blobs))

    async def stream(self, call: OutgoingCall) -> AsyncGenerator[InferenceResponse, None]:
        if call.more is not None:
            from .websocket import converse  # imported lazily: few clients use bidirectional streams

            async with aclosing(converse(self._target, call)) as answers:
                async for answer in answers:
                    yield answer
            return
        headers, body = self.encode(call)
        url = f"{self._url(call.model)}/infer_stream"
        parser, ended = EventParser(), False
        try:
            with _convert_errors():
                async with self._client.stream("POST", url, content=body, headers=headers) as response:
                    if response.status_code != 200:
                        raise _convert_error(response, await response.aread())
                    async for chunk in response.aiter_bytes():
                        for name, data in parser.parse(chunk):
                            ended = name in ("error", "end")
                            if name == "error":
                                raise parse_stream_error(data)
                            if ended:  # a resumable stream
                                return
                            yield _parse_response(data)
        finally:
            if parser.last_id and not ended:
                # If all streams of the server are resumable, it would wait for the client to reconnect.
                self._releasing.start(self._release(url, {**call.headers, LAST: parser.last_id.decode()}))

    async def _release(self, url: str, headers: Mapping[str, str]) -> None:
        """Release a resumable stream. Otherwise the server keeps it until its own timeout."""
        with suppress(CallFailed):
            await self._send("DELETE", url, RELEASE, headers=headers)

    async def metadata(self, model: ModelName, timeout: float) -> MetadataModelResponse:
        response = await self._send("GET", self._url(model), timeout)
        return _validate(MetadataModelResponse, response.content, "a model's metadata")

    async def index(self, timeout: float) -> RepositoryIndexResponse:
        url = f"{self._target.base}/v2/repository/index"
        response = await self._send("POST", url, timeout, orjson.dumps({"ready": True}))
        return _validate(RepositoryIndexResponse, response.content, "an index of models")

    async def ready(self, model: ModelName | None, timeout: float) -> bool:
        url = f"{self._target.base}/v2/health/ready" if model is None else f"{self._url(model)}/ready"
        try:
            await self._send("GET", url, timeout)
        except CallFailed as error:
            if error.status is None:
                raise
            return False
        return True

    async def aclose(self) -> None:
        await self._releasing.wait_for_all()
        await self._client.aclose()

    def _url(self, model: ModelName) -> str:
        return self._target.base + model.path

    async def _send(
        self,
        method: str,
        url: str,
        timeout: float,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        try:
            async with asyncio.timeout(None if timeout == math.inf else timeout):
                with _convert_errors():
                    response = await self._client.request(method, url, content=body, headers=headers)
        except TimeoutError as error:
            if isinstance(error, CallFailed):
                raise
            raise build_timeout_error(timeout) from None
        if response.status_code != 200:
            raise _convert_error(response, response.content)
        return response


def _parse_response(data: bytes, header_length: str | None = None) -> InferenceResponse:
    try:
        return load_response(data, header_length)
    except InvalidRequest as error:
        raise build_invalid_response_error(error) from None


def _validate(kind: type[Model], content: bytes, what: str) -> Model:
    try:
        return kind.model_validate_json(content)
    except ValidationError as error:
        raise CallFailed(f"The server's answer is not {what}: {error}") from None


def _origin(url: httpx.URL) -> str:
    """Return the scheme, host and port of a URL."""
    return f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"


@contextmanager
def _convert_errors() -> Iterator[None]:
    """Convert httpx errors to CallFailed."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise unreachable(_origin(error.request.url), error) from None
    except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
        reason = str(error) or type(error).__name__
        raise ConnectionFailed(f"the connection ended: {reason}", retryable=True) from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise CallFailed(str(error) or type(error).__name__) from None


def _convert_error(response: httpx.Response, body: bytes) -> CallFailed:
    return http_error(response.status_code, body, response.reason_phrase, response.headers.get("retry-after"))
