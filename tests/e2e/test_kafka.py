"""Requests by Kafka, answered once at least, whatever becomes of server and broker."""

import asyncio
import hashlib
import json
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker import Broker, Endpoint, next_group
from tests.collector import Collector
from tests.serving import Running, eventually, fp32, tensor, text


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    started = Broker()
    yield started
    started.stop()


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def endpoint(workers: int, broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    started = Endpoint(tmp_path_factory.mktemp("kafka"), broker, workers, kafka_max_in_flight=4)
    yield started
    assert started.running.stop() == 0, started.running.text()


async def test_response_has_key_of_request(endpoint: Endpoint) -> None:
    await endpoint.send(("one", fp32([1.0, 2.0], id="other"), "echo"))
    record = (await endpoint.broker.received(endpoint.answered, ["one"]))["one"]
    answer = json.loads(record.value)
    assert (answer["id"], answer["model_name"]) == ("one", "echo")
    assert answer["outputs"][0]["data"] == [1.0, 2.0]
    headers = {name: value.decode() for name, value in record.headers}
    assert headers["Ce-Type"] == "io.seldon.serving.inference.response"
    assert (headers["Ce-Id"], headers["Ce-Modelid"], headers["Ce-Inferenceservicename"]) == (
        "one",
        "echo",
        "shop",
    )


async def test_model_headers_are_message_headers(endpoint: Endpoint) -> None:
    own = json.dumps({"x-own": "yes"})
    await endpoint.send(("headed", text(parameters={"set": own}), "headed"))
    record = (await endpoint.broker.received(endpoint.answered, ["headed"]))["headed"]
    assert dict(record.headers)["x-own"] == b"yes"


async def test_invalid_messages_get_error_responses(endpoint: Endpoint) -> None:
    good = json.dumps(fp32([1.0])).encode()
    wrong = {
        "no model": (good, {}, "invalid"),
        "unknown model": (good, {"mlserver-model": "nobody"}, "not_found"),
        "unknown version": (good, {"mlserver-model": "echo", "mlserver-version": "9"}, "not_found"),
        "another method": (good, {"mlserver-model": "echo", "mlserver-method": "train"}, "unsupported"),
        "no JSON": (b"{", {"mlserver-model": "echo"}, "invalid"),
        "nothing": (b"", {"mlserver-model": "echo"}, "invalid"),
        "no request": (b"[]", {"mlserver-model": "echo"}, "invalid"),
        "too large": (b" " * (2**20 + 1), {"mlserver-model": "echo"}, "too_large"),
        "a failing model": (good, {"mlserver-model": "failing"}, "internal"),
    }
    await endpoint.broker.send(
        endpoint.asked, *((key, value, headers) for key, (value, headers, _) in wrong.items())
    )
    await endpoint.broker.send(
        endpoint.asked, ("ours", good, {"inferstream-model": "echo", "mlserver-model": "x"})
    )
    answers = await endpoint.answers(*wrong, "ours")
    for key, (_, _, code) in wrong.items():
        assert (answers[key]["code"], answers[key]["id"]) == (code, key)
        assert "canary" not in answers[key]["error"]
    assert answers["ours"]["outputs"]
    assert "nobody not found" in endpoint.running.text()


async def test_message_authenticates_with_header(broker: Broker, tmp_path: Path) -> None:
    key = f"ifs_kafka_{secrets.token_urlsafe(32)}"
    entry = {"id": "kafka", "principal": "k", "sha256": hashlib.sha256(key.encode()).hexdigest()}
    rights = {"scopes": ["infer"], "models": ["echo"], "limits": {"bytes_per_second": 1}}
    (tmp_path / "keys.json").write_text(json.dumps({"version": 1, "keys": [entry | rights]}))
    own = {"keys_file": str(tmp_path / "keys.json"), "audit_log": str(tmp_path / "audit.jsonl")}
    endpoint = Endpoint(tmp_path, broker, **own)
    good, echo = json.dumps(fp32([1.0])).encode(), {"mlserver-model": "echo"}
    cases = {
        "no key": (echo, "unauthenticated"),
        "wrong": (echo | {"X-API-Key": "wrong"}, "unauthenticated"),
        "another model": ({"mlserver-model": "slow", "x-api-key": key}, "permission_denied"),
        "right": (echo | {"Authorization": f"Bearer {key}"}, None),
        "too much": (echo | {"x-api-key": key}, "limit_exceeded"),
    }
    await broker.send(endpoint.asked, *((name, good, headers) for name, (headers, _) in cases.items()))
    answers = await endpoint.answers(*cases)
    assert {name: answers[name].get("code") for name in cases} == {
        name: code for name, (_, code) in cases.items()
    }
    assert endpoint.running.stop() == 0, endpoint.running.text()
    lines = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert sorted(line["status"] for line in lines) == [200, 401, 401, 403, 429]
    assert {line["door"] for line in lines} == {"kafka"}
    assert key not in endpoint.running.text() + (tmp_path / "audit.jsonl").read_text()


async def test_concurrency_is_limited(endpoint: Endpoint) -> None:
    keys = [f"slow-{number}" for number in range(12)]
    await endpoint.send(*((key, text(parameters={"seconds": 0.2}), "slow") for key in keys))
    most = 0.0
    answers = asyncio.create_task(endpoint.answers(*keys))
    while not answers.done():
        most = max(most, endpoint.running.metric("inferstream_calls_in_progress", model="slow"))
        await asyncio.sleep(0.01)
    assert set(await answers) == set(keys)
    assert 1 <= most <= 4


async def test_messages_in_progress_are_committed_on_stop(
    tmp_path: Path, broker: Broker, collector: Collector
) -> None:
    endpoint = Endpoint(tmp_path, broker, tracing_server=f"127.0.0.1:{collector.port}")
    await endpoint.send(("before", fp32([1.0]), "echo"), ("last", text(parameters={"seconds": 1}), "slow"))
    eventually(lambda: endpoint.running.noted("start last"), 30)
    assert endpoint.running.stop() == 0, endpoint.running.text()
    assert (await endpoint.answers("last"))["last"]["outputs"]
    assert await broker.committed(endpoint.asked, endpoint.name) == 2
    spans = {span.name: span for span in collector.spans}  # all of them are sent before the server ends
    assert spans["infer slow"].parent_span_id in {
        span.span_id for span in collector.named(f"process {endpoint.asked}")
    }


async def test_messages_without_response_are_not_committed(tmp_path: Path, broker: Broker) -> None:
    endpoint = Endpoint(tmp_path, broker)
    await endpoint.send(
        ("first", fp32([1.0]), "echo"),
        ("hanging", text(parameters={"seconds": 60}), "slow"),
        ("third", fp32([1.0]), "echo"),
    )
    await endpoint.answers("first", "third")
    eventually(lambda: endpoint.running.noted("start hanging"))
    endpoint.running.process.send_signal(signal.SIGKILL)
    endpoint.running.process.wait(30)
    assert await broker.committed(endpoint.asked, endpoint.name) <= 1


async def test_server_starts_without_broker_and_reconnects(tmp_path: Path) -> None:
    broker = Broker(start=False)
    endpoint = Endpoint(tmp_path, broker)
    try:
        assert endpoint.running.infer("echo", fp32([1.0])).status_code == 200
        eventually(lambda: f"Kafka at {broker.address}" in endpoint.running.text(), 30)
        broker.start()
        await endpoint.send(("late", fp32([1.0]), "echo"))
        assert (await endpoint.answers("late"))["late"]["outputs"]
        broker.stop()
        eventually(lambda: "[aiokafka" in endpoint.running.text().partition("reading")[2], 30)
        broker.start()
        await endpoint.send(("later", fp32([1.0]), "echo"))
        assert (await endpoint.answers("later"))["later"]["outputs"]
    finally:
        assert endpoint.running.stop() == 0, endpoint.running.text()
        broker.stop()


def test_server_stops_in_time_without_broker(tmp_path: Path) -> None:
    endpoint = Endpoint(tmp_path, Broker(start=False))
    eventually(lambda: "Kafka at" in endpoint.running.text(), 30)
    assert endpoint.running.stop() == 0, endpoint.running.text()


GUARDED = """
import os
from inferstream import App, CallInfo, Refused

app = App()


@app.model
def double(n: int) -> int:
    return 2 * n


@app.middleware
async def positive(call: CallInfo, call_next):
    with open(os.environ["TEST_LOG"], "a") as file:
        file.write(f"{call.face} {call.model} {call.headers.get('x-user')}\\n")
    if call.request.inputs[0].data[0] < 0:
        raise Refused("negative", 401)
    return await call_next(call)
"""


async def test_app_middleware_runs_around_calls(broker: Broker, tmp_path: Path, workers: int) -> None:
    name = next_group()
    folder = tmp_path / "code"
    folder.mkdir()
    (folder / "app.py").write_text(GUARDED)
    kafka = {
        "kafka_enabled": True,
        "kafka_servers": broker.address,
        "kafka_topic_input": f"{name}-in",
        "kafka_topic_output": f"{name}-out",
        "kafka_group": name,
        "kafka_offset_reset": "earliest",
        "parallel_workers": workers,
    }
    (folder / "settings.json").write_text(json.dumps(kafka))
    server = Running(folder, target=str(folder / "app.py"))
    requests = {key: {"inputs": [tensor("n", "INT64", [n])]} for key, n in (("good", 21), ("bad", -1))}
    headers = {"mlserver-model": "double", "x-user": "ada"}
    await broker.send(
        f"{name}-in", *((key, json.dumps(document).encode(), headers) for key, document in requests.items())
    )
    records = await broker.received(f"{name}-out", requests)
    answers = {key: json.loads(record.value) for key, record in records.items()}
    assert answers["good"]["outputs"][0]["data"] == [42]
    assert (answers["bad"]["error"], answers["bad"]["code"]) == ("negative", "unauthenticated")
    assert server.log.read_text().splitlines() == ["kafka double ada"] * 2
    assert server.stop() == 0, server.text()
