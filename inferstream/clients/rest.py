"""Calls over REST."""

import asyncio
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from urllib.parse import quote

import httpx
import orjson
from pydantic import ValidationError

from ..errors import CallFailed, InvalidRequest
from ..protos.json_client import HEADER_LENGTH, dump_request, load_response
from ..types import InferenceRequest, InferenceResponse, MetadataModelResponse
from .transport import Target

RETRYABLE = frozenset((429, 502, 503, 504))
"""Statuses of calls that the server, or a proxy before it, has not started. A retry cannot change others."""


class RestTransport:
    """One pool of connections to a server."""

    def __init__(self, target: Target) -> None:
        scheme = "https" if target.ssl else "http"
        base = target.url if "://" in target.url else f"{scheme}://{target.url}"
        self._model = f"{base.rstrip('/')}/v2/models/{quote(target.model, safe='')}"
        self._binary = target.binary
        self._timeout = target.timeout
        self._client = httpx.AsyncClient(
            verify=target.verify,
            # `_ask` limits the whole attempt. A failed connection has an error of its own.
            timeout=httpx.Timeout(None, connect=target.timeout),
            limits=httpx.Limits(max_connections=target.connections),
        )

    async def infer(self, request: InferenceRequest, headers: Mapping[str, str]) -> InferenceResponse:
        body, blobs = dump_request(request, self._binary)
        sent = {"content-type": "application/json", **headers}
        if self._binary:
            sent |= {"content-type": "application/octet-stream", HEADER_LENGTH: str(len(body))}
        response = await self._ask("POST", f"{self._model}/infer", b"".join((body, *blobs)), sent)
        if response.status_code != 200:
            raise _failure(response)
        try:
            return load_response(response.content, response.headers.get(HEADER_LENGTH))
        except InvalidRequest as error:
            raise CallFailed(f"The server's answer is not a V2 response: {error.message}") from error

    async def metadata(self) -> MetadataModelResponse:
        """The model's metadata. Raises CallFailed."""
        response = await self._ask("GET", self._model, b"", {})
        if response.status_code != 200:
            raise _failure(response)
        try:
            return MetadataModelResponse.model_validate_json(response.content)
        except ValidationError as error:
            raise CallFailed(f"The server's answer is not a model's metadata: {error}") from error

    async def _ask(self, method: str, url: str, body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        try:
            async with asyncio.timeout(self._timeout):
                return await self._client.request(method, url, content=body, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise CallFailed(f"no connection: {error}", retryable=True, unreachable=True) from error
        except (httpx.NetworkError, httpx.RemoteProtocolError) as error:
            reason = str(error) or type(error).__name__
            raise CallFailed(f"the connection ended: {reason}", retryable=True) from error
        except TimeoutError as error:
            raise CallFailed(f"no answer within {self._timeout:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise CallFailed(str(error) or type(error).__name__) from error

    async def aclose(self) -> None:
        await self._client.aclose()


def _failure(response: httpx.Response) -> CallFailed:
    return CallFailed(
        f"{response.status_code}: {_reason(response)}",
        retryable=response.status_code in RETRYABLE,
        retry_after=_retry_after(response.headers.get("retry-after")),
    )


def _reason(response: httpx.Response) -> str:
    """The error in the body, in our form or in MLServer's and FastAPI's, else the body itself."""
    try:
        document = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return response.text[:500] or response.reason_phrase
    if isinstance(document, dict):
        error = document.get("error") or document.get("detail")
        if error:
            return error if isinstance(error, str) else orjson.dumps(error).decode()
    return response.text[:500]


def _retry_after(value: str | None) -> float | None:
    """Seconds, from either form of HTTP's header."""
    if value is None:
        return None
    try:
        return max(float(value), 0.0)
    except ValueError:
        pass
    try:
        return max(parsedate_to_datetime(value).timestamp() - time.time(), 0.0)
    except ValueError:
        return None
