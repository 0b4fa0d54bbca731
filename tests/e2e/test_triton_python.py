"""Models of Triton's Python backend as they were written, asked by Triton's clients."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import Queue
from typing import Any

import httpx
import numpy as np
import pytest

pytest.importorskip("tritonclient")

import tritonclient.grpc as triton_grpc
import tritonclient.http as triton_http
from tritonclient.utils import InferenceServerException

from tests.plugins.triton import folders
from tests.serving import Running, eventually


@pytest.fixture(scope="module", params=[0, 2], ids=["process", "workers"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    root = tmp_path_factory.mktemp("python")
    for name in folders.MODELS:
        folders.written(root, name)
    running = Running(root, within=60, INFERSTREAM_PARALLEL_WORKERS=str(request.param))
    yield running
    assert running.stop() == 0, running.text()
    assert "Cleaning up..." in running.text()


def tensor(library: Any, name: str, values: np.ndarray, datatype: str) -> Any:
    made = library.InferInput(name, [*values.shape], datatype)
    made.set_data_from_numpy(values)
    return made


@pytest.mark.parametrize("library", [triton_http, triton_grpc], ids=["http", "grpc"])
def test_add_sub(server: Running, library: Any) -> None:
    client = library.InferenceServerClient(
        server.grpc if library is triton_grpc else f"127.0.0.1:{server.http_port}"
    )
    left, right = np.arange(4, dtype=np.float32), np.full(4, 2, np.float32)
    inputs = [tensor(library, "INPUT0", left, "FP32"), tensor(library, "INPUT1", right, "FP32")]
    answer = client.infer("add_sub", inputs)
    assert answer.as_numpy("OUTPUT0").tolist() == (left + right).tolist()
    assert answer.as_numpy("OUTPUT1").tolist() == (left - right).tolist()
    wanted = [library.InferRequestedOutput("OUTPUT1")]
    assert client.infer("add_sub", inputs, outputs=wanted).as_numpy("OUTPUT0") is None
    client.close()


@pytest.mark.parametrize("library", [triton_http, triton_grpc], ids=["http", "grpc"])
@pytest.mark.parametrize("model", ["add_sub", "square"])
def test_request_with_undeclared_inputs_is_refused(server: Running, library: Any, model: str) -> None:
    client = library.InferenceServerClient(
        server.grpc if library is triton_grpc else f"127.0.0.1:{server.http_port}"
    )
    values = np.zeros(4, np.float32)
    both = [tensor(library, name, values, "FP32") for name in ("INPUT0", "INPUT1", "INPUT2")]
    left, unknown = ([], both) if model == "square" else (both[:1], both)
    missing = "IN" if model == "square" else "INPUT1"
    for inputs, said in (
        (left, f'input "{missing}" is missing'),
        (unknown, "is not one of the model's inputs"),
    ):
        with pytest.raises(InferenceServerException, match=said) as refused:
            client.infer(model, inputs)
        assert refused.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    client.close()


def streamed(server: Running, model: str, inputs: list[Any], count: int) -> list[Any]:
    client = triton_grpc.InferenceServerClient(server.grpc)
    answers: Queue[tuple[Any, Any]] = Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    client.async_stream_infer(model, inputs, enable_empty_final_response=True)
    found = [answers.get(timeout=30) for _ in range(count + 1)]
    client.stop_stream()
    client.close()
    last = found[-1][0].get_response().parameters["triton_final_response"]
    assert last.bool_param
    assert not any(error for _, error in found)
    return [result for result, _ in found[:-1]]


def test_repeat(server: Running) -> None:
    values = np.array([4, 2, 0, 1], np.int32)
    inputs = [
        tensor(triton_grpc, "IN", values, "INT32"),
        tensor(triton_grpc, "DELAY", np.array([1, 2, 3, 4], np.uint32), "UINT32"),
    ]
    results = streamed(server, "repeat", inputs, 4)
    assert [int(each.as_numpy("OUT")[0]) for each in results] == [4, 2, 0, 1]
    assert [int(each.as_numpy("IDX")[0]) for each in results] == [0, 1, 2, 3]


def test_square(server: Running) -> None:
    results = streamed(server, "square", [tensor(triton_grpc, "IN", np.array([40], np.int32), "INT32")], 40)
    assert {int(each.as_numpy("OUT")[0]) for each in results} == {40}
    config = triton_http.InferenceServerClient(f"127.0.0.1:{server.http_port}").get_model_config("square")
    assert config["model_transaction_policy"] == {"decoupled": True}
    assert [each["name"] for each in config["input"]] == ["IN"]


def test_completed_configuration_is_visible_and_enforced(server: Running) -> None:
    client = triton_http.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    config = client.get_model_config("same")
    assert (config["max_batch_size"], config["dynamic_batching"]) == (4, {})
    (declared,) = config["input"]
    assert (
        declared.items() >= {"name": "IN", "data_type": "TYPE_INT32", "dims": [2], "optional": False}.items()
    )
    assert client.get_model_metadata("same")["inputs"][0]["shape"] == [-1, 2]
    four = np.zeros((4, 2), np.int32)
    answer = client.infer("same", [tensor(triton_http, "IN", four, "INT32")])
    assert answer.as_numpy("OUT").shape == (4, 2)
    with pytest.raises(InferenceServerException, match="5 rows; the model takes 4"):
        client.infer("same", [tensor(triton_http, "IN", np.zeros((5, 2), np.int32), "INT32")])
    client.close()


def test_requests_batch_without_delay_up_to_max_batch_size(server: Running) -> None:
    def asked(_: int) -> int:
        with triton_http.InferenceServerClient(f"127.0.0.1:{server.http_port}") as client:
            values = tensor(triton_http, "IN", np.zeros((2, 1), np.int32), "INT32")
            return int(client.infer("count_rows", [values]).as_numpy("OUT").max())

    with ThreadPoolExecutor(12) as pool:
        rows = [*pool.map(asked, range(24))]
    assert set(rows) == {2, 4}


def test_rest_events_and_model_error(server: Running) -> None:
    url = f"{server.url}/v2/models/square/generate_stream"
    with httpx.stream("POST", url, json={"IN": 3}) as answer:
        events = [line for line in answer.iter_lines() if line.startswith("data:")]
    assert len(events) == 3
    refused = httpx.post(url, json={"IN": -1})
    assert (refused.status_code, refused.json()["error"]) == (400, "a negative number has no square here")


def test_code_detects_client_disconnect(server: Running) -> None:
    with httpx.stream(
        "POST", f"{server.url}/v2/models/square/generate_stream", json={"IN": 2_000_000}
    ) as answer:
        next(answer.iter_lines())
    eventually(lambda: "cancelled" in server.text())


def test_unary_request_has_one_response(server: Running) -> None:
    client = triton_http.InferenceServerClient(f"127.0.0.1:{server.http_port}")
    answer = client.infer("square", [tensor(triton_http, "IN", np.array([1], np.int32), "INT32")])
    assert answer.as_numpy("OUT").tolist() == [1]
    with pytest.raises(InferenceServerException, match="more than one response; call it as a stream"):
        client.infer("square", [tensor(triton_http, "IN", np.array([2], np.int32), "INT32")])
    client.close()


@pytest.mark.parametrize("empty", [False, True])
@pytest.mark.parametrize(
    ("count", "apart", "threaded"), [(3, 0, 0), (1, 0, 0), (2, 1, 0), (3, 0, 1), (2, 1, 1)]
)
def test_final_response_flag(server: Running, count: int, apart: int, threaded: int, empty: bool) -> None:
    client = triton_grpc.InferenceServerClient(server.grpc)
    answers: Queue[tuple[Any, Any]] = Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    ask = tensor(triton_grpc, "ASK", np.array([count, apart, threaded], np.int32), "INT32")
    client.async_stream_infer("last", [ask], enable_empty_final_response=empty)
    wanted = [*[False] * (count - 1), not apart, *([True] if apart and empty else [])]
    found = [answers.get(timeout=30)[0].get_response() for _ in wanted]
    client.stop_stream()
    client.close()
    assert [each.parameters["triton_final_response"].bool_param for each in found] == wanted
    assert [len(each.outputs) for each in found] == [*[1] * count, 0][: len(wanted)]
    assert answers.empty()


def test_single_response_has_no_final_marker(server: Running) -> None:
    asked = {"inputs": [{"name": "ASK", "datatype": "INT32", "shape": [3], "data": [1, 0, 0]}]}
    body = httpx.post(f"{server.url}/v2/models/last/infer", json=asked).json()
    assert "parameters" not in body
    assert body["outputs"][0]["data"] == [0]
