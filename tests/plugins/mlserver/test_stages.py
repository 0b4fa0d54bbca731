"""Batches, caches, middlewares and CloudEvents under MLServer's names."""

import numpy as np

from inferstream.ext.hosting import install_aliases

install_aliases()

from mlserver.codecs import NumpyCodec  # type: ignore[import-not-found]
from mlserver.types import (  # type: ignore[import-not-found]
    InferenceRequest,
    InferenceResponse,
    Parameters,
)


def request_of(*values: float, id: str | None = None) -> InferenceRequest:
    return InferenceRequest(id=id, inputs=[NumpyCodec.encode_input("x", np.array(values))])


def test_requests_and_responses_get_cloudevents_headers() -> None:
    from mlserver import ModelSettings, Settings
    from mlserver.cloudevents import CloudEventsMiddleware

    middleware = CloudEventsMiddleware(Settings(server_name="s"))
    settings = ModelSettings(name="m", implementation="a.B")
    given = request_of(1, id="7")
    given.parameters = Parameters(headers={"x": "y"})
    assert middleware.request_middleware(given, settings) is given
    headers = given.parameters.headers
    assert (headers["x"], headers["Ce-Id"], headers["Ce-Modelid"]) == ("y", "7", "m")
    assert headers["Ce-Type"] == "io.seldon.serving.inference.request"
    answer = middleware.response_middleware(InferenceResponse(model_name="m", outputs=[]), settings)
    assert answer.parameters.headers["Ce-Source"] == "io.seldon.serving.deployment.s"
    assert "Ce-Id" not in answer.parameters.headers


def test_requests_are_batched_and_split() -> None:
    from mlserver.batching import BatchedRequests

    batched = BatchedRequests({"a": request_of(1, 2, id="1"), "b": request_of(3, id="2")})
    merged = batched.merged_request
    assert merged.inputs[0].shape == [3, 1]
    output = NumpyCodec.encode_output("y", NumpyCodec.decode_input(merged.inputs[0]) * 2)
    split = batched.split_response(InferenceResponse(model_name="m", outputs=[output]))
    assert [(name, found.id) for name, found in split.items()] == [("a", "1"), ("b", "2")]
    assert NumpyCodec.decode_output(split["b"].outputs[0]).tolist() == [[6]]


def test_first_shape_dimension_is_row_count() -> None:
    from mlserver.batching.shape import Shape

    shape = Shape([2, 3, 4])
    other = shape.copy()
    other.batch_size = 5
    assert (shape.batch_size, shape.elem_size, other.to_list()) == (2, 12, [5, 3, 4])


async def test_local_cache_evicts_oldest() -> None:
    from mlserver.cache import LocalCache

    cache = LocalCache(size=1)
    await cache.insert("a", "1")
    await cache.insert("b", "2")
    assert [await cache.lookup("a"), await cache.lookup("b"), await cache.size()] == ["", "2", 1]


def test_middlewares_run_in_order() -> None:
    from mlserver.middleware import InferenceMiddleware, InferenceMiddlewares

    class Named(InferenceMiddleware):
        def __init__(self, name: str) -> None:
            self._name = name

        def request_middleware(self, request, model_settings):
            request.id = (request.id or "") + self._name
            return request

    both = InferenceMiddlewares(Named("a"), Named("b"))
    assert both.request_middleware(request_of(1), None).id == "ab"
