"""MLServer interfaces for batching, caching, middleware and CloudEvents."""

from collections.abc import Callable
from enum import Enum
from math import prod
from typing import Any

from inferstream import MLModel, ModelSettings, Settings
from inferstream.plugins.cloudevents.events import CloudEvents, namespace
from inferstream.types import InferenceRequest, InferenceResponse, Parameters


class Shape:
    """A mutable copy of a shape."""

    batch_axis = 0

    def __init__(self, shape: list[int]) -> None:
        self._shape = shape.copy()

    def to_list(self) -> list[int]:
        return self._shape.copy()

    def copy(self) -> "Shape":
        return Shape(self._shape)

    @property
    def batch_size(self) -> int:
        """The number of rows."""
        return self._shape[0]

    @batch_size.setter
    def batch_size(self, new_size: int) -> None:
        self._shape[0] = new_size

    @property
    def elem_size(self) -> int:
        """The number of values in one row."""
        return prod(self._shape[1:])


def adaptive_batching(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function unchanged, because the server batches outside of the model."""
    return f


async def load_batching(model: MLModel) -> MLModel:
    """Return the model unchanged, because the server batches outside of the model."""
    return model


class ResponseCache:
    """A cache of strings by key.

    It is separate from the server's response cache, which `cache_enabled` enables.
    """

    async def insert(self, key: str, value: str) -> None:
        """Store a string."""
        raise NotImplementedError

    async def lookup(self, key: str) -> str:
        """Return the stored string, or an empty one."""
        raise NotImplementedError

    async def size(self) -> int:
        """Return the number of entries."""
        raise NotImplementedError


class LocalCache(ResponseCache):
    """Stores the last `size` entries."""

    def __init__(self, size: int = 100) -> None:
        self.cache: dict[str, str] = {}
        self.size_limit = size

    async def insert(self, key: str, value: str) -> None:
        self.cache[key] = value
        if len(self.cache) > self.size_limit:
            del self.cache[next(iter(self.cache))]

    async def lookup(self, key: str) -> str:
        return self.cache.get(key, "")

    async def size(self) -> int:
        return len(self.cache)


class InferenceMiddleware:
    """Reads or modifies requests and responses."""

    def request_middleware(
        self, request: InferenceRequest, model_settings: ModelSettings
    ) -> InferenceRequest:
        """Return the request for the next middleware or the model."""
        raise NotImplementedError

    def response_middleware(
        self, response: InferenceResponse, model_settings: ModelSettings
    ) -> InferenceResponse:
        """Return the response for the next middleware or the client."""
        raise NotImplementedError


class InferenceMiddlewares(InferenceMiddleware):
    """Applies several middlewares in order."""

    def __init__(self, *inference_middlewares: InferenceMiddleware) -> None:
        self._middlewares = inference_middlewares

    def request_middleware(
        self, request: InferenceRequest, model_settings: ModelSettings
    ) -> InferenceRequest:
        for middleware in self._middlewares:
            request = middleware.request_middleware(request, model_settings)
        return request

    def response_middleware(
        self, response: InferenceResponse, model_settings: ModelSettings
    ) -> InferenceResponse:
        for middleware in self._middlewares:
            response = middleware.response_middleware(response, model_settings)
        return response


CLOUDEVENTS_HEADER_ENDPOINT = "Ce-Endpoint"
CLOUDEVENTS_HEADER_ID = "Ce-Id"
CLOUDEVENTS_HEADER_INFERENCE_SERVICE = "Ce-Inferenceservicename"
CLOUDEVENTS_HEADER_MODEL_ID = "Ce-Modelid"
CLOUDEVENTS_HEADER_NAMESPACE = "Ce-Namespace"
CLOUDEVENTS_HEADER_REQUEST_ID = "Ce-Requestid"
CLOUDEVENTS_HEADER_SOURCE = "Ce-Source"
CLOUDEVENTS_HEADER_SPECVERSION = "Ce-Specversion"
CLOUDEVENTS_HEADER_SPECVERSION_DEFAULT = "0.3"
CLOUDEVENTS_HEADER_TYPE = "Ce-Type"


class CloudEventsTypes(Enum):
    """CloudEvents types."""

    Request = "io.seldon.serving.inference.request"
    Response = "io.seldon.serving.inference.response"


class CloudEventsMiddleware(InferenceMiddleware):
    """Adds CloudEvents headers. The server adds them itself if `cloudevents_headers` is set."""

    def __init__(self, settings: Settings) -> None:
        self._events = CloudEvents(settings.server_name)

    def request_middleware(
        self, request: InferenceRequest, model_settings: ModelSettings
    ) -> InferenceRequest:
        self._add(request, model_settings.name, CloudEventsTypes.Request)
        return request

    def response_middleware(
        self, response: InferenceResponse, model_settings: ModelSettings
    ) -> InferenceResponse:
        self._add(response, model_settings.name, CloudEventsTypes.Response)
        return response

    def _add(self, payload: InferenceRequest | InferenceResponse, model: str, type: CloudEventsTypes) -> None:
        parameters = payload.parameters or Parameters()
        headers = {**(parameters.headers or {}), **self._events.of_model(model, type.value)}
        if payload.id:
            headers |= {CLOUDEVENTS_HEADER_ID: payload.id, CLOUDEVENTS_HEADER_REQUEST_ID: payload.id}
        parameters.headers = headers
        payload.parameters = parameters


def get_namespace() -> str | None:
    """Return the Kubernetes namespace of this process, or None."""
    return namespace() or None
