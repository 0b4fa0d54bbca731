"""A JSON-RPC client, and the JSON representation of arrays."""

import base64
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import httpx
import numpy as np
import orjson

from inferstream.ext.values import DTYPES, array_as_object
from inferstream.types import TensorData

from .errors import BlazeRPCError, SerializationError

ARRAY = {"shape", "dtype", "data"}
"""The fields of an array object."""

DATATYPES = {"float": "FP32", "double": "FP64"} | {
    dtype.name: datatype for datatype, dtype in DTYPES.items() if datatype != "BF16"
}
"""Datatypes by the dtype name in an array object."""


class JsonRpcClient:
    """Calls models at a URL with the path `/jsonrpc`. Raises BlazeRPCError."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._ids = count(1)
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> "JsonRpcClient":
        return self

    async def __aexit__(self, *exit: object) -> None:
        await self.close()

    async def predict(self, model_name: str, **kwargs: Any) -> Any:
        """Call a model and return its result. Arrays are encoded and decoded."""
        request = {
            "jsonrpc": "2.0",
            "method": f"predict.{model_name}",
            "params": _encode_arguments(kwargs),
            "id": next(self._ids),
        }
        response = await self._client().post(self._url, json=request)
        answer = _parse_object(response.content)
        if "error" in answer:
            error = answer["error"]
            raise BlazeRPCError(f"JSON-RPC error {error['code']}: {error['message']}")
        return _decode_value(answer.get("result"))

    async def stream(self, model_name: str, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield the items of a stream as they arrive.

        If you leave the loop, the model's stream is stopped.
        """
        url = f"{self._url}/stream/{model_name}"
        body = {"params": _encode_arguments(kwargs)}
        async with self._client().stream("POST", url, json=body) as response:
            event = ""
            async for line in response.aiter_lines():
                name, _, value = line.partition(": ")
                if not line:
                    event = ""
                elif name == "event":
                    event = value
                elif name == "data" and event == "error":
                    raise BlazeRPCError(f"Stream error: {value}")
                elif name == "data" and event == "done":
                    return
                elif name == "data":
                    yield _decode_value(orjson.loads(value))
        raise BlazeRPCError("Stream error: the connection ended before the stream")

    async def close(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    def _client(self) -> httpx.AsyncClient:
        if self._http is None:
            self._http = httpx.AsyncClient(timeout=None)
        return self._http


def is_tensor_json(obj: Any) -> bool:
    """Whether a value has the keys of an array object."""
    return isinstance(obj, dict) and obj.keys() >= ARRAY


def tensor_from_json(obj: dict[str, Any]) -> Any:
    """Decode an array object. Raises SerializationError."""
    if obj.keys() != ARRAY:
        raise SerializationError(f"an array is an object with {', '.join(sorted(ARRAY))}")
    name, shape = str(obj["dtype"]), obj["shape"]
    datatype = DATATYPES.get(name)
    try:
        if datatype is None:
            raise ValueError(f"has an unknown dtype: {name[:40]!r}")
        if not isinstance(shape, list) or not all(type(size) is int and size >= 0 for size in shape):
            raise ValueError("has a shape that is no list of sizes")
        data = TensorData.from_raw(_decode_base64(obj["data"]), datatype)
        data.check(datatype, shape)
        return data.to_numpy(datatype, shape)
    except ValueError as error:
        raise SerializationError(f"the object {error}", dtype=name) from None


def _decode_base64(data: Any) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (TypeError, ValueError):
        raise ValueError("has data that are no base64") from None


def _encode_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        name: array_as_object(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }


def _decode_value(value: Any) -> Any:
    if is_tensor_json(value):
        return tensor_from_json(value)
    return (
        [_decode_value(item) if is_tensor_json(item) else item for item in value]
        if isinstance(value, list)
        else value
    )


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise BlazeRPCError("the server's answer is not one of JSON-RPC")
    return document
