"""Folders written for MLServer, and the requests of its documentation: answered as there, with and without workers."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from functools import partial

import grpc
import httpx
import pytest
from httpx_sse import connect_sse
from websockets.sync.client import connect

from inferstream.protos.converters import ModelInferRequestConverter
from inferstream.protos.dataplane_pb2_grpc import GRPCInferenceServiceStub
from inferstream.types import InferenceRequest
from tests.e2e.mlserver_folders import DOCUMENTED, ODDITIES, write_folders
from tests.serving import Running


@pytest.fixture(scope="module")
def served(workers: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = write_folders(tmp_path_factory.mktemp("folders") / "models")
    settings = {"parallel_workers": workers, "cache_enabled": True}
    (folder / "settings.json").write_text(json.dumps(settings))
    running = Running(folder)
    yield running
    assert running.stop() == 0, running.text()


@pytest.fixture(scope="module")
def stub(served: Running) -> Iterator[GRPCInferenceServiceStub]:
    with grpc.insecure_channel(served.grpc) as channel:
        yield GRPCInferenceServiceStub(channel)


def by_rest(served: Running, model: str, request: dict) -> dict:
    answer = served.infer(model, request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def by_events(served: Running, model: str, request: dict) -> dict:
    with httpx.Client(timeout=20) as client:
        url = f"{served.url}/v2/models/{model}/infer_stream"
        with connect_sse(client, "POST", url, json=request) as source:
            [event] = source.iter_sse()
            return event.json()


def by_websocket(served: Running, model: str, request: dict) -> dict:
    url = f"{served.url.replace('http', 'ws', 1)}/v2/models/{model}/stream"
    with connect(url, open_timeout=20, close_timeout=5) as socket:
        socket.send(json.dumps({**request, "id": "r"}))
        return json.loads(socket.recv(20))


REST = pytest.mark.parametrize("ask", [by_rest, by_events, by_websocket])


@pytest.mark.parametrize("what", DOCUMENTED)
@REST
def test_documented_requests_work(served: Running, ask, what: str) -> None:
    model, request = DOCUMENTED[what]
    outputs = ask(served, model, request)["outputs"]
    if model == "content-type-example":
        keys = ("name", "shape", "datatype", "data")
        assert [[found[key] for key in keys] for found in outputs] == [
            [given[key] for key in keys] for given in request["inputs"]
        ]
    elif model == "transformer":
        texts = [json.loads(text)["generated_text"] for text in outputs[0]["data"]]
        assert texts == [text + " and so on" for text in request["inputs"][0]["data"]]
    else:
        assert outputs[0]["data"] == [pytest.approx(13.586)]


@pytest.mark.parametrize("streamed", [False, True], ids=["infer", "stream"])
@pytest.mark.parametrize("what", DOCUMENTED)
def test_documented_requests_work_over_grpc(
    stub: GRPCInferenceServiceStub, what: str, streamed: bool
) -> None:
    model, request = DOCUMENTED[what]
    message = ModelInferRequestConverter.from_types(InferenceRequest.model_validate(request), model)
    [answer] = stub.ModelStreamInfer(iter([message])) if streamed else [stub.ModelInfer(message, timeout=20)]
    if model == "wine-classifier":
        assert answer.outputs[0].contents.fp64_contents[0] == pytest.approx(13.586)
        return
    found = [element.decode() for element in answer.outputs[-1].contents.bytes_contents]
    texts = request["inputs"][-1]["data"]
    if model == "transformer":
        assert [json.loads(text)["generated_text"] for text in found] == [t + " and so on" for t in texts]
    elif request["inputs"][-1]["datatype"] == "BYTES":
        assert found == ([texts] if isinstance(texts, str) else texts)
    else:
        assert list(answer.outputs[0].contents.int_contents) == [1, 2, 3, 4]


@pytest.mark.parametrize("model", ["odd", "odd-cached", "odd-batched"])
@pytest.mark.parametrize("what", ODDITIES)
@REST
def test_inconsistent_tensors_are_accepted_like_mlserver(served: Running, ask, what: str, model: str) -> None:
    (_, request), expected = ODDITIES[what]
    for _ in range(2 if model == "odd-cached" else 1):  # what is known already is answered alike
        [output] = ask(served, model, request)["outputs"]
        assert output["data"] == expected
    if what == "shape that does not fit":
        assert output["shape"] == [7, 3]


def test_cache_distinguishes_equal_numbers_of_other_types(served: Running) -> None:
    request = deepcopy(ODDITIES["texts as FP32"][0][1])
    for data in (["1", "2.5"], [True, 2.5], [[1.0], [2.5]], [1.0, 2.5]):
        request["inputs"][0]["data"] = data
        request["parameters"]["do"] = "echoed"
        assert by_rest(served, "odd-cached", request)["outputs"][0]["data"] == data


def test_input_not_matching_shape_is_not_batched(served: Running) -> None:
    """Where it shared one, its values would be taken for those of its neighbours."""
    sound = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 1], "data": [1.0, 2.0]}]}
    requests = []
    for index in range(24):
        request = {**deepcopy(sound), "parameters": {"do": "numbers"}}
        values = [float(index), float(index + 1)]
        request["inputs"][0]["data"] = ["7", True, 9] if index % 3 == 0 else values
        requests.append((request, [7.0, 1.0, 9.0] if index % 3 == 0 else values))
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(partial(served.infer, "odd-batched"), [request for request, _ in requests]))
    for answer, (_, expected) in zip(answers, requests, strict=True):
        if answer.status_code == 200:
            assert answer.json()["outputs"][0]["data"] == expected
        else:  # three values cannot be reshaped to two rows, which the model is told
            assert expected == [7.0, 1.0, 9.0], answer.text
            assert answer.status_code == 400, answer.text


def test_response_not_fitting_typed_contents_is_reported(
    served: Running, stub: GRPCInferenceServiceStub
) -> None:
    for what, expected in (
        ("nested", [1.5, 2.5, 3.5, 4.5]),
        ("misfit", [1.5, 2.5]),
        ("ragged", None),
        ("text", None),
    ):
        request = InferenceRequest.model_validate(
            {**ODDITIES["nested answer"][0][1], "parameters": {"do": what}}
        )
        message = ModelInferRequestConverter.from_types(request, "odd")
        if expected is not None:
            answer = stub.ModelInfer(message, timeout=20)
            assert list(answer.outputs[0].contents.fp32_contents) == expected
            continue
        with pytest.raises(grpc.RpcError) as failed:
            stub.ModelInfer(message, timeout=20)
        assert failed.value.code() is grpc.StatusCode.INTERNAL
        assert 'Output "y" cannot be written' in failed.value.details()
    assert served.process.poll() is None


@REST
def test_response_not_fitting_json_is_model_failure(served: Running, ask) -> None:
    (model, request), _ = ODDITIES["nested answer"]
    request = {**request, "parameters": {"do": "unwritable"}}
    assert served.infer(model, request).status_code == 500
    assert served.process.poll() is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": [-1]}, "-1 in shape is not a size"),
        ({"shape": [2**40, 2**40]}, "too many values"),
        ({"name": "a\nb"}, "not printable"),
        ({"datatype": "FP31"}, "unknown datatype"),
        ({"data": json.loads("[" * 40 + "]" * 40)}, "nested deeper"),
        ({"parameters": {"p": json.loads("[" * 40 + "]" * 40)}}, "nested deeper"),
    ],
)
def test_harmful_requests_are_refused_anyway(served: Running, changes: dict, message: str) -> None:
    request = deepcopy(ODDITIES["nested answer"][0][1])
    request["inputs"][0] |= changes
    answer = served.infer("odd", request)
    assert answer.status_code == 400
    assert message in answer.json()["error"]
    assert served.infer("odd", ODDITIES["nested answer"][0][1]).status_code == 200


def test_validation_setting_applies_to_mlserver_models(served: Running) -> None:
    for what in ("booleans as FP32", "nested parameters"):
        assert served.infer("checked", ODDITIES[what][0][1]).status_code == 400
    misfit = served.infer("checked", ODDITIES["shape that does not fit"][0][1])
    assert misfit.status_code == 500
    assert "needs 21 values, got 2" in misfit.json()["error"]
