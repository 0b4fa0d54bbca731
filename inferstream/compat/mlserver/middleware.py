"""What looks at requests and responses on their way. The server runs none of its users' own, as MLServer."""

from inferstream import ModelSettings
from inferstream.types import InferenceRequest, InferenceResponse


class InferenceMiddleware:
    """Looks at, or changes, requests and responses."""

    def request_middleware(
        self, request: InferenceRequest, model_settings: ModelSettings
    ) -> InferenceRequest:
        """The request to go on with."""
        raise NotImplementedError

    def response_middleware(
        self, response: InferenceResponse, model_settings: ModelSettings
    ) -> InferenceResponse:
        """The response to go on with."""
        raise NotImplementedError


class InferenceMiddlewares(InferenceMiddleware):
    """One after the other."""

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


__all__ = ["InferenceMiddleware", "InferenceMiddlewares"]
