"""Spans as a collector receives them, over the protocol that collectors speak."""

import json
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
from websockets.sync.client import connect

from inferstream.protos import dataplane_pb2 as messages
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests import grpc_web
from tests.collector import Collector
from tests.serving import Running, eventually, text, write_model
from tests.texts import write_text_model

CODE = """
import logging
from opentelemetry import trace
from inferstream import MLModel, Token, Usage, custom_handler, request_context
from inferstream.types import InferenceResponse, ResponseOutput

tracer = trace.get_tracer("model")

def word(model, text):
    output = ResponseOutput(name="w", shape=[1], datatype="BYTES", data=[text])
    return InferenceResponse(model_name=model.name, outputs=[output])

class Predicting(MLModel):
    async def predict(self, payload):
        with tracer.start_as_current_span("in the model"):
            if payload.inputs[0].data[0] in ("fail", b"fail"):
                raise ValueError("secret")
            return word(self, "done")

class Logging(Predicting):
    async def predict(self, payload):
        logging.getLogger("inferstream.mine").info("asked")
        return word(self, "done")

class Chat(MLModel):
    async def predict(self, payload):
        return Token("done", usage=Usage(3, 4))

class Blocking(MLModel):
    def predict(self, payload):
        with tracer.start_as_current_span("in a thread"):
            return word(self, "done")

class Calling(MLModel):
    async def predict(self, payload):
        await request_context().models.predicting(x="hi")
        async for each in request_context().models.streaming(x="hi"):
            pass
        return word(self, "done")

class Routed(Predicting):
    @custom_handler("/own/route", rest_method="GET")
    async def own(self) -> str:
        with tracer.start_as_current_span("in a route"):
            return "answered"

class Streaming(MLModel):
    async def predict_stream(self, payloads):
        async for payload in payloads:
            yield word(self, "one")
            with tracer.start_as_current_span("between"):
                yield word(self, "two")
            if payload.inputs[0].data[0] in ("fail", b"fail"):
                raise ValueError("secret")
"""

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TRACE, SPAN = PARENT.split("-")[1:3]
ERROR = 2


def attributes(span) -> dict:
    return {pair.key: _value(pair.value) for pair in span.attributes}


LATENCY = "gen_ai.latency."


def latencies(span) -> dict[str, float]:
    """The seconds that a span has by stage."""
    found = attributes(span)
    return {name.removeprefix(LATENCY): found[name] for name in found if name.startswith(LATENCY)}


def others(span) -> dict:
    return {name: value for name, value in attributes(span).items() if not name.startswith(LATENCY)}


def _value(value) -> object:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


@pytest.fixture
def separate_collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def traced(workers: int, collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("traced") / "models"
    for name in ("Predicting", "Blocking", "Streaming", "Routed", "Logging"):
        write_model(folder, name.lower(), f"model.{name}", CODE, parameters={"version": "1"})
    write_model(folder, "calling", "model.Calling", CODE, calls=["predicting", "streaming"])
    write_text_model(folder, "tokens")
    words = {"datatype": "BYTES", "shape": [1]}
    chat = {"inputs": [{"name": "messages", **words}], "outputs": [{"name": "w", **words}]}
    write_model(folder, "chat", "model.Chat", CODE, **chat)
    settings = {
        "server_name": "shop",
        "server_version": "7",
        "tracing_server": f"127.0.0.1:{collector.port}",
        "parallel_workers": workers,
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder, OTEL_BSP_SCHEDULE_DELAY="50")
    yield running
    assert running.stop() == 0, running.text()


_traces = iter(range(1, 1000))


def fresh() -> tuple[str, dict]:
    """A trace nobody else has, and the header that says so."""
    trace = f"{next(_traces):032x}"
    return trace, {"traceparent": f"00-{trace}-{SPAN}-01"}


def request(said: str = "hi") -> dict:
    return {"id": "id-1", "inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": [said]}]}


def message(model: str, said: bytes = b"hi"):
    made = messages.ModelInferRequest(model_name=model)
    made.inputs.add(name="x", datatype="BYTES", shape=[1]).contents.bytes_contents.append(said)
    return made


def test_request_is_span_in_client_trace(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    assert traced.infer("predicting", request(), headers=header).status_code == 200
    door = collector.one("POST /v2/models/{model_name}/infer", trace)
    call = collector.one("infer predicting", trace)
    own = collector.one("in the model", trace)
    assert door.parent_span_id.hex() == SPAN
    assert (call.parent_span_id, own.parent_span_id) == (door.span_id, call.span_id)
    found = others(door)
    assert found.pop("user_agent.original").startswith("python-httpx/")
    assert found == {
        "http.request.method": "POST",
        "http.route": "/v2/models/{model_name}/infer",
        "http.response.status_code": 200,
        "url.path": "/v2/models/predicting/infer",
        "url.scheme": "http",
        "server.address": "127.0.0.1",
        "server.port": traced.http_port,
    }
    assert others(call) == {
        "model.name": "predicting",
        "model.version": "1",
        "request.id": "id-1",
        "call.end": "success",
    }
    found = latencies(call)
    assert latencies(door) == found
    assert found.keys() == {"e2e", "time_in_queue", "time_in_model_inference"}
    assert found["time_in_queue"] == 0 < found["time_in_model_inference"] == found["e2e"]
    assert door.status.code == call.status.code == 0
    assert {(found["service.name"], found["service.version"]) for found in collector.resources} == {
        ("shop", "7")
    }


def test_grpc_web_call_is_one_rpc_span(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    found = grpc_web.call(traced.url, "ModelInfer", message("predicting").SerializeToString(), **header)
    assert found.status == 0
    door = collector.one("inference.GRPCInferenceService/ModelInfer", trace)
    assert door.parent_span_id.hex() == SPAN
    assert collector.one("infer predicting", trace).parent_span_id == door.span_id


def test_inner_call_is_child_span(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    assert traced.infer("calling", request(), headers=header).status_code == 200
    call = collector.one("infer calling", trace)
    inner = collector.one("infer predicting", trace)
    assert (inner.parent_span_id, collector.one("stream streaming", trace).parent_span_id) == (
        call.span_id,
    ) * 2
    assert collector.one("in the model", trace).parent_span_id == inner.span_id


def test_thread_code_is_in_trace(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    assert traced.infer("blocking", request(), headers=header).status_code == 200
    call = collector.one("infer blocking", trace)
    assert collector.one("in a thread", trace).parent_span_id == call.span_id


def test_failure_is_an_error_without_message(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    assert traced.infer("predicting", request("fail"), headers=header).status_code == 500
    for name in ("POST /v2/models/{model_name}/infer", "infer predicting"):
        span = collector.one(name, trace)
        assert span.status.code == ERROR
        assert attributes(span).get("error.type") == ("500" if name.startswith("POST") else None)
        assert "secret" not in span.status.message
    assert latencies(collector.one("infer predicting", trace)).keys() == {"e2e"}
    trace, header = fresh()
    assert traced.infer("nobody", request(), headers=header).status_code == 404
    door = collector.one("POST /v2/models/{model_name}/infer", trace)
    assert (door.status.code, attributes(door)["http.response.status_code"]) == (0, 404)


def test_resumed_and_released_streams_are_spans(traced: Running, collector: Collector) -> None:
    url = f"{traced.url}/v2/models/streaming/generate_stream"
    template = "/v2/models/{model_name}/generate_stream"
    trace, header = fresh()
    found = httpx.get(f"{url}?x=hi", headers={**header, "accept": "text/event-stream"}, timeout=20)
    assert found.status_code == 200, found.text
    door = collector.one(f"GET {template}", trace)
    assert door.parent_span_id.hex() == SPAN
    assert attributes(door)["http.response.status_code"] == 200
    assert collector.one("stream streaming", trace).parent_span_id == door.span_id
    trace, header = fresh()
    assert httpx.delete(url, headers={**header, "last-event-id": "0.none:1"}).status_code == 410
    assert attributes(collector.one(f"DELETE {template}", trace))["http.response.status_code"] == 410


def test_stream_spans_end_with_stream(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    assert traced.infer("streaming", request(), "infer_stream", headers=header).text.count("data:") == 2
    door = collector.one("POST /v2/models/{model_name}/infer_stream", trace)
    call = collector.one("stream streaming", trace)
    between = collector.one("between", trace)
    assert between.parent_span_id == call.span_id
    assert [event.name for event in call.events] == ["first response"]
    assert call.start_time_unix_nano <= call.events[0].time_unix_nano <= call.end_time_unix_nano
    assert between.end_time_unix_nano <= call.end_time_unix_nano <= door.end_time_unix_nano
    assert attributes(call)["call.end"] == "success"
    assert latencies(door) == latencies(call)
    assert 0 < latencies(call)["time_to_first_token"] < latencies(call)["e2e"]


def test_failing_stream_is_an_error(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    assert "event: error" in traced.infer("streaming", request("fail"), "infer_stream", headers=header).text
    for name in ("POST /v2/models/{model_name}/infer_stream", "stream streaming"):
        assert collector.one(name, trace).status.code == ERROR


def test_disconnect_is_not_an_error(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    with httpx.stream(
        "POST", f"{traced.url}/v2/models/streaming/infer_stream", json=request("fail"), headers=header
    ) as stream:
        next(stream.iter_lines())
    assert collector.one("stream streaming", trace)


def test_unary_and_streaming_rpcs_are_spans(traced: Running, collector: Collector) -> None:
    with grpc.insecure_channel(traced.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        trace, header = fresh()
        stub.ModelInfer(message("predicting"), metadata=[*header.items()], timeout=10)
        door = collector.one("inference.GRPCInferenceService/ModelInfer", trace)
        call = collector.one("infer predicting", trace)
        assert door.parent_span_id.hex() == SPAN
        assert call.parent_span_id == door.span_id
        assert others(door) == {
            "rpc.system.name": "grpc",
            "rpc.method": "inference.GRPCInferenceService/ModelInfer",
            "rpc.response.status_code": "OK",
        }
        assert latencies(door) == latencies(call) != {}
        trace, header = fresh()
        with pytest.raises(grpc.RpcError):
            stub.ModelInfer(message("nobody"), metadata=[*header.items()], timeout=10)
        refused = collector.one("inference.GRPCInferenceService/ModelInfer", trace)
        # A client's mistake is no error of the server.
        assert (refused.status.code, attributes(refused)["rpc.response.status_code"]) == (0, "NOT_FOUND")
        trace, header = fresh()
        with pytest.raises(grpc.RpcError):
            stub.ModelInfer(message("predicting", b"fail"), metadata=[*header.items()], timeout=10)
        failed = collector.one("inference.GRPCInferenceService/ModelInfer", trace)
        assert (failed.status.code, attributes(failed)["error.type"]) == (ERROR, "INTERNAL")

        trace, header = fresh()
        answers = [
            *stub.ModelStreamInfer(
                iter([message("streaming"), message("streaming")]), metadata=[*header.items()], timeout=10
            )
        ]
        assert len(answers) == 4
        door = collector.one("inference.GRPCInferenceService/ModelStreamInfer", trace)
        call = collector.one("stream streaming", trace)
        assert call.parent_span_id == door.span_id
        eventually(lambda: len(collector.named("between", trace)) == 2)
        assert {span.parent_span_id for span in collector.named("between", trace)} == {call.span_id}


def test_each_websocket_request_is_a_span(traced: Running, collector: Collector) -> None:
    before = len(collector.named("stream streaming"))
    with connect(f"{traced.url.replace('http', 'ws')}/v2/models/streaming/stream") as line:
        for number in ("1", "2"):
            line.send(json.dumps({**request(), "id": number}))
        for _ in range(6):
            line.recv(10)
    eventually(lambda: len(collector.named("stream streaming")) == before + 2)


def test_other_requests_are_spans_except_health(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    httpx.get(f"{traced.url}/v2/health/ready", headers=header)
    httpx.get(f"{traced.url}/metrics", headers=header)
    with grpc.insecure_channel(traced.grpc) as channel:
        stub = GRPCInferenceServiceStub(channel)
        stub.ServerReady(messages.ServerReadyRequest(), metadata=[*header.items()], timeout=10)
        stub.ServerMetadata(messages.ServerMetadataRequest(), metadata=[*header.items()], timeout=10)
    assert httpx.get(f"{traced.url}/v2/models/predicting", headers=header).status_code == 200
    collector.one("GET /v2/models/{name}", trace)
    names = {span.name for span in collector.spans if span.trace_id.hex() == trace}
    assert names == {"GET /v2/models/{name}", "inference.GRPCInferenceService/ServerMetadata"}


def test_text_model_span_has_usage(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    body = {
        "model": "tokens",
        "messages": [{"role": "user", "content": "one two"}],
        "max_completion_tokens": 50,
        "temperature": 0.5,
        "stream": True,
    }
    found = httpx.post(f"{traced.url}/v1/chat/completions", json=body, headers=header, timeout=20)
    assert found.status_code == 200
    span = others(collector.one("stream tokens", trace))
    assert {name: value for name, value in span.items() if name.startswith("gen_ai.")} == {
        "gen_ai.operation.name": "text_completion",
        "gen_ai.provider.name": "inferstream",
        "gen_ai.request.model": "tokens",
        "gen_ai.response.model": "tokens",
        "gen_ai.request.stream": True,
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 101,
        "gen_ai.response.finish_reasons": ["stop"],
    }
    assert span["call.end"] == "success"
    trace, header = fresh()
    chat = {"inputs": [{"name": "messages", "datatype": "BYTES", "shape": [1], "data": ["[]"]}]}
    assert traced.infer("chat", chat, headers=header).status_code == 200
    span = attributes(collector.one("infer chat", trace))
    assert span["gen_ai.operation.name"] == "chat"
    assert span["gen_ai.usage.input_tokens"] == 3
    trace, header = fresh()
    assert traced.infer("predicting", request(), headers=header).status_code == 200
    assert not any("gen_ai" in name for name in others(collector.one("infer predicting", trace)))


@pytest.mark.parametrize(("suffix", "name"), [("", "text_completion tokens"), ("/dup", "stream tokens")])
def test_opt_in_selects_new_span_names(
    tmp_path: Path, separate_collector: Collector, serve, suffix: str, name: str
) -> None:
    folder = tmp_path / "models"
    write_text_model(folder, "tokens")
    (folder / "settings.json").write_text(
        json.dumps({"tracing_server": f"127.0.0.1:{separate_collector.port}"})
    )
    opt_in = f"gen_ai_latest_experimental{suffix}"
    running = serve(folder, OTEL_BSP_SCHEDULE_DELAY="20", OTEL_SEMCONV_STABILITY_OPT_IN=opt_in)
    trace, header = fresh()
    body = {"model": "tokens", "prompt": "one two", "stream": True}
    assert httpx.post(f"{running.url}/v1/completions", json=body, headers=header, timeout=20).is_success
    span = separate_collector.one(name, trace)
    assert attributes(span)["gen_ai.response.time_to_first_chunk"] == latencies(span)["time_to_first_token"]


def test_log_lines_contain_span(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    found = traced.infer("logging", request(), headers={**header, "X-Request-Id": "id-1"})
    assert found.status_code == 200
    span = collector.one("infer logging", trace)
    end = f"[trace_id={trace} span_id={span.span_id.hex()} request_id=id-1]"
    eventually(lambda: f"INFO - asked {end}\n" in traced.text())


def test_custom_route_is_in_trace(traced: Running, collector: Collector) -> None:
    trace, header = fresh()
    assert httpx.get(f"{traced.url}/own/route", headers=header).json() == "answered"
    door = collector.one("GET /own/route", trace)
    assert door.parent_span_id.hex() == SPAN
    assert collector.one("in a route", trace).parent_span_id == door.span_id
    assert {span.name for span in collector.spans if span.trace_id.hex() == trace} == {
        "GET /own/route",
        "in a route",
    }


def test_disabled_tracing_creates_nothing(tmp_path: Path, serve) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo")
    running = serve(folder, PYTHONPROFILEIMPORTTIME="1")
    assert running.infer("echo", text()).status_code == 200
    assert "inferstream.telemetry.metrics" in running.text()
    assert "opentelemetry.sdk" not in running.text()


def test_missing_collector_only_logs_one_line(tmp_path: Path, serve) -> None:
    folder = tmp_path / "models"
    write_model(folder, "predicting", "model.Predicting", CODE)
    (folder / "settings.json").write_text('{"tracing_server": "127.0.0.1:1"}')
    running = serve(folder, OTEL_BSP_SCHEDULE_DELAY="20")
    assert running.infer("predicting", request()).status_code == 200
    eventually(lambda: "127.0.0.1:1" in running.text().partition("gRPC ")[2])
    assert running.stop() == 0
