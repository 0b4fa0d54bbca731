"""Typed signatures."""

from collections.abc import Awaitable, Callable
from typing import Any

from inferstream.codecs import signature
from inferstream.codecs.base import RequestCodec
from inferstream.codecs.signature import decode_args
from inferstream.types import InferenceRequest, InferenceResponse

PredictFunc = Callable[[Any, InferenceRequest], Awaitable[InferenceResponse]]


class SignatureCodec(RequestCodec):
    """The codec of a function's arguments and of what it returns."""

    def __init__(self, predict: Callable[..., Any]) -> None:
        self._codec = signature.SignatureCodec(predict)

    def decode_request(self, request: InferenceRequest) -> dict[str, Any]:  # type: ignore[override]
        return self._codec.decode_request(request)

    def encode_response(  # type: ignore[override]
        self, model_name: str, payload: Any, model_version: str | None = None
    ) -> InferenceResponse:
        return self._codec.encode_response(payload, model_name, model_version)


__all__ = ["PredictFunc", "SignatureCodec", "decode_args"]
