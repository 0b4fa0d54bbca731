"""A fake engine behind every API: text, usage, cancellation, loss, slow readers and limits."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
import websockets.sync.client

pytest.importorskip("tokenizers")

from inferstream.protos import dataplane_pb2 as pb
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.fake_engine import STORY, events, write_tokenizer
from tests.plugins.llm.engine.served import write_settings
from tests.serving import Running, eventually

ROOT = Path(__file__).parents[2]


class Fake:
    """A fake engine in its own process."""

    def __init__(
        self, folder: Path, *options: str, name: str = "engine", module: str = "tests.fake_engine"
    ) -> None:
        self.folder, self.control, self.address = folder, folder / f"{name}.control", f"unix:{folder}/{name}"
        tokenizer = folder / "tokenizer"
        if not tokenizer.exists():
            write_tokenizer(tokenizer)
        self.command = [
            *(sys.executable, "-m", module, self.address, str(tokenizer), str(self.control)),
            *options,
        ]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Fake":
        self.process = subprocess.Popen(self.command, cwd=ROOT)
        eventually(lambda: self.events("started"), 90)
        return self

    def events(self, *names: str) -> list[dict[str, Any]]:
        return events(self.control, *names)

    @contextmanager
    def set(self, name: str, text: str = "") -> Iterator[None]:
        path = self.control / name
        path.write_text(text)
        try:
            yield
        finally:
            path.unlink()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fake]:
    made = Fake(tmp_path_factory.mktemp("engine"), "--pace", "0.002", "--seqs", "3").start()
    yield made
    made.kill()


@pytest.fixture(scope="module")
def served(fake: Fake, workers: int) -> Iterator[Running]:
    folder = fake.folder / f"models{workers}"
    write_settings(folder / "llm", {"target": fake.address})
    running = Running(
        folder, within=90, INFERSTREAM_LOAD_REPORTS="asked", INFERSTREAM_PARALLEL_WORKERS=str(workers)
    )
    yield running
    assert running.stop() == 0, running.text()


PROMPT = "one two"
MESSAGES = [{"role": "user", "content": PROMPT}]
LONG = {"max_tokens": 400, "ignore_eos": True}


def over_http(path: str, text: Callable[[dict[str, Any]], str], **body: Any) -> Callable[..., Iterator[str]]:
    """Read a stream of events, or of lines, and close it when the reader does."""

    def read(server: Running, **more: Any) -> Iterator[str]:
        with httpx.Client(timeout=30) as client:
            with client.stream("POST", server.url + path, json=body | more) as response:
                assert response.status_code == 200, response.read()
                for line in response.iter_lines():
                    line = line.removeprefix("data:").strip()
                    if line.startswith("{"):
                        yield text(json.loads(line))

    return read


def over_websocket(server: Running, **more: Any) -> Iterator[str]:
    url = f"{server.url.replace('http', 'ws')}/v2/models/llm/stream"
    with websockets.sync.client.connect(url) as socket:
        tensor = {"name": "prompt", "shape": [1], "datatype": "BYTES", "data": [PROMPT]}
        socket.send(json.dumps({"inputs": [tensor], "parameters": more}))
        while True:
            message = json.loads(socket.recv(timeout=20))
            if "outputs" not in message:
                assert "error" not in message, message
                return
            yield message["outputs"][0]["data"][0]
            if message.get("parameters", {}).get("finish_reason"):
                return


def over_grpc(server: Running, **more: Any) -> Iterator[str]:
    request = pb.ModelInferRequest(model_name="llm")
    tensor = request.inputs.add(name="prompt", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(PROMPT.encode())
    for name, value in more.items():
        kind = {bool: "bool_param", int: "int64_param", str: "string_param"}.get(type(value), "double_param")
        setattr(request.parameters[name], kind, value)
    with grpc.insecure_channel(server.grpc) as channel:
        for response in GRPCInferenceServiceStub(channel).ModelStreamInfer(iter([request]), timeout=30):
            raw, contents = response.raw_output_contents, response.outputs[0].contents.bytes_contents
            yield (raw[0][4:] if raw else contents[0]).decode()


def first_choice(chunk: dict[str, Any]) -> str:
    if not chunk["choices"]:
        return ""
    choice = chunk["choices"][0]
    return (choice["delta"].get("content") if "delta" in choice else choice["text"]) or ""


def response_text(event: dict[str, Any]) -> str:
    return event["delta"] if event["type"] == "response.output_text.delta" else ""


def anthropic_text(event: dict[str, Any]) -> str:
    return event["delta"]["text"] if event["type"] == "content_block_delta" else ""


APIS: dict[str, Callable[..., Iterator[str]]] = {
    "sse": over_http("/v2/models/llm/generate_stream", lambda event: event["text"], prompt=PROMPT),
    "websocket": over_websocket,
    "grpc": over_grpc,
    "chat": over_http("/v1/chat/completions", first_choice, model="llm", messages=MESSAGES, stream=True),
    "completions": over_http("/v1/completions", first_choice, model="llm", prompt=PROMPT, stream=True),
    "responses": over_http("/v1/responses", response_text, model="llm", input=PROMPT, stream=True),
    "anthropic": over_http("/v1/messages", anthropic_text, model="llm", messages=MESSAGES, stream=True),
    "ollama": over_http("/api/chat", lambda line: line["message"]["content"], model="llm", messages=MESSAGES),
    "tgi": over_http("/generate_stream", lambda event: event["token"]["text"], inputs=PROMPT),
}


def options(api: str, tokens: int, endless: bool = False) -> dict[str, Any]:
    """The request fields for a number of tokens."""
    ignores = {"ignore_eos": True} if endless else {}
    match api:
        case "responses":
            return {"max_output_tokens": tokens, **ignores}
        case "ollama":
            return {"options": {"num_predict": tokens, **ignores}}
        case "tgi":
            return {"parameters": {"max_new_tokens": tokens, **ignores}}
        case _:
            return {"max_tokens": tokens, **ignores}


EACH = pytest.mark.parametrize("api", APIS)


@EACH
def test_every_api_has_whole_text(served: Running, fake: Fake, api: str) -> None:
    found = [*APIS[api](served, **options(api, 100))]
    assert "".join(found).replace("</s>", "") == STORY
    assert len(found) > 10
    asked = fake.events("generate")[-1]
    assert (asked["max_tokens"], asked["stream"]) == (100, True)


@pytest.fixture(scope="module", params=["vllm.inference", "openengine"])
def inference(
    tmp_path_factory: pytest.TempPathFactory, workers: int, request: pytest.FixtureRequest
) -> Iterator[tuple[Fake, Running]]:
    """An engine with another protocol, which aborts requests, and a server in front of it."""
    folder = tmp_path_factory.mktemp("inference")
    module = "tests.fake_inference" if request.param == "vllm.inference" else "tests.fake_openengine"
    engine = Fake(folder, "--pace", "0.002", module=module).start()
    extra = {"protocol": request.param, "target": engine.address, "tokenizer": str(folder / "tokenizer")}
    write_settings(folder / "models" / "llm", extra)
    running = Running(folder / "models", within=90, INFERSTREAM_PARALLEL_WORKERS=str(workers))
    yield engine, running
    assert running.stop() == 0, running.text()
    engine.kill()


@EACH
def test_every_api_over_the_other_protocol(inference: tuple[Fake, Running], api: str) -> None:
    engine, server = inference
    assert "".join(APIS[api](server, **options(api, 100))).replace("</s>", "") == STORY
    before = len(engine.events("aborted"))
    with engine.set("hang", "9"):
        reading = APIS[api](server, **options(api, 100))
        while not next(reading):
            pass
        reading.close()  # type: ignore[attr-defined]
        eventually(lambda: len(engine.events("aborted")) > before)


@EACH
def test_reader_that_leaves_cancels_at_engine(served: Running, fake: Fake, api: str) -> None:
    before = len(fake.events("cancelled"))
    with fake.set("hang", "9"):
        reading = APIS[api](served, **options(api, 100))
        while not next(reading):
            pass
        reading.close()  # type: ignore[attr-defined]
        eventually(lambda: len(fake.events("cancelled")) > before)


def test_single_response_over_rest(served: Running) -> None:
    tensor = {"name": "prompt", "shape": [1], "datatype": "BYTES", "data": [PROMPT]}
    answer = served.infer("llm", {"inputs": [tensor], "parameters": {"max_tokens": 100}}).json()
    assert answer["outputs"][0]["data"] == [STORY]
    assert answer["parameters"]["cached_tokens"] == 3


def test_usage_has_cached_tokens(served: Running) -> None:
    body = {"model": "llm", "messages": MESSAGES, "max_tokens": 100}
    usage = httpx.post(f"{served.url}/v1/chat/completions", json=body, timeout=20).json()["usage"]
    assert usage["prompt_tokens_details"] == {"cached_tokens": 3}
    answered = httpx.post(f"{served.url}/v1/messages", json=body, timeout=20).json()["usage"]
    assert answered["cache_read_input_tokens"] == 3
    assert answered["input_tokens"] == usage["prompt_tokens"] - 3
    body = {"model": "llm", "input": PROMPT, "max_output_tokens": 100}
    used = httpx.post(f"{served.url}/v1/responses", json=body, timeout=20).json()["usage"]
    assert used["input_tokens_details"]["cached_tokens"] == 3


def test_several_completions_are_several_calls(served: Running, fake: Fake) -> None:
    before = len(fake.events("generate"))
    body = {"model": "llm", "prompt": PROMPT, "n": 2, "seed": 4, "max_tokens": 100}
    choices = httpx.post(f"{served.url}/v1/completions", json=body, timeout=20).json()["choices"]
    assert [each["text"] for each in choices] == [STORY, STORY]
    assert sorted(each["seed"] for each in fake.events("generate")[before:]) == [4, 5]


def test_stop_string_ends_text_and_call(served: Running, fake: Fake) -> None:
    """The string is split over tokens."""
    before = len(fake.events("cancelled"))
    body = {"model": "llm", "prompt": PROMPT, "stop": ["naïve 日本"], "max_tokens": 400}
    answer = httpx.post(f"{served.url}/v1/completions", json=body, timeout=20).json()
    assert answer["choices"][0]["text"] == STORY.partition("naïve 日本")[0]
    assert answer["choices"][0]["finish_reason"] == "stop"
    eventually(lambda: len(fake.events("cancelled")) > before)


def test_options_are_refused_by_name(served: Running) -> None:
    cases = [
        ("/v1/completions", {"prompt": PROMPT, "bad_words": ["x"]}, "bad_words"),
        ("/v1/chat/completions", {"messages": MESSAGES, "allowed_token_ids": [1]}, "allowed_token_ids"),
        ("/v1/completions", {"prompt": "one " * 600}, "maximum context length is 512"),
        ("/v1/completions", {"prompt": PROMPT, "lora": "tuned"}, "lora"),
    ]
    for path, body, named in cases:
        answer = httpx.post(served.url + path, json={"model": "llm", **body}, timeout=20)
        assert answer.status_code == 400, answer.text
        assert named in answer.text
    adapter = httpx.post(
        f"{served.url}/v1/completions", json={"model": "tuned", "prompt": PROMPT}, timeout=20
    )
    assert adapter.status_code == 404


def test_deadline_cancels_at_engine(served: Running, fake: Fake) -> None:
    before = len(fake.events("cancelled"))
    with fake.set("hang"):
        answer = served.infer("llm", {"prompt": PROMPT}, "generate", headers={"x-request-timeout": "0.2"})
        assert answer.status_code == 504, answer.text
        eventually(lambda: len(fake.events("cancelled")) > before)


def test_load_of_engine_is_reported(served: Running) -> None:
    load = eventually(lambda: _kv(served))
    assert load == 0.25
    assert "inferstream_kv_usage 0.25" in httpx.get(f"{served.url}/metrics/load").text
    headers = {"endpoint-load-metrics-format": "json"}
    tensor = {"name": "prompt", "shape": [1], "datatype": "BYTES", "data": [PROMPT]}
    answer = served.infer("llm", {"inputs": [tensor], "parameters": {"max_tokens": 1}}, headers=headers)
    named = json.loads(answer.headers["endpoint-load-metrics"].removeprefix("JSON "))["named_metrics"]
    assert named["kv_cache_usage_perc"] == 0.25


def _kv(server: Running) -> float:
    return float(httpx.get(f"{server.url}/v2/load").json()["kv_usage"])


def test_metrics_have_names_of_language_runtimes(served: Running) -> None:
    labels = {"model": "llm", "version": ""}
    before = served.metric("inferstream_output_tokens_total", **labels)
    prompts = served.metric("inferstream_input_tokens_total", **labels)
    firsts = served.metric("inferstream_time_to_first_item_seconds_count", **labels)
    [*APIS["sse"](served, max_tokens=7, ignore_eos=True)]
    eventually(lambda: served.metric("inferstream_output_tokens_total", **labels) == before + 7)
    assert served.metric("inferstream_input_tokens_total", **labels) > prompts
    assert served.metric("inferstream_time_to_first_item_seconds_count", **labels) == firsts + 1


def test_slow_reader_does_not_hold_up_others(served: Running, fake: Fake) -> None:
    """A reader that reads nothing stops its stream at the engine, after a bounded number of tokens."""
    with socket.create_connection(("127.0.0.1", served.http_port)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        body = json.dumps({"prompt": PROMPT, **LONG}).encode()
        head = f"POST /v2/models/llm/generate_stream HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(body)}\r\n\r\n"
        slow.sendall(head.encode() + body)
        slow.recv(10)
        assert "".join(APIS["sse"](served, max_tokens=100)) == STORY


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Fake]:
    made = Fake(tmp_path, "--pace", "0.002")
    yield made
    made.kill()


@EACH
def test_every_api_continues_after_loss(own: Fake, api: str) -> None:
    """The first engine dies within the text, and the second one ends it."""
    other = Fake(own.folder, "--pace", "0.002", name="other").start()
    own.start()
    (own.control / "die").write_text("20")
    folder = own.folder / "models"
    write_settings(folder / "llm", {"target": [own.address, other.address], "sampling": {"temperature": 0}})
    running = Running(folder, within=90)
    try:
        while not own.events("generate"):  # the other one may be picked first
            assert "".join(APIS[api](running, **options(api, 100))).replace("</s>", "") == STORY
        assert own.process is not None
        assert own.process.wait(20) == 9
    finally:
        other.kill()
        assert running.stop() == 0, running.text()


def test_sampled_text_that_continues_is_announced(own: Fake) -> None:
    """Each API adds a field to an event, which clients that do not know it ignore."""
    own.start()
    write_settings(own.folder / "models" / "llm", {"target": own.address, "failover": "always"})
    running = Running(own.folder / "models", within=90)
    streamed = {"model": "llm", "stream": True, "max_tokens": 100}
    paths: dict[str, dict[str, Any]] = {
        "/v2/models/llm/generate_stream": {"prompt": PROMPT, "max_tokens": 100},
        "/v1/chat/completions": {"messages": MESSAGES, **streamed},
        "/v1/messages": {"messages": MESSAGES, **streamed},
        "/api/generate": {"model": "llm", "prompt": PROMPT},
    }
    try:
        for path, body in paths.items():
            (own.control / "abort").write_text("20")
            objects = []
            with httpx.stream("POST", running.url + path, json=body, timeout=60) as response:
                for line in response.iter_lines():
                    if line.removeprefix("data: ").startswith("{"):
                        objects.append(json.loads(line.removeprefix("data: ")))
            assert [each["resumed"] for each in objects if "resumed" in each] == [True], path
    finally:
        assert running.stop() == 0, running.text()


def test_model_is_unready_without_engine_and_recovers(own: Fake) -> None:
    own.start()
    folder = own.folder / "models"
    write_settings(folder / "llm", {"target": own.address, "failover": "off"})
    running = Running(folder, within=90)
    try:
        ready = f"{running.url}/v2/models/llm/ready"
        assert httpx.get(ready).status_code == 200
        reading = APIS["sse"](running, max_tokens=400, ignore_eos=True)
        next(reading)
        own.kill()
        with pytest.raises(KeyError):  # the last event has an error and no text
            list(reading)
        eventually(lambda: httpx.get(ready).status_code != 200)
        assert running.infer("llm", {"prompt": PROMPT}, "generate").status_code == 503
        own.start()
        eventually(lambda: httpx.get(ready).status_code == 200)
        assert "".join(APIS["sse"](running, max_tokens=100)) == STORY
    finally:
        assert running.stop() == 0, running.text()


def started(own: Fake, workers: int = 0) -> Running:
    """A server that starts its engine."""
    extra = {"target": own.address, "command": own.command, "environment": {"PYTHONPATH": str(ROOT)}}
    write_settings(own.folder / "models" / "llm", extra)
    return Running(own.folder / "models", within=90, INFERSTREAM_PARALLEL_WORKERS=str(workers))


def test_engine_stops_with_server(own: Fake, workers: int) -> None:
    """Several workers share one engine."""
    running = started(own, workers)
    assert "".join(APIS["sse"](running, max_tokens=100)) == STORY
    [pid] = [each["pid"] for each in own.events("started")]
    assert running.stop() == 0, running.text()
    assert not Path(f"/proc/{pid}").exists()


def test_killed_server_leaves_no_engine(own: Fake) -> None:
    running = started(own)
    [pid] = [each["pid"] for each in own.events("started")]
    os.kill(running.process.pid, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{pid}").exists())
    with suppress(Exception):
        running.process.wait(5)


def test_drain_lets_streams_end(own: Fake) -> None:
    running = started(own)
    reading = APIS["sse"](running, max_tokens=100)
    first = next(reading)
    running.begin_stop()
    assert first + "".join(reading) == STORY
    assert running.stop() == 0, running.text()
