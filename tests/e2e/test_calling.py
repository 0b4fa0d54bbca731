"""Models that call others over every door: streams through workers, cancels, errors and traces of keys."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton

from tests.serving import SERVER, Running, eventually

APP = Path(__file__).with_name("calling_app.py")


@pytest.fixture(scope="module", params=["1", "2"], ids=["1 front end", "2 front ends"])
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(
        tmp_path_factory.mktemp("calling"), target=str(APP), within=60, INFERSTREAM_FRONTENDS=request.param
    )
    yield running
    assert running.stop() == 0, running.text()


def stream(served: Running, model: str, **inputs: str) -> list[str]:
    url = f"{served.url}/v2/models/{model}/generate_stream"
    with httpx.stream("POST", url, json=inputs, timeout=20) as response:
        events = [json.loads(line[6:]) for line in response.iter_lines() if line.startswith("data: {")]
    return [event["output"] if "output" in event else event["error"] for event in events]


def test_three_stages_stream_over_http(served: Running) -> None:
    assert stream(served, "answer", question="a bb") == ["a", "bbbb"]


def test_three_stages_stream_over_grpc(served: Running) -> None:
    texts: list[bytes] = []
    ended: list[object] = []

    def came(result: triton.InferResult | None, error: object) -> None:
        if error is not None or result.get_response().parameters["triton_final_response"].bool_param:
            ended.append(error)
        else:
            texts.append(result.as_numpy("output")[0])

    question = triton.InferInput("question", [1], "BYTES")
    question.set_data_from_numpy(np.array([b"a bb"], dtype=object))
    with triton.InferenceServerClient(f"127.0.0.1:{served.grpc_port}") as client:
        client.start_stream(callback=came)
        client.async_stream_infer("answer", [question], enable_empty_final_response=True)
        eventually(lambda: ended)
        client.stop_stream()
    assert (texts, ended) == ([b"a", b"bbbb"], [None])


def test_threaded_function_calls_model_in_workers(served: Running) -> None:
    response = httpx.post(f"{served.url}/v2/models/total/generate", json={"text": "a bb ccc"}, timeout=20)
    assert response.json()["output"] == 6


def test_client_disconnect_closes_every_stage(served: Running) -> None:
    before = served.log.read_text().splitlines()
    url = f"{served.url}/v2/models/answer/generate_stream"
    with httpx.stream("POST", url, json={"question": "for ever"}, timeout=20) as response:
        next(response.iter_lines())

    def closed() -> list[str]:
        return sorted(served.log.read_text().splitlines()[len(before) :])

    assert eventually(lambda: len(closed()) == 3)
    assert closed() == ["closed answer", "closed speech", "closed tokens"]


def test_inner_error_is_reported_once_and_ends_stream(served: Running) -> None:
    (first, error) = stream(served, "answer", question="a raise")
    assert first == "a"
    assert error.startswith("Model loudness failed")


def test_worker_crash_in_inner_call_ends_stream_with_error(served: Running) -> None:
    (first, error) = stream(served, "answer", question="a die")
    assert first == "a"
    assert error == "The worker process that ran this request exited with status 3."
    eventually(lambda: stream(served, "answer", question="a") == ["a"])


def test_metadata_shows_called_models(served: Running) -> None:
    document = httpx.get(f"{served.url}/v2/models/answer/docs/dataplane.json").json()
    assert document["info"]["x-model"]["calls"] == {"speech": {"tokens": {}, "loudness": {}}}


def test_inner_calls_are_counted_per_model(served: Running) -> None:
    before = served.metric("model_infer_request_success_total", model="loudness")
    stream(served, "answer", question="a bb ccc")
    after = served.metric("model_infer_request_success_total", model="loudness")
    assert after - before == 3


def test_key_for_outer_model_suffices(tmp_path: Path) -> None:
    """The author of a model decides what it calls; a key says who may call the model."""
    keys = tmp_path / "keys.json"
    command = (
        "keys",
        "add",
        "--principal",
        "ada",
        "--scope",
        "infer",
        "--scope",
        "stream",
        "--model",
        "answer",
    )
    key = subprocess.run([*SERVER, *command, "--file", str(keys)], check=True, capture_output=True, text=True)
    audit = tmp_path / "audit"
    settings = {"INFERSTREAM_KEYS_FILE": str(keys), "INFERSTREAM_AUDIT_LOG": str(audit)}
    running = Running(tmp_path / "calling", target=str(APP), within=60, **settings)
    headers = {"authorization": f"Bearer {key.stdout.split()[-1]}"}
    try:
        ask = {"question": "a bb"}
        allowed = httpx.post(
            f"{running.url}/v2/models/answer/generate_stream", json=ask, headers=headers, timeout=20
        )
        refused = httpx.post(
            f"{running.url}/v2/models/speech/generate_stream", json=ask, headers=headers, timeout=20
        )
        assert (allowed.status_code, refused.status_code) == (200, 403)
        assert "bbbb" in allowed.text
    finally:
        assert running.stop() == 0
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert {line["model"] for line in lines if line["status"] == 200} == {"answer"}
