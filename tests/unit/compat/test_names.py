"""What stands behind MLServer's names does what they promise."""

import asyncio
import hashlib
import json
import logging

import grpc
import numpy as np
import pytest

from inferstream import compat
from inferstream.errors import Unsupported
from inferstream.telemetry.context import model_context
from tests.serving import tensor

compat.install()

from mlserver.codecs import NumpyCodec, StringCodec  # type: ignore[import-not-found]
from mlserver.types import (  # type: ignore[import-not-found]
    InferenceRequest,
    InferenceResponse,
    Parameters,
    RequestInput,
    RequestOutput,
    ResponseOutput,
)


def request_of(*values: float, id: str | None = None) -> InferenceRequest:
    return InferenceRequest(id=id, inputs=[NumpyCodec.encode_input("x", np.array(values))])


def test_machinery_can_be_named_and_says_what_to_use_instead() -> None:
    from mlserver.rest import RESTServer

    assert not isinstance(object(), RESTServer)
    with pytest.raises(Unsupported, match=r"mlserver\.rest\.server\.RESTServer .* mlserver\.MLServer"):
        RESTServer(None, None, None)


def test_a_part_of_the_machinery_without_a_file_says_so_too() -> None:
    from mlserver.grpc.interceptors import LoggingInterceptor
    from mlserver.rest.endpoints import Endpoints
    from mlserver.rest.logging import logger, loggerName

    assert not isinstance(object(), LoggingInterceptor)
    with pytest.raises(
        Unsupported, match=r"mlserver\.rest\.endpoints\.Endpoints .* mlserver\.MLServer serves"
    ):
        Endpoints(None)
    with pytest.raises(
        AttributeError, match=r"mlserver\.rest\.endpoints\.Endpoints .* mlserver\.MLServer serves"
    ):
        Endpoints.infer  # noqa: B018
    assert (logger.name, loggerName) == ("mlserver.rest", "mlserver.rest")


def test_a_functions_codec_takes_mlservers_arguments() -> None:
    from mlserver.codecs.decorator import SignatureCodec

    def function(x: np.ndarray) -> list[str]: ...

    codec = SignatureCodec(function)
    assert codec.decode_request(request_of(1, 2))["x"].tolist() == [[1], [2]]
    response = codec.encode_response(model_name="m", payload=["a"])
    assert (response.model_name, response.model_version) == ("m", None)
    assert StringCodec.decode_output(response.outputs[0]) == ["a"]


def test_codecs_have_the_constants_that_runtimes_read() -> None:
    from mlserver.codecs import PandasCodec, StringRequestCodec
    from mlserver.codecs.base import find_request_codec

    assert PandasCodec.JsonContentType == "pd_json"
    assert find_request_codec(type_hint=list[str]) is StringRequestCodec


def test_a_logger_is_configured_beside_those_of_the_program(capsys) -> None:
    from mlserver import Settings
    from mlserver.logging import configure_logger, logger

    root, own, ours = logging.getLogger(), logging.NullHandler(), logging.getLogger("inferstream")
    levels = logger.level, ours.level
    before = [*root.handlers]
    root.addHandler(own)
    try:
        configure_logger(Settings(debug=True))
        assert configure_logger(Settings(use_structured_logging=True)) is logger
        assert root.handlers == [*before, own]
        assert logger.level == logging.INFO
        for each in (logger, ours):
            each.info("one line")
            assert json.loads(capsys.readouterr().out)["message"] == "one line"
    finally:
        root.removeHandler(own)
        for each, level in zip((logger, ours), levels, strict=True):
            each.handlers.clear()
            each.setLevel(level)


def test_where_a_server_writes_the_lines_already_none_is_written_twice() -> None:
    from mlserver.logging import configure_logger, logger

    from inferstream.telemetry.logs import LineFormatter

    root, handler = logging.getLogger(), logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    root.addHandler(handler)
    try:
        configure_logger()
        assert logger.handlers == []
    finally:
        root.removeHandler(handler)


def test_requests_and_responses_get_their_cloudevents() -> None:
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


async def test_a_stream_of_rpcs_ends_with_a_status() -> None:
    from mlserver.errors import MLServerError
    from mlserver.grpc.utils import handle_mlserver_stream_error

    class Context:
        async def abort(self, code: grpc.StatusCode, details: str) -> None:
            self.ended = (code, details)

    @handle_mlserver_stream_error
    async def rpc(self: object, requests: list[int], context: Context):
        yield requests[0]
        raise MLServerError("enough", 422)

    context = Context()
    assert [item async for item in rpc(None, [1], context)] == [1]
    assert context.ended == (grpc.StatusCode.FAILED_PRECONDITION, "enough")


async def test_an_error_becomes_a_response() -> None:
    from mlserver.errors import MLServerError
    from mlserver.rest.errors import handle_mlserver_error

    response = await handle_mlserver_error(None, MLServerError("no tea", 418))
    assert (response.status_code, response.body) == (418, b'{"error":"no tea"}')


def test_requests_are_batched_and_split() -> None:
    from mlserver.batching import BatchedRequests

    batched = BatchedRequests({"a": request_of(1, 2, id="1"), "b": request_of(3, id="2")})
    merged = batched.merged_request
    assert merged.inputs[0].shape == [3, 1]
    output = NumpyCodec.encode_output("y", NumpyCodec.decode_input(merged.inputs[0]) * 2)
    split = batched.split_response(InferenceResponse(model_name="m", outputs=[output]))
    assert [(name, found.id) for name, found in split.items()] == [("a", "1"), ("b", "2")]
    assert NumpyCodec.decode_output(split["b"].outputs[0]).tolist() == [[6]]


def test_a_shapes_first_dimension_is_its_rows() -> None:
    from mlserver.batching.shape import Shape

    shape = Shape([2, 3, 4])
    other = shape.copy()
    other.batch_size = 5
    assert (shape.batch_size, shape.elem_size, other.to_list()) == (2, 12, [5, 3, 4])


async def test_a_local_cache_forgets_the_first() -> None:
    from mlserver.cache import LocalCache

    cache = LocalCache(size=1)
    await cache.insert("a", "1")
    await cache.insert("b", "2")
    assert [await cache.lookup("a"), await cache.lookup("b"), await cache.size()] == ["", "2", 1]


async def test_a_folders_settings_are_loaded(tmp_path) -> None:
    from mlserver.cli.serve import load_settings

    (tmp_path / "settings.json").write_text(json.dumps({"http_port": 1}))
    (tmp_path / "model-settings.json").write_text(json.dumps({"name": "m", "implementation": "a.B"}))
    settings, models = await load_settings(str(tmp_path))
    assert (settings.http_port, [model.name for model in models]) == (1, ["m"])


def test_a_dockerfile_is_generated_and_written(tmp_path, monkeypatch) -> None:
    from mlserver.cli.build import generate_dockerfile, write_dockerfile

    monkeypatch.chdir(tmp_path)
    path = write_dockerfile(str(tmp_path), generate_dockerfile())
    assert (tmp_path / "Dockerfile").read_text().startswith("# Written by")
    assert path == str(tmp_path / "Dockerfile")


def test_codecs_are_found_and_registered_through_the_registry() -> None:
    from mlserver.codecs.base import _codec_registry, find_input_codec_by_payload

    class Own(StringCodec):
        ContentType = "test-names"

    _codec_registry.register_input_codec("test-names", Own)
    assert _codec_registry.find_input_codec(content_type="test-names") is Own
    assert find_input_codec_by_payload(["a"]) is StringCodec


def test_functions_take_what_mlservers_take() -> None:
    from mlserver import ModelSettings
    from mlserver.codecs import (
        decode_inference_request,
        decode_request_input,
        encode_inference_response,
        encode_response_output,
    )

    settings = ModelSettings(
        name="m", implementation="a.B", parameters={"content_type": "np", "version": "1"}
    )
    request = InferenceRequest(inputs=[RequestInput(**tensor("x", "INT32", [1, 2]))])
    assert decode_request_input(request.inputs[0]) is None
    assert decode_inference_request(request, settings, {}).tolist() == [1, 2]
    response = encode_inference_response(np.array([1]), settings)
    assert (response.model_name, response.model_version) == ("m", "1")
    assert encode_inference_response(object(), settings) is None
    assert encode_response_output(["a"], RequestOutput(name="y")).data.root == [b"a"]
    assert encode_response_output(object(), RequestOutput(name="y")) is None


def test_arrays_go_in_and_out_of_tensors() -> None:
    from mlserver.codecs.numpy import _encode_data, _to_ndarray, convert_nan, to_dtype

    assert _encode_data(np.array([[1.0, np.nan]]), "FP64") == [1.0, None]
    assert _encode_data(np.array(["a"]), "BYTES") == [b"a"]
    given = RequestInput(**tensor("x", "INT8", [1, 2], [2, 1]))
    assert _to_ndarray(given).tolist() == [[1], [2]]
    assert to_dtype(given) == np.int8
    assert (convert_nan(np.nan), convert_nan(1.5)) == (None, 1.5)
    assert to_dtype(RequestInput(**tensor("x", "BYTES", ["ab", "c"]))) == np.dtype(str)
    assert to_dtype(ResponseOutput(**tensor("x", "BYTES", [b"ab", b"cd"]))) == np.dtype("S2")
    assert to_dtype("BYTES") == np.dtype(object)


def test_only_a_list_is_more_than_one_element() -> None:
    from mlserver.codecs.lists import as_list
    from mlserver.types import TensorData

    data = TensorData(["a", "b"])
    assert [next(as_list(each)) for each in (["a"], "ab", b"ab", data)] == ["a", "ab", b"ab", data]


async def test_hashes_are_sha256(tmp_path) -> None:
    from mlserver.env import compute_hash_of_file, compute_hash_of_string

    (tmp_path / "file").write_bytes(b"abc")
    expected = hashlib.sha256(b"abc").hexdigest()
    assert await compute_hash_of_file(str(tmp_path / "file")) == expected
    assert await compute_hash_of_string("abc") == expected


def test_tensors_become_messages_and_come_back() -> None:
    from mlserver.grpc import converters
    from mlserver.grpc.dataplane_pb2 import ModelInferRequest, ModelInferResponse

    given = RequestInput(**tensor("x", "FP32", [1, 2], parameters={"content_type": "np"}))
    assert (
        converters.InferInputTensorConverter.to_types(converters.InferInputTensorConverter.from_types(given))
        == given
    )
    answered = ResponseOutput(**tensor("y", "BYTES", [b"a"]))
    assert (
        converters.InferOutputTensorConverter.to_types(
            converters.InferOutputTensorConverter.from_types(answered)
        )
        == answered
    )
    wanted = RequestOutput(name="y", parameters=Parameters(content_type="str"))
    assert (
        converters.InferRequestedOutputTensorConverter.to_types(
            converters.InferRequestedOutputTensorConverter.from_types(wanted)
        )
        == wanted
    )
    for converter, message in (
        (converters.InferInputTensorConverter, ModelInferRequest.InferInputTensor),
        (converters.InferOutputTensorConverter, ModelInferResponse.InferOutputTensor),
    ):
        # As in a message that has raw contents, which stand beside its tensors.
        bare = converter.to_types(message(name="y", datatype="FP16", shape=[2]))
        assert (bare.name, bare.datatype, bare.shape, bare.data.root) == ("y", "FP16", [2], [])
    contents = converters.InferTensorContentsConverter.from_types(answered.data, "BYTES")
    assert converters.InferTensorContentsConverter.to_types(contents).root == [b"a"]
    parameters = Parameters(content_type="str", free=1)
    assert (
        converters.ParametersConverter.to_types(converters.ParametersConverter.from_types(parameters))
        == parameters
    )


async def test_an_rpcs_errors_are_statuses() -> None:
    from mlserver.errors import MLServerError
    from mlserver.grpc.utils import handle_mlserver_error, to_metadata

    class Context:
        async def abort(self, code: grpc.StatusCode, details: str) -> None:
            self.ended = (code, details)

    @handle_mlserver_error
    async def rpc(self: object, request: Exception, context: Context) -> None:
        raise request

    for error, ended in {
        MLServerError(msg="gone", status_code=404): (grpc.StatusCode.NOT_FOUND, "gone"),
        ValueError("secret"): (grpc.StatusCode.INTERNAL, "The call failed."),
    }.items():
        context = Context()
        await rpc(None, error, context)
        assert context.ended == ended
    assert to_metadata({"X-A": "b"}) == (("x-a", "b"),)


def test_lines_name_the_model() -> None:
    from mlserver import Settings
    from mlserver.logging import ModelLoggerFormatter

    record = logging.LogRecord("mlserver", logging.INFO, "", 1, 'a "quote"', (), None)
    with model_context("m", "v"):
        assert "[mlserver][m:v] INFO - " in ModelLoggerFormatter(None).format(record)
        structured = ModelLoggerFormatter(Settings(use_structured_logging=True)).format(record)
    assert json.loads(structured)["message"] == 'a "quote"'


def test_registered_metrics_are_found_again() -> None:
    from mlserver.metrics import REGISTRY, log, register
    from mlserver.metrics.errors import InvalidModelContext, MetricNotFound

    metric = register("test_names_metric", "A metric")
    assert REGISTRY["test_names_metric"] is metric
    assert "test_names_metric" in REGISTRY
    with pytest.raises(MetricNotFound):
        REGISTRY.get("no_such_metric")
    with pytest.raises(InvalidModelContext):
        log(test_names_metric=1)


def test_metrics_can_be_read_as_prometheus_clients() -> None:
    from mlserver.metrics import REGISTRY, log
    from prometheus_client import REGISTRY as SHOWN
    from prometheus_client import Counter

    with model_context("m", "v"):
        log(test_names_read=2)
    labels = {"model_name": "m", "model_version": "v"}
    assert REGISTRY.get_sample_value("test_names_read_sum", labels) == 2
    counter = Counter("test_names_counted", "A counter", registry=REGISTRY)
    counter.inc()
    try:
        assert SHOWN.get_sample_value("test_names_counted_total") == 1
    finally:
        SHOWN.unregister(counter)


def test_middlewares_run_one_after_the_other() -> None:
    from mlserver.middleware import InferenceMiddleware, InferenceMiddlewares

    class Named(InferenceMiddleware):
        def __init__(self, name: str) -> None:
            self._name = name

        def request_middleware(self, request, model_settings):
            request.id = (request.id or "") + self._name
            return request

    both = InferenceMiddlewares(Named("a"), Named("b"))
    assert both.request_middleware(request_of(1), None).id == "ab"


def test_tensors_are_packed_and_unpacked() -> None:
    from mlserver.raw import extract_raw, inject_raw

    tensors, raw = extract_raw(
        [RequestInput(**tensor("x", "INT16", [1, 2])), RequestInput(**tensor("y", "BYTES", ["a"]))]
    )
    assert raw == [b"\x01\x00\x02\x00", b"\x01\x00\x00\x00a"]
    assert [len(given.data) for given in tensors] == [0, 0]
    assert [given.data.flat() for given in inject_raw(tensors, raw)] == [[1, 2], [b"a"]]


def test_events_and_responses_hold_arrays() -> None:
    from mlserver.rest.responses import Response, ServerSentEvent

    assert Response({"a": np.array([1])}).body == b'{"a":[1]}'
    event = ServerSentEvent(InferenceResponse(model_name="m", outputs=[])).encode()
    assert event == b'data: {"model_name":"m","outputs":[]}\n\n'


def test_settings_remember_their_file_and_dump_what_was_given(tmp_path) -> None:
    from mlserver import ModelSettings, Settings

    file = tmp_path / "model-settings.json"
    file.write_text(json.dumps({"implementation": "a.B"}))
    settings = ModelSettings.parse_file(str(file))
    assert settings.source == str(file)
    assert settings.dict() == {"implementation": "a.B"}
    assert ModelSettings.parse_obj({"implementation": "a.B", "_source": "/x"}).source == "/x"
    assert json.loads(Settings.parse_raw('{"http_port": 1}').json()) == {"http_port": 1}


def test_spans_go_to_the_processs_provider() -> None:
    from mlserver import Settings
    from mlserver.tracing import get_tracer_provider
    from opentelemetry import trace

    assert get_tracer_provider(Settings()) is trace.get_tracer_provider()


def test_coroutines_run_on_the_servers_loop() -> None:
    from mlserver.utils import AsyncManager, schedule_with_callback

    ended = []

    async def main() -> int:
        async def one() -> int:
            return 1

        task = schedule_with_callback(one(), ended.append)
        await task
        await asyncio.sleep(0)
        return await task

    assert AsyncManager().run(main()) == 1
    assert len(ended) == 1
