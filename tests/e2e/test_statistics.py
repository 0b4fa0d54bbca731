"""Triton's statistics over REST, the list of models, and paths that nobody answers."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
import tritonclient.http as triton_http

from tests.e2e.test_batching import CODE
from tests.frontends import MANY, clients
from tests.serving import Running, fp32, tensor, text, write_model

MEMBERS = {
    "success",
    "fail",
    "queue",
    "compute_input",
    "compute_infer",
    "compute_output",
    "cache_hit",
    "cache_miss",
}


def stats(server: Running, path: str) -> list[dict]:
    answer = httpx.get(f"{server.url}/v2/models/{path}", timeout=10)
    assert answer.status_code == 200, answer.text
    return answer.json()["model_stats"]


def test_calls_and_durations_are_counted(server: Running) -> None:
    def counted() -> tuple[int, ...]:
        [found] = stats(server, "slow/stats")
        assert found["inference_stats"].keys() == MEMBERS
        times = found["inference_stats"]
        counts = (times["success"]["count"], times["compute_infer"]["count"], found["execution_count"])
        nanoseconds = (times["success"]["ns"], times["compute_infer"]["ns"])
        return *counts, found["inference_count"], found["last_inference"], *nanoseconds

    before = counted()
    for _ in range(2):
        assert server.infer("slow", {**text("x"), "parameters": {"seconds": 0.05}}).status_code == 200
    after = counted()
    assert [new - old for new, old in zip(after[:4], before, strict=False)] == [2, 2, 2, 2]
    assert after[4] > 1.6e12  # milliseconds since 1970
    succeeded, computed = after[5] - before[5], after[6] - before[6]
    assert 0 < computed <= succeeded


def test_failures_are_counted_separately(server: Running) -> None:
    [before] = stats(server, "failing/stats")
    assert server.infer("failing", text("x")).status_code >= 400
    [after] = stats(server, "failing/stats")
    assert after["execution_count"] == before["execution_count"]
    old, new = before["inference_stats"], after["inference_stats"]
    assert new["fail"]["count"] == old["fail"]["count"] + 1
    assert new["fail"]["ns"] > old["fail"]["ns"]
    assert new["success"] == old["success"]


def test_statistics_of_version_all_versions_and_all_models(server: Running) -> None:
    server.infer("versions/versions/2", text())
    [found] = stats(server, "versions/versions/2/stats")
    assert (found["name"], found["version"]) == ("versions", "2")
    assert found["execution_count"] >= 1
    assert {found["version"] for found in stats(server, "versions/stats")} == {"1", "2", "10"}
    everything = {(found["name"], found["version"]) for found in stats(server, "stats")}
    assert {("echo", ""), ("versions", "1"), ("names/with space ü", "")} <= everything
    assert [found["name"] for found in stats(server, "names/with%20space%20%C3%BC/stats")] == [
        "names/with space ü"
    ]
    for path in ("nobody", "versions/versions/3", ""):
        answer = httpx.get(f"{server.url}/v2/models/{path}/stats")
        assert answer.status_code == 404
        assert "not found" in answer.json()["error"]


def test_triton_client_reads_statistics(server: Running) -> None:
    with triton_http.InferenceServerClient(f"127.0.0.1:{server.http_port}") as client:
        assert "statistics" in client.get_server_metadata()["extensions"]
        assert client.get_inference_statistics("versions", "1")["model_stats"][0]["version"] == "1"
        assert len(client.get_inference_statistics()["model_stats"]) > 10


def test_model_names_are_listed(server: Running) -> None:
    found = httpx.get(f"{server.url}/v2/models").json()["models"]
    assert {"echo", "versions", "names/with space ü"} <= set(found)
    assert found == sorted(set(found))


@pytest.mark.parametrize("frontends", [1, 2])
def test_batch_is_one_execution_of_many_inferences(
    serve: Callable[..., Running], frontends: int, tmp_path: Path
) -> None:
    settings = {"max_batch_size": 4, "max_batch_time": 5}
    folder = tmp_path / "models"
    write_model(folder, "rows", "rows.Rows", CODE, name="rows", **settings)
    (folder / "settings.json").write_text(json.dumps({"frontends": frontends}))
    server = serve(folder)
    one = {"inputs": [tensor("x", "FP32", [1.0], [1, 1])]}
    with ThreadPoolExecutor(MANY) as pool, clients(server) as each:
        asked = [pool.submit(client.post, "/v2/models/rows/infer", json=one) for client in each]
        assert {answer.result().status_code for answer in asked} == {200}
    assert server.infer("rows", {"inputs": [tensor("x", "FP32", [1.0] * 3, [3, 1])]}).status_code == 200
    [found] = stats(server, "rows/stats")
    assert found["inference_count"] == MANY + 3
    assert found["inference_stats"]["success"]["count"] == MANY + 1
    sizes = {batch["batch_size"]: batch["compute_infer"]["count"] for batch in found["batch_stats"]}
    assert sum(sizes.values()) == found["execution_count"]
    assert sum(size * count for size, count in sizes.items()) == MANY + 3
    assert sizes[3] >= 1


def test_cache_hits_are_not_executions(start: Callable[..., Running], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    write_model(folder, "echo", "faulty_models.Echo", name="echo", cache_enabled=True)
    (folder / "settings.json").write_text(json.dumps({"cache_enabled": True}))
    server = start(folder)
    for _ in range(3):
        assert server.infer("echo", fp32([1.0])).status_code == 200
    [found] = stats(server, "echo/stats")
    assert found["execution_count"] == found["inference_count"] == 1
    times = found["inference_stats"]
    assert (times["success"]["count"], times["cache_hit"]["count"], times["cache_miss"]["count"]) == (3, 2, 1)


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_unknown_paths_below_models_are_404(server: Running, method: str) -> None:
    answer = httpx.request(method, f"{server.url}/v2/models/echo/explain")
    assert answer.status_code == 404
    error = answer.json()["error"]
    assert error.startswith("Model echo/explain not found")
    assert ("generate_stream" in error) == (method == "POST")


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("path", ["unregister", "status", "region/r/register"])
def test_unsupported_extension_is_501(server: Running, method: str, path: str) -> None:
    answer = httpx.request(method, f"{server.url}/v2/cudasharedmemory/{path}")
    assert answer.status_code == 501
    assert "cuda_shared_memory" in answer.json()["error"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("models/echo/config", 200),
        ("models/versions/versions/2/config", 200),
        ("models/echo/versions/1/config", 404),
        ("models/nobody/config", 404),
        ("models/echo/trace/setting", 200),
        ("models/nobody/trace/setting", 404),
        ("trace/setting", 200),
        ("logging", 200),
        ("systemsharedmemory/status", 200),
        ("systemsharedmemory/region/nobody/status", 404),
    ],
)
def test_other_triton_extensions_work(server: Running, path: str, status: int) -> None:
    answer = httpx.get(f"{server.url}/v2/{path}")
    assert answer.status_code == status, answer.text
    assert (status == 200) == ("error" not in answer.json())
