"""Streams that advance together, over every transport, with and without workers."""

import itertools
import json
import shutil
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import NamedTuple

import grpc
import httpx
import pytest
import tritonclient.grpc as triton_grpc
from httpx_sse import connect_sse
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.sync.client import connect

from inferstream.protos.dataplane_pb2 import ModelInferRequest
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from tests.serving import Running, eventually, text, write_model

ENDLESS = 10**9


def write_models(folder: Path) -> Path:
    for name, implementation in {"steps": "Counting", "async": "AsyncCounting", "both": "Both"}.items():
        model = write_model(
            folder,
            name,
            f"step_models.{implementation}",
            "",
            max_active=64,
            max_batch_size=4,
            max_batch_time=1,
        )
        shutil.copy(Path(__file__).with_name("step_models.py"), model)
    write_model(folder, "echo", "faulty_models.Echo")
    return folder


@pytest.fixture(scope="module")
def stepping(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_models(tmp_path_factory.mktemp("stepping") / "models")
    (folder / "settings.json").write_text(json.dumps({"parallel_workers": workers}))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


def _sse(server: Running, model: str, name: str, parameters: dict) -> Iterator[str]:
    body = text(id=name, parameters=parameters)
    url = f"{server.url}/v2/models/{model}/generate_stream"
    with httpx.Client(timeout=20) as client, connect_sse(client, "POST", url, json=body) as source:
        if source.response.status_code != 200:
            yield str(source.response.status_code)
            return
        for event in source.iter_sse():
            item = json.loads(event.data)
            yield item["code"] if event.event == "error" else item["outputs"][0]["data"][0]


def _ws(server: Running, model: str, name: str, parameters: dict) -> Iterator[str]:
    url = f"{server.url.replace('http', 'ws', 1)}/v2/models/{model}/stream"
    with connect(url, close_timeout=0.2) as websocket:
        websocket.send(json.dumps(text(id=name, parameters=parameters)))
        for message in websocket:
            item = json.loads(message)
            if "error" in item:
                yield item["code"]
                return
            if item["outputs"]:
                yield item["outputs"][0]["data"][0]
            if item["parameters"]["triton_final_response"]:
                return


def _message(model: str, name: str, parameters: dict) -> ModelInferRequest:
    message = ModelInferRequest(model_name=model, id=name)
    for key, value in parameters.items():
        message.parameters[key].int64_param = value
    return message


def _grpc(server: Running, model: str, name: str, parameters: dict) -> Iterator[str]:
    with grpc.insecure_channel(server.grpc) as channel:
        call = GRPCInferenceServiceStub(channel).ModelStreamInfer(
            iter([_message(model, name, parameters)]), timeout=20
        )
        try:
            for item in call:
                yield item.outputs[0].contents.bytes_contents[0].decode()
        except grpc.RpcError as error:
            yield error.code().name.lower()
        finally:
            call.cancel()


def _triton(server: Running, model: str, name: str, parameters: dict) -> Iterator[str]:
    client, found = triton_grpc.InferenceServerClient(server.grpc), Queue()
    client.start_stream(lambda result, error: found.put((result, error)))
    try:
        client.async_stream_infer(
            model, [], request_id=name, parameters=parameters, enable_empty_final_response=True
        )
        while True:
            result, error = found.get(timeout=20)
            if error is not None:
                yield str(error)
                return
            if result.get_response().outputs:
                yield result.as_numpy("output").item().decode()
            if result.get_response().parameters["triton_final_response"].bool_param:
                return
    finally:
        client.stop_stream(cancel_requests=True)
        client.close()


BATCHES = itertools.count(1)
WAYS = {"sse": _sse, "ws": _ws, "grpc": _grpc, "triton": _triton}
TRANSPORTS = pytest.mark.parametrize("stream", WAYS.values(), ids=WAYS)


def items(count: int) -> list[str]:
    return [f"item {i}" for i in range(count)]


def sizes_above(server: Running, model: str, size: int) -> float:
    """Steps over more than `size` states."""
    below = server.metric("inferstream_step_size_bucket", model=model, le=f"{size}")
    return server.metric("inferstream_step_size_count", model=model) - below


@pytest.mark.parametrize("model", ["steps", "async"])
def test_streams_over_every_transport_share_steps(stepping: Running, model: str) -> None:
    def asked(way: str, count: int) -> list[str]:
        return list(WAYS[way](stepping, model, f"{way}-{count}", {"items": count, "held": 1}))

    with ThreadPoolExecutor(12) as pool:
        found = {(way, count): pool.submit(asked, way, count) for way in WAYS for count in (1, 30, 200)}
        try:
            eventually(lambda: stepping.metric("inferstream_streams_active", model=model) == 12)
            eventually(lambda: sizes_above(stepping, model, 4) >= 1)
        finally:
            stepping.log.with_name(f"go-{model}").touch()
    for (_, count), future in found.items():
        assert future.result() == items(count)
    eventually(lambda: stepping.metric("inferstream_step_size_sum", model=model) >= 4 * 231)
    eventually(lambda: stepping.metric("inferstream_streams_active", model=model) == 0)


@TRANSPORTS
def test_disconnect_releases_state(stepping: Running, stream) -> None:
    name = f"left{stream.__name__}"
    leaving = stream(stepping, "steps", name, {"items": ENDLESS})
    assert next(leaving) == "item 0"
    assert next(leaving) == "item 1"
    leaving.close()
    eventually(lambda: stepping.noted(f"release {name}"))
    stepping.probe()


@TRANSPORTS
def test_failing_stream_fails_alone(stepping: Running, stream) -> None:
    name = f"failed{stream.__name__}"
    other = stream(stepping, "steps", f"beside-{name}", {"items": 50})
    next(other)
    *before, end = stream(stepping, "steps", name, {"items": 9, "fail_at": 3})
    assert before == items(2)
    assert "internal" in end or "failed on request" in end
    assert "canary" not in end
    assert list(other) == items(50)[1:]
    assert stepping.log.read_text().splitlines().count(f"release {name}") == 1


def test_refused_request_is_a_status(stepping: Running) -> None:
    assert list(_sse(stepping, "steps", "refused", {"refuse": 1})) == ["409"]
    assert stepping.infer("steps", text(parameters={"refuse": 1})).json()["error"] == "not this one"


def test_raising_step_ends_its_streams(stepping: Running) -> None:
    answer = stepping.infer("async", text(id="alone", parameters={"items": 9, "break_at": 2}))
    assert answer.status_code == 500
    assert "failed in a step" in answer.json()["error"]
    assert "canary" not in answer.text
    assert list(_sse(stepping, "async", "broken", {"items": 9, "break_at": 2})) == [*items(2), "internal"]
    assert list(_sse(stepping, "async", "after", {"items": 2})) == items(2)


def test_timeout_ends_stream_between_steps(stepping: Running) -> None:
    url = f"{stepping.url}/v2/models/steps/generate_stream"
    body = text(id="late", parameters={"items": ENDLESS})
    answer = httpx.post(url, json=body, headers={"X-Request-Timeout": "0.3"}, timeout=20)
    assert '"code":"deadline_exceeded"' in answer.text
    assert '"item 1"' in answer.text
    eventually(lambda: stepping.noted("release late"))


def test_single_responses_over_rest_and_grpc(stepping: Running) -> None:
    answer = stepping.infer("steps", text(id="one", parameters={"items": 4})).json()
    assert answer["outputs"][0]["data"] == ["item 0 item 1 item 2 item 3"]
    with grpc.insecure_channel(stepping.grpc) as channel:
        found = GRPCInferenceServiceStub(channel).ModelInfer(
            _message("async", "two", {"items": 2}), timeout=20
        )
    assert found.outputs[0].contents.bytes_contents[0] == b"item 0 item 1"


def test_single_responses_can_be_batched_next_to_steps(stepping: Running) -> None:
    streaming = _sse(stepping, "both", "stream", {"items": 200})
    next(streaming)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: stepping.infer("both", text()).json(), range(4)))
    assert all(answer["outputs"][0]["data"][0].startswith("predicted") for answer in found)
    assert list(streaming) == items(200)[1:]


def test_requests_on_bidirectional_stream_run_in_sequence(stepping: Running) -> None:
    messages = [_message("steps", "turns", {"items": count}) for count in (2, 3)]
    with grpc.insecure_channel(stepping.grpc) as channel:
        found = GRPCInferenceServiceStub(channel).ModelStreamInfer(iter(messages), timeout=20)
        assert [item.outputs[0].contents.bytes_contents[0].decode() for item in found] == [
            *items(2),
            *items(3),
        ]


def test_stalled_reader_does_not_block_others(stepping: Running) -> None:
    body = json.dumps(text(id="slow", parameters={"items": ENDLESS, "padding": 100_000}))
    head = "POST /v2/models/steps/generate_stream HTTP/1.1\r\nHost: localhost\r\nContent-Length:"
    with socket.create_connection(("127.0.0.1", stepping.http_port)) as slow:
        slow.sendall(f"{head} {len(body)}\r\n\r\n{body}".encode())
        slow.recv(1)

        def stepped() -> float:
            return stepping.metric("inferstream_step_size_count", model="steps")

        def stands() -> bool:
            before = stepped()
            list(_sse(stepping, "async", "meanwhile", {"items": 300}))
            return stepped() == before

        eventually(stands, 20)
        assert not stepping.noted("release slow")
        assert list(_sse(stepping, "steps", "quick", {"items": 100})) == items(100)
    eventually(lambda: stepping.noted("release slow"))


class Asked(NamedTuple):
    """One client of many: it leaves after its first item, if it does not stay."""

    way: str
    count: int
    fails: bool
    stays: bool

    def read(self, server: Running, name: str) -> None:
        parameters = {"items": self.count, **({"fail_at": 5} if self.fails else {})}
        found = WAYS[self.way](server, "steps", name, parameters)
        if not self.stays:
            assert next(found) == "item 0"
            found.close()
        elif self.fails and self.count > 4:
            *before, error = found
            assert before == items(4)
            assert error not in items(150)
        else:
            assert list(found) == items(self.count)


CLIENTS = st.lists(
    st.builds(
        Asked,
        st.sampled_from(list(WAYS)),
        st.sampled_from([1, 2, 7, 40, 150]),
        st.sampled_from([False, False, True]),
        st.sampled_from([True, True, False]),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=8, deadline=None)
@given(clients=CLIENTS)
def test_random_clients_get_own_items_and_states_are_released_once(
    stepping: Running, clients: list[Asked]
) -> None:
    batch = next(BATCHES)
    with ThreadPoolExecutor(len(clients)) as pool:
        reading = [
            pool.submit(client.read, stepping, f"batch{batch}-{index}")
            for index, client in enumerate(clients)
        ]
        for done in reading:
            done.result()

    def events(what: str) -> list[str]:
        lines = stepping.log.read_text().splitlines()
        return sorted(line.split()[1] for line in lines if line.startswith(f"{what} batch{batch}-"))

    eventually(lambda: len(events("release")) == len(clients))
    assert events("release") == events("admit")


def test_reload_and_unload_end_and_release_streams(stepping: Running) -> None:
    staying = _sse(stepping, "both", "stays", {"items": 300})
    next(staying)
    url = f"{stepping.url}/v2/repository/models/both"
    assert httpx.post(f"{url}/load", timeout=30).status_code == 200
    assert list(_sse(stepping, "both", "new", {"items": 2})) == items(2)
    assert list(staying) == items(300)[1:], "a stream goes on with the version that began it"
    assert httpx.post(f"{url}/unload", timeout=30).status_code == 200
    lines = stepping.log.read_text().splitlines()
    assert lines.count("release stays") == 1
    assert lines[-1] == "unload"


def test_shutdown_releases_running_streams(serve, tmp_path: Path) -> None:
    folder = write_models(tmp_path / "models")
    running = serve(folder, INFERSTREAM_SHUTDOWN_GRACE="0.5")
    with ThreadPoolExecutor(4) as pool:
        found = [
            pool.submit(list, stream(running, "steps", f"cut-{way}", {"items": ENDLESS}))
            for way, stream in WAYS.items()
        ]
        eventually(lambda: running.log.read_text().count("admit cut") == 4, 10)
        assert running.stop() == 0, running.text()
        for future in found:
            assert future.exception() is not None or future.result()[-1] not in items(10**5)
    lines = running.log.read_text().splitlines()
    released = sorted(line for line in lines if line.startswith("release"))
    assert released == [f"release cut-{way}" for way in sorted(WAYS)]
    assert "unload" in lines
